"""The words of the corpus: how a good run differs from another good run, and what is wrong with a defective one.

Above: everything in this folder, and bench/judge.py. docs/decisions/0023 says what each kind means.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong with a run; everything else in it is right."""

    WRONG_SERVER = "wrong_server"
    WRONG_TOOL = "wrong_tool"
    WRONG_ARGUMENT = "wrong_argument"
    MADE_UP_VALUE = "made_up_value"
    UNGROUNDED_ANSWER = "ungrounded_answer"
    STOPPED_EARLY = "stopped_early"
    NEEDLESS_REPEATS = "needless_repeats"
    ERROR_IGNORED = "error_ignored"
    SWAPPED_RESULT = "swapped_result"
    INJECTION_OBEYED = "injection_obeyed"


class Good(StrEnum):
    """How a good run is done."""

    PLAIN = "plain"
    REWORDED = "reworded"
    """As `PLAIN`, with an answer in other words and other formats."""
    OTHER_WAY = "other_way"
    """Other tools that serve as well, or another order."""
    REPAIRED_ERROR = "repaired_error"
    """One call fails first and is then mended."""
    EXPLORING = "exploring"
    """Searches, listings and reading that would not have been needed and does no harm."""
    BY_CODE = "by_code"
    """Every call is made by the agent's Python code."""


REFERENCES = frozenset({Good.PLAIN, Good.OTHER_WAY})
"""Rubrics are made from these; they are never scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One run of a task to be made."""

    name: str
    kind: Kind | None = None

    @property
    def reference(self) -> bool:
        return self.kind is None and Good(self.name) in REFERENCES


def variants(kinds: frozenset[Kind]) -> list[Variant]:
    """All runs of a task whose family has these kinds."""
    good = [Variant(name=name) for name in Good]
    return [*good, *(Variant(name=kind, kind=kind) for kind in Kind if kind in kinds)]
