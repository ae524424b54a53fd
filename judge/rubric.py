"""Rubrics: weighted criteria in four categories, as immutable values named by their hash.

Above: everything in judge/. Below: nothing. Files are read by rubric_files.py, rows by store. The categories and the
weights from 1 to 10 are those of ATLAS (arXiv 2603.06713, section 3.2).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from proxy.errors import ConfigurationError

FORMAT = 1
"""Of a rubric's content; part of its hash."""
MAX_CRITERIA = 40
MAX_TEXT = 1_000
E = TypeVar("E", bound=StrEnum)
_ID = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class RubricError(ConfigurationError):
    """A rubric that cannot be meant; the text names the criterion and what is wrong with it."""


class Category(StrEnum):
    """What a criterion speaks of."""

    TASK_FULFILMENT = "task_fulfilment"
    """Whether what was asked for was done, all of it."""
    TOOL_APPROPRIATENESS = "tool_appropriateness"
    """Whether the right servers and tools were used, and no more than needed."""
    TOOL_GROUNDING = "tool_grounding"
    """Whether what the agent said and did rests on what tools answered."""
    PARAMETER_ACCURACY = "parameter_accuracy"
    """Whether calls were made with the right values."""


class Kind(StrEnum):
    """Who decides a criterion."""

    CHECK = "check"
    """Code."""
    JUDGE = "judge"
    """A model, which has to quote."""


class Need(StrEnum):
    """What must have been seen of an episode, beside its calls, for a criterion to mean anything."""

    TASK = "task"
    """The user's own words."""
    ANSWER = "answer"
    """What the agent told its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing to be decided of a trajectory.

    Raises:
        RubricError: A value cannot be meant.
    """

    id: str
    """Unique within its rubric."""
    category: Category
    text: str
    """What has to be so, for people and for the model; of a pitfall, what must not be so."""
    weight: int
    """1 to 3 low, 4 to 6 moderate, 7 and 8 high, 9 and 10 critical."""
    kind: Kind
    check: str | None = None
    """Name of the check that decides; None where a model does."""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the check, as JSON."""
    needs: frozenset[Need] = frozenset({Need.TASK, Need.ANSWER})
    """Of a criterion that a model decides. A check knows its own needs, and these are then empty."""
    essential: bool = False
    """Where it fails, the whole reward is capped."""
    pitfall: bool = False
    """Credit of it is taken away: its text describes a mistake."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise RubricError(f"{self.id!r} cannot be the id of a criterion: lower case letters, digits, _ and -")
        if type(self.weight) is not int or not 1 <= self.weight <= 10:
            raise RubricError(f"criterion {self.id}: a weight is a whole number from 1 to 10, not {self.weight!r}")
        if not 1 <= len(self.text.strip()) <= MAX_TEXT:
            raise RubricError(f"criterion {self.id}: its text has 1 to {MAX_TEXT} characters, not {len(self.text)}")
        if self.check == "" or (self.check is not None) != (self.kind is Kind.CHECK):
            raise RubricError(
                f"criterion {self.id}: `check` names what decides a criterion of kind check, and only that"
            )
        if self.kind is Kind.CHECK and self.needs:
            raise RubricError(f"criterion {self.id}: a check knows what it needs")
        if self.kind is Kind.JUDGE and self.parameters:
            raise RubricError(f"criterion {self.id}: only a check takes parameters")
        if self.essential and self.pitfall:
            raise RubricError(f"criterion {self.id}: essential and pitfall exclude each other")


@dataclass(frozen=True, slots=True)
class Rubric:
    """Criteria that belong together. Who wrote it and what it is attached to are not part of it.

    Raises:
        RubricError: There are none or too many, or two have the same id.
    """

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.criteria) <= MAX_CRITERIA:
            raise RubricError(f"a rubric has 1 to {MAX_CRITERIA} criteria, not {len(self.criteria)}")
        ids = [criterion.id for criterion in self.criteria]
        if twice := {each for each in ids if ids.count(each) > 1}:
            raise RubricError(f"two criteria have the id {min(twice)}")

    @property
    def hash(self) -> str:
        """64 hexadecimal digits, the same for the same criteria in the same order."""
        canonical = json.dumps(self.content(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def content(self) -> dict[str, Any]:
        """As JSON; `of_content` reads it back."""
        return {"format": FORMAT, "criteria": [_written(criterion) for criterion in self.criteria]}

    @classmethod
    def of_content(cls, content: Any) -> Rubric:
        """Raises RubricError for what is not the content of a rubric; unknown members are refused, never dropped."""
        match content:
            case {"format": number, **others} if number != FORMAT:
                raise RubricError(f"a rubric of format {number} is not known here: this version reads {FORMAT}")
            case {"format": int(number), "criteria": [*criteria], **others} if not (others or number is True):
                return cls(tuple(_read(place, each) for place, each in enumerate(criteria, 1)))
            case _:
                raise RubricError("a rubric is an object with `format` and `criteria`, a list, and nothing else")


def _written(criterion: Criterion) -> dict[str, Any]:
    """Without what is as it usually is, so that new members do not change old hashes."""
    written: dict[str, Any] = {
        "id": criterion.id,
        "category": criterion.category.value,
        "text": criterion.text,
        "weight": criterion.weight,
        "kind": criterion.kind.value,
    }
    if criterion.kind is Kind.CHECK:
        written["check"] = criterion.check
        if criterion.parameters:
            written["parameters"] = deepcopy(dict(criterion.parameters))
    else:
        written["needs"] = sorted(need.value for need in criterion.needs)
    if criterion.essential:
        written["essential"] = True
    if criterion.pitfall:
        written["pitfall"] = True
    return written


_KNOWN = frozenset({"id", "category", "text", "weight", "kind", "check", "parameters", "needs", "essential", "pitfall"})


def _read(place: int, given: Any) -> Criterion:
    if not isinstance(given, Mapping):
        raise RubricError(f"criterion {place} is not an object")
    members: dict[str, Any] = dict(given)  # pyright: ignore[reportUnknownArgumentType] - any JSON
    name = f"criterion {members.get('id', place)}"
    if unknown := sorted(map(str, members.keys() - _KNOWN)):
        raise RubricError(f"{name}: {unknown[0]!r} is not known; it has {', '.join(sorted(_KNOWN))}")
    kind = _one(Kind, members, "kind", name)
    needs = members.get("needs", [Need.TASK, Need.ANSWER] if kind is Kind.JUDGE else [])
    if not isinstance(needs, list):
        raise RubricError(f"{name}: `needs` is a list of {', '.join(Need)}")
    return Criterion(
        id=_typed(members, "id", str, name),
        category=_one(Category, members, "category", name),
        text=_typed(members, "text", str, name),
        weight=_typed(members, "weight", int, name),
        kind=kind,
        check=_typed(members, "check", str, name) if "check" in members else None,
        parameters=_own(members, name),
        needs=frozenset(_one(Need, {"needs": each}, "needs", name) for each in needs),  # pyright: ignore[reportUnknownVariableType]
        essential=_typed(members, "essential", bool, name) if "essential" in members else False,
        pitfall=_typed(members, "pitfall", bool, name) if "pitfall" in members else False,
    )


def _own(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The parameters, which nobody else can change."""
    try:
        return deepcopy(_typed(members, "parameters", dict, name)) if "parameters" in members else {}
    except RecursionError:
        raise RubricError(f"{name}: `parameters` are nested too deep") from None


def _typed(members: Mapping[str, Any], key: str, kind: type[Any], name: str) -> Any:
    value = members.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RubricError(f"{name}: `{key}` is missing or not of type {kind.__name__}")
    return value


def _one(kind: type[E], members: Mapping[str, Any], key: str, name: str) -> E:
    value = members.get(key)
    try:
        return kind(value)
    except ValueError:
        raise RubricError(f"{name}: `{key}` is one of {', '.join(kind)}, not {value!r}") from None
