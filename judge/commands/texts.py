"""How the judge's commands print what strangers wrote: on one line, with nothing in it that a terminal obeys.

Above: the other modules of commands/. Below: proxy.store's rendering.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from proxy.store.rendering import visible

if TYPE_CHECKING:
    from judge.rubric import Criterion

SHORT_HASH = 12
NOTE_CHARS = 200


def line(text: str, limit: int = NOTE_CHARS) -> str:
    """`text` on one line of at most `limit` characters."""
    whole = " ".join(visible(text).split())
    return whole if len(whole) <= limit else f"{whole[: limit - 1]}…"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def kind_of(criterion: Criterion) -> str:
    """What sets it apart, in few words."""
    said = [f"weight {criterion.weight}", f"check {criterion.check}" if criterion.check else "judge"]
    said += [name for name, so in (("essential", criterion.essential), ("pitfall", criterion.pitfall)) if so]
    return ", ".join(said)


def shares(counts: Mapping[str, int]) -> list[str]:
    """One line each: how many, which share, and of what."""
    whole = sum(counts.values())
    return [f"{count:,} ({count / whole:.0%})  {name}" for name, count in counts.items()]
