"""Whether what an answer claims in words, without a number or a name, was seen anywhere.

Above: library.py. Below: clauses.py, additions.py, evidence.py. English alone: in an answer in another
language than English, or in other words throughout than what was seen, nothing can be told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judge.case import Case
from judge.checks.additions import additions, plain_stems, strange_units
from judge.checks.base import Finding, check, missing, partly
from judge.checks.clauses import Clause, number_seen, pieces, stemmed, stems_of, stems_seen, words_seen
from judge.checks.evidence import Evidence, as_text, evidence_of
from judge.checks.grounding import PARTLY
from judge.checks.once import once_a_case
from judge.checks.report_words import FUNCTION, OTHER
from judge.rubric import Need
from judge.verdict import Quote, Why

ANSWER = "answer"
MAX_WORDS = 20_000
"""Different words that were seen; with more than these nothing can be told."""
FEWEST = 2
"""Words of a clause that have to be new before it is a claim."""
NEW = 0.5
"""Share of the words of a clause, from which on it is one."""
LEAST = 12
"""Words from which on an answer may be in words of its own."""
FOREIGN = 0.7
"""Share of new words in the whole answer, above which it is in words of its own."""
_CLAUSE = re.compile(
    r"[.!?;:](?=\s)|\n|\s-\s|,\s(?=(?:and|but|so|which|who|whose|while|because|though|although|since)\s)"
)


@check("answer_words_grounded", needs={Need.ANSWER})
def answer_words_grounded(case: Case, *, known: Sequence[str] = (), facts: Sequence[str | int | float] = ()) -> Finding:
    """What the answer claims in words rests on something seen: no sentence or clause is mainly made of words that stand
    neither in the task, nor in a result, nor in what tools were sent, nor in the definitions of the tools called, nor
    in `known`, which good answers said. By stems of English words; words that hold sentences together, those of which
    reports are made ("recorded", "in total") and names, which `answer_grounded` judges, are left out. Two new words
    that are at least half of a clause make it such a claim, and so does a number that was not seen, written as a word
    or not, before a new word. The score is half the share of the other clauses once there is such a claim. Not
    applicable where the answer has no such words, where it or what was seen is not in English, and where it is in words
    of its own throughout. Where a result was not kept whole, what has no ground cannot be told.

    With `facts`, all that good answers told, a part of a sentence that tells none of them may add something (see
    additions.py): there one new word is enough that is half of it, and definitions of tools are no ground. Nor
    has a number a unit then that nothing seen is measured in.
    """
    clauses = _clauses(case)
    added = additions(case, known, facts) if facts else []
    strange = strange_units(case, known) if facts else []
    if not clauses and not added and not strange:
        return missing(Why.NOT_APPLICABLE, "the answer says nothing in English words beside names and values")
    seen = _seen(case)
    if seen is None:
        return missing(Why.CUT, "more was seen than can be looked through")
    if not seen:
        return missing(Why.NOT_APPLICABLE, "what was seen is in another language than English")
    evidence = evidence_of(case)
    seen = seen | stems_of(known) | plain_stems()
    told = [word for clause in clauses for word in clause.words]
    if len(told) >= LEAST and sum(word not in seen for word in told) > FOREIGN * len(told):
        return missing(Why.NOT_APPLICABLE, "the answer is in other words than what was seen")
    loose = [clause for clause in clauses if _is_loose(evidence, clause, seen)]
    if facts:
        said = " ".join(clause.text for clause in loose)
        added = [each for each in added if each.text not in said]
        loose += [each for each in added if not any(clause.text in each.text for clause in loose)]
    if not loose and not strange:
        return partly(1.0, "")
    shown = "; ".join([repr(clause.text[:80]) for clause in loose[:3]] + [f"the unit {unit!r}" for unit in strange[:3]])
    if evidence.cut_before(None) or not evidence.at_end().whole:
        return missing(Why.CUT, f"what {shown} says may stand in a part of a result that was not kept")
    quotes = [Quote(ANSWER, clause.text) for clause in loose[:3] if clause.text in (case.answer or "")]
    note = f"nothing that was seen speaks of this: {shown}"
    return partly(PARTLY * max(0.0, 1 - (len(loose) + len(strange)) / max(len(clauses), 1)), note, quotes=quotes)


def _is_loose(evidence: Evidence, clause: Clause, seen: frozenset[str]) -> bool:
    new = [word for word in clause.words if word not in seen]
    if len(new) >= FEWEST and len(new) >= NEW * len(clause.words):
        return True
    return any(noun in new and not number_seen(evidence, number) for number, noun in clause.numbers)


@once_a_case
def _clauses(case: Case) -> tuple[Clause, ...]:
    """The clauses of the answer that say something; none where it is not in English."""
    return tuple(clause for clause in pieces(case, _CLAUSE) if clause.words)


@once_a_case
def _seen(case: Case) -> frozenset[str] | None:
    """Stems of all words that the answer may rest on: none where they are of another language; None where they are too
    many."""
    found = words_seen(case)
    if len(found) > MAX_WORDS:
        return None
    if len(found & OTHER) > len(found & FUNCTION):
        return frozenset()
    return stems_seen(case).union(*(_of_tool(case, written) for written in {act.written for act in case.acts}))


def _of_tool(case: Case, written: str) -> frozenset[str]:
    definition = case.definition(written)
    return stemmed(f"{written}\n{'' if definition is None else as_text(definition)}"[:20_000])
