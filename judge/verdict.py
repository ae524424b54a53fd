"""What was decided of one criterion, by whomever, with its evidence.

Above: checks/, model/, reward.py, the runner. Below: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Why(StrEnum):
    """Why a criterion has no score."""

    OUT_OF_SCOPE = "out_of_scope"
    """What it speaks of cannot be seen in this episode: left out by definition, not counted as missing."""
    NOT_APPLICABLE = "not_applicable"
    """It asks about something that did not arise (no call failed, so none was to be repaired): left out, too."""
    CUT = "cut"
    """What would decide it may stand in a part that the log did not keep."""
    NOT_LOGGED = "not_logged"
    """Contents of this episode were not to be written."""
    BROKEN = "broken"
    """The check failed by a mistake of its own, or its parameters do not fit."""
    VOID = "void"
    """The model's verdict has no quote that stands where it says."""
    UNREADABLE = "unreadable"
    """The model's answer could not be understood."""
    UNDECIDED = "undecided"
    """The model said that it cannot tell."""
    REFUSED = "refused"
    """The endpoint declined to answer."""
    UNREACHABLE = "unreachable"
    """The endpoint failed, or did not answer in time."""
    NOT_PERMITTED = "not_permitted"
    """The owner has not allowed a remote endpoint to see a server of this episode."""
    NO_MODEL = "no_model"
    """Only a model can decide it, and none is configured: out of scope, left out by definition."""

    @property
    def left_out(self) -> bool:
        """Whether the criterion does not count at all, instead of counting as missing."""
        return self in (Why.OUT_OF_SCOPE, Why.NOT_APPLICABLE, Why.NO_MODEL)


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that stand in a step."""

    step: str
    """Id of the step; `answer` for the agent's answer, `task` for the user's words."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One criterion, decided or missing with a reason. Exactly one of `score` and `why` is None."""

    criterion: str
    """Id within its rubric."""
    score: float | None
    """0 to 1, as far as the criterion's text holds; of a pitfall, as far as the mistake was made."""
    why: Why | None = None
    note: str = ""
    """One sentence for people."""
    steps: tuple[str, ...] = ()
    """Ids of the steps that it speaks of; where credit goes. None where it speaks of the whole."""
    quotes: tuple[Quote, ...] = ()
    repeats: tuple[float | None, ...] = ()
    """What each repeat of the model's judgement gave; empty where code decided."""

    def __post_init__(self) -> None:
        if (self.score is None) == (self.why is None):
            raise ValueError(f"a verdict on {self.criterion} has a score or a reason why it has none")
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError(f"a score is between 0 and 1, not {self.score}")

    @property
    def disagreement(self) -> float | None:
        """Population standard deviation of the repeats that gave a score; None with fewer than two."""
        given = [each for each in self.repeats if each is not None]
        if len(given) < 2:
            return None
        mean = sum(given) / len(given)
        return (sum((each - mean) ** 2 for each in given) / len(given)) ** 0.5

    def content(self) -> dict[str, Any]:
        """As JSON, for `judgements.verdicts`; `of_content` reads it back."""
        return {
            "criterion": self.criterion,
            "score": self.score,
            "why": None if self.why is None else self.why.value,
            "note": self.note,
            "steps": list(self.steps),
            "quotes": [[quote.step, quote.text] for quote in self.quotes],
            "repeats": list(self.repeats),
            "disagreement": self.disagreement,
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Verdict:
        quotes: Sequence[Sequence[str]] = content["quotes"]
        return cls(
            criterion=content["criterion"],
            score=content["score"],
            why=None if content["why"] is None else Why(content["why"]),
            note=content["note"],
            steps=tuple(content["steps"]),
            quotes=tuple(Quote(step, text) for step, text in quotes),
            repeats=tuple(content["repeats"]),
        )
