"""What judges said of an episode, for the eye: rewards, subtotals, and each verdict with its evidence.

Above: pages.py, labelling.py. Below: criteria.py, store/judgements.py. Verdicts may come from a file of anybody: what
is not as judge/ writes it is left out, and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from proxy.dashboard.criteria import MAX_CRITERIA, TEXT_CHARS, Asked, asked, category_name
from proxy.dashboard.words import as_object
from proxy.store.judgements import Judgement
from proxy.store.rubrics import Rubric
from proxy.store.trajectory import Trajectory

MAX_JUDGEMENTS = 10
"""On a page, the latest ones; the others are counted."""
MAX_PLACES = 6
MAX_QUOTES = 3
QUOTE_CHARS = 400
_WHY: Mapping[str, str] = {
    "out_of_scope": "what it speaks of cannot be seen in this episode",
    "not_applicable": "what it asks about did not arise",
    "cut": "what would decide it may stand in a part that the log did not keep",
    "not_logged": "contents of this episode were not logged",
    "broken": "its check failed by a mistake of its own",
    "void": "the model's verdict has no quote that stands where it says",
    "unreadable": "the model's answer could not be understood",
    "undecided": "the model cannot tell",
    "refused": "the model's endpoint declined to answer",
    "unreachable": "the model's endpoint failed, or did not answer in time",
    "not_permitted": "the owner lets no remote model see a server of this episode",
    "no_model": "only a model can decide it, and none is configured",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A step that a verdict speaks of."""

    step_id: str
    number: int | None
    """Of the step, or of the run of code that made the call, counted from 1; None where it is not in the episode."""
    shown: bool
    """Whether it stands on this page."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """Words that a step is said to hold."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One verdict."""

    asked: Asked
    score: float | None
    """0 to 1, as far as the criterion's text holds."""
    why: str
    """Why there is none; empty where there is one."""
    note: str
    places: tuple[Place, ...]
    quotes: tuple[Quoted, ...]

    @property
    def good(self) -> bool | None:
        """Whether that speaks for the agent; None where nothing was decided."""
        if self.score is None:
            return None
        return (self.score < 0.5) if self.asked.pitfall else (self.score >= 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One judgement."""

    judge: str
    repeat: int
    rubric_hash: str
    writer: str
    scope: str
    reward: float | None
    unrewarded: str
    """Why there is no reward."""
    created_at: datetime
    subtotals: tuple[tuple[str, float | None], ...]
    """By category."""
    verdicts: tuple[Decided, ...]


class Places:
    """Finds where steps stand on the pages of an episode.

    Args:
        shown: Numbers of the first and the last step on this page.
    """

    def __init__(self, trajectory: Trajectory, shown: tuple[int, int]) -> None:
        self._numbers: dict[str, int] = {}
        self._first, self._last = shown
        for number, step in enumerate(trajectory.steps, 1):
            self._numbers[step.id] = number
            self._numbers.update((call.id, number) for call in step.code_calls)

    def of(self, step_id: str) -> Place:
        """Where that step is."""
        number = self._numbers.get(step_id)
        return Place(step_id, number, number is not None and self._first <= number <= self._last)


def judged(judgement: Judgement, rubric: Rubric | None, places: Places) -> Judged:
    """A judgement, with the criteria of its rubric in their order."""
    criteria = {} if rubric is None else {each.id: each for each in asked(rubric)}
    verdicts = list(_verdicts(judgement.verdicts, criteria, places))
    order = list(criteria)
    verdicts.sort(key=lambda each: order.index(each.asked.id) if each.asked.id in criteria else len(order))
    return Judged(
        judge=judgement.judge,
        repeat=judgement.repeat,
        rubric_hash=judgement.rubric_hash,
        writer="" if rubric is None else rubric.writer,
        scope=scope_said(judgement.scope),
        reward=judgement.reward,
        unrewarded=judgement.unrewarded or "the judge gave no reason",
        created_at=judgement.created_at,
        subtotals=tuple(_subtotals(judgement.subtotals)),
        verdicts=tuple(verdicts),
    )


def scope_said(scope: str) -> str:
    """What a judge could see, for people."""
    return "it is not known what could be seen" if scope == "unknown" else scope.replace("+", " + ")


def _subtotals(given: Any) -> Iterator[tuple[str, float | None]]:
    for category, value in list(as_object(given).items())[:MAX_CRITERIA]:
        if value is None or _is_number(value):
            yield category_name(category), value


def _verdicts(given: Any, criteria: Mapping[str, Asked], places: Places) -> Iterator[Decided]:
    for each in _list(given)[:MAX_CRITERIA]:
        verdict = as_object(each)
        id, score, why = (verdict.get(name) for name in ("criterion", "score", "why"))
        if not isinstance(id, str):
            continue
        decided = score if _is_number(score) else None
        reason = why if isinstance(why, str) else "nothing was decided"
        yield Decided(
            asked=criteria.get(id) or _unknown(id),
            score=decided,
            why="" if decided is not None else _WHY.get(reason, reason.replace("_", " ")[:TEXT_CHARS]),
            note=_text(verdict.get("note"), TEXT_CHARS),
            places=tuple(places.of(step) for step in _list(verdict.get("steps"))[:MAX_PLACES] if isinstance(step, str)),
            quotes=tuple(_quotes(_list(verdict.get("quotes")), places)),
        )


def _quotes(given: list[Any], places: Places) -> Iterator[Quoted]:
    for quote in given[:MAX_QUOTES]:
        match quote:
            case [str(step), str(text)]:
                yield Quoted(places.of(step), _text(text, QUOTE_CHARS))
            case _:
                continue


def _unknown(id: str) -> Asked:
    text = id[:TEXT_CHARS]
    return Asked(id=text, category="Other", text=text, weight=None, essential=False, pitfall=False)


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= most else f"{value[:most]}…"


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
