"""Whether what a model claims is borne out: a quote has to stand where it says.

Above: model_judge.py. Below: answers.py, transcript.py. Credit needs words of the step that is named; so does the
finding that a mistake was made. That something is not so needs words, or the steps in which it was looked for.

Quotes are compared as the model saw the texts, up to white space, in one part between two cuts: a note of ours is
nobody's words. Words that only repeat the task earn no credit where the agent wrote them; what a tool returned is
evidence even if the task said the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from judge.model.answers import Claim
from judge.model.questions import Said
from judge.model.transcript import ANSWER, Transcript
from judge.rubric import Criterion
from judge.verdict import Quote, Verdict, Why
from proxy.store.rendering import visible

QUOTE_CHARS = 8
"""The fewest that a quote has, unless it is the whole of a shorter text."""
KEPT_CHARS = 300
"""Of a quote that is longer, so many are kept with the verdict."""
SCORES = {Said.MET: 1.0, Said.PARTLY: 0.5, Said.NOT_MET: 0.0}
_AROUND = " \"'`“”„‘’«»….,"
"""What models put around a quote that is not part of it."""


def weigh(claim: Claim, criterion: Criterion, shown: Transcript) -> Verdict:
    """The verdict of one answer on `criterion`: with the score of `claim`, or missing."""
    note = visible(claim.reason)
    if claim.verdict is Said.CANNOT_TELL:
        return Verdict(criterion=criterion.id, score=None, why=Why.UNDECIDED, note=note)
    objection = _objection(claim, shown)
    if objection == "" and claim.verdict is not Said.NOT_MET and not criterion.pitfall and _repeats_task(claim, shown):
        objection = "the quote only repeats the task"
    if objection == "" and claim.step is not None:
        step = shown.steps.get(claim.step)
        quote = Quote(step or ANSWER, visible(claim.quote)[:KEPT_CHARS])
        return Verdict(
            criterion=criterion.id,
            score=SCORES[claim.verdict],
            note=note,
            steps=() if step is None else (step,),
            quotes=(quote,),
        )
    if claim.verdict is Said.NOT_MET:
        if any(each in shown.steps or each in shown.done for each in claim.searched):
            return Verdict(criterion=criterion.id, score=0.0, note=note)
        objection += ", and no step is named in which it was looked for"
    return Verdict(criterion=criterion.id, score=None, why=Why.VOID, note=objection)


def _objection(claim: Claim, shown: Transcript) -> str:
    """Why the quote counts for nothing; empty where it stands."""
    if not claim.quote.strip():
        return "there is no quote"
    if claim.step is None:
        return "the quote names no step"
    parts = (*shown.done.get(claim.step, ()), *shown.seen.get(claim.step, ()))
    if not parts:
        return f"the quote names {claim.step}, which the record does not show"
    return "" if _stands(claim.quote, parts) else f"the quote does not stand in {claim.step}"


def _stands(quote: str, parts: Iterable[str]) -> bool:
    tried = {_spaced(quote), _spaced(quote.strip(_AROUND))}
    for part in map(_spaced, parts):
        for each in tried:
            if each == part != "" or (len(each) >= QUOTE_CHARS and each in part):
                return True
    return False


def _repeats_task(claim: Claim, shown: Transcript) -> bool:
    if claim.step is None or not shown.task or _stands(claim.quote, shown.seen.get(claim.step, ())):
        return False
    quote = _spaced(claim.quote.strip(_AROUND)).casefold()
    if claim.step == ANSWER:
        return _words(quote) <= _words(shown.task.casefold())
    return quote in _spaced(shown.task).casefold()


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))
