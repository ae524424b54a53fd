"""What a rubric asks, read out of its row for the eye.

Above: judged.py, labelling.py. Below: store/rubrics.py. A row may come from a file of anybody: what is not as judge/
writes it is left out, and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from proxy.dashboard.words import as_object
from proxy.store.rubrics import Rubric

MAX_CRITERIA = 40
TEXT_CHARS = 1_000
HASH_CHARS = 12
"""Of a hash on a page."""
CATEGORIES: Mapping[str, str] = {
    "task_fulfilment": "Task fulfilment",
    "tool_appropriateness": "Tool appropriateness",
    "tool_grounding": "Tool grounding",
    "parameter_accuracy": "Parameter accuracy",
}
"""In their order on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One criterion."""

    id: str
    category: str
    text: str
    weight: int | None
    essential: bool
    """Where it fails, the whole reward is capped."""
    pitfall: bool
    """Its text describes a mistake."""


def asked(rubric: Rubric) -> tuple[Asked, ...]:
    """The criteria, those of one category together."""
    found = list(_read(rubric.content))
    order = list(dict.fromkeys([*CATEGORIES.values(), *(each.category for each in found)]))
    return tuple(sorted(found, key=lambda each: order.index(each.category)))


def category_name(category: str) -> str:
    """A category for people."""
    return CATEGORIES.get(category, category.replace("_", " ")[:TEXT_CHARS])


def _read(content: Any) -> Iterator[Asked]:
    criteria = as_object(content).get("criteria")
    seen: set[str] = set()
    for each in cast("list[Any]", criteria)[:MAX_CRITERIA] if isinstance(criteria, list) else ():
        given = as_object(each)
        id, text, category, weight = (given.get(name) for name in ("id", "text", "category", "weight"))
        # As long as the column that labels keep it in.
        if not isinstance(id, str) or not 0 < len(id) <= 64 or not id.isascii() or id in seen:
            continue
        seen.add(id)
        yield Asked(
            id=id,
            category=category_name(category) if isinstance(category, str) else "Other",
            text=text[:TEXT_CHARS] if isinstance(text, str) and text.strip() else id,
            weight=weight if isinstance(weight, int) and not isinstance(weight, bool) else None,
            essential=given.get("essential") is True,
            pitfall=given.get("pitfall") is True,
        )
