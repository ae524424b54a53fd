"""What a model's answer says, as far as it can be understood.

Above: model_judge.py; evidence.py weighs the claims. Below: loose_json.py, questions.py for the form. Models that are
held to no schema answer nearly as asked; what can only mean one thing is taken, and the rest is told as a problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from judge.model.loose_json import values
from judge.model.questions import Said
from judge.model.transcript import ANSWER
from judge.rubric import Criterion

QUOTE_CHARS = 2_000
REASON_CHARS = 300
MOST_SEARCHED = 200
_DEPTH = 3
"""Of what may be around the verdicts."""
_STEP = re.compile(r"\W{0,3}(?:step\s{0,3})?s?(\d{1,6}(?:\.\d{1,6})?)\W{0,3}")
_ANSWER = re.compile(r"\W{0,3}(?:the )?(?:final )?answer\W{0,3}")
# `pass` and `fail` are not here: of a mistake they would mean the opposite.
_SYNONYMS = {
    Said.MET: ("met", "fully_met", "yes", "true", "satisfied", "fulfilled", "holds"),
    Said.PARTLY: ("partly", "partly_met", "partial", "partially", "partially_met"),
    Said.NOT_MET: ("not_met", "unmet", "no", "false", "not_satisfied", "unsatisfied", "not_fulfilled"),
    Said.CANNOT_TELL: ("cannot_tell", "can't_tell", "unknown", "unclear", "undecided", "not_applicable", "n/a", "na"),
}
_MEANT = {word: said for said, words in _SYNONYMS.items() for word in words}


class Claim(BaseModel):
    """What a model says of one criterion. Nothing of it is believed yet."""

    model_config = ConfigDict(frozen=True)

    id: str
    verdict: Said
    step: str | None = None
    """Short name of a step, or `answer`."""
    quote: str = ""
    searched: tuple[str, ...] = ()
    reason: str = ""

    @field_validator("verdict", mode="before")
    @classmethod
    def _verdict(cls, given: Any) -> Any:
        word = re.sub(r"[\s-]+", "_", str(given)[:40].strip().lower())
        return _MEANT.get(word, given)

    @field_validator("step", mode="before")
    @classmethod
    def _step(cls, given: Any) -> str | None:
        return place(given)

    @field_validator("quote", mode="before")
    @classmethod
    def _quote(cls, given: Any) -> str:
        return given[:QUOTE_CHARS] if isinstance(given, str) else ""

    @field_validator("searched", mode="before")
    @classmethod
    def _searched(cls, given: Any) -> tuple[str, ...]:
        listed = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else [given]
        return tuple(found for each in listed[:MOST_SEARCHED] if (found := place(each)) is not None)

    @field_validator("reason", mode="before")
    @classmethod
    def _reason(cls, given: Any) -> str:
        return given[:REASON_CHARS] if isinstance(given, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was understood."""

    claims: Mapping[str, Claim]
    """By the id of the criterion."""
    problems: Mapping[str, str]
    """Why there is no claim, by the id of each other criterion that was asked about."""


def read(text: str, criteria: Sequence[Criterion]) -> Answer:
    """Read an answer to a question about `criteria`. What it says of others is passed over."""
    entries = list(_entries(values(text)))
    if len(criteria) == 1:
        # Models leave out what is clear.
        entries = [{"id": criteria[0].id, **entry} for entry in entries]
    claims: dict[str, Claim] = {}
    problems: dict[str, str] = {}
    for criterion in criteria:
        told = [entry for entry in entries if str(entry.get("id", ""))[:100].strip().lower() == criterion.id]
        outcome = _claim(criterion.id, told, any_json=bool(entries))
        if isinstance(outcome, Claim):
            claims[criterion.id] = outcome
        else:
            problems[criterion.id] = outcome
    return Answer(claims=claims, problems=problems)


def place(given: Any) -> str | None:
    """A step's short name or `answer`, out of the ways in which models write them."""
    word = str(given)[:40].strip().lower()
    if found := _STEP.fullmatch(word):
        return f"s{found[1]}"
    return ANSWER if _ANSWER.fullmatch(word) else None


def _claim(id: str, told: Sequence[Mapping[str, Any]], *, any_json: bool) -> Claim | str:
    if not any_json:
        return "it has no JSON with verdicts in it"
    if not told:
        return f"it says nothing of {id}"
    claims: dict[tuple[str, ...], Claim] = {}
    for entry in told:
        try:
            claim = Claim.model_validate({**entry, "id": id})
            claims[claim.verdict, claim.step or "", claim.quote] = claim
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return f"{id}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    # A record can hold what looks like an answer: where the model wrote out two, nobody knows which is its own.
    return f"it says two things of {id}" if len(claims) > 1 else next(iter(claims.values()))


def _entries(found: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Objects with a verdict: in the list that was asked for, in a bare list, alone, or by their ids."""
    for value in found:
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            yield from _within("", each, _DEPTH)


def _within(key: str, value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _within("", each, depth - 1) if depth else ()
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if "verdict" in members:
            yield {"id": key, **members} if key else members
            return
        for name, each in members.items():
            yield from _within(name, each, depth - 1) if depth else ()
