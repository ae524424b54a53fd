"""Whether what an answer claims in words, without a number or a name, was seen anywhere.

Above: library.py, writing/derived.py. Below: evidence.py, reading.py, PyStemmer. English alone: in an answer in another
language than English, or in other words throughout than what was seen, nothing can be told.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, cast

import Stemmer

from judge.case import Case
from judge.checks.base import Finding, check, missing, partly
from judge.checks.evidence import Evidence, as_text, evidence_of
from judge.checks.facts import Told
from judge.checks.grounding import PARTLY
from judge.checks.once import once_a_case
from judge.checks.report_words import FUNCTION, GLUE, NUMBERS, OTHER
from judge.checks.tools import READING, WRITING
from judge.checks.values import Value, ValueKind, as_one, values_in
from judge.checks.words import NEUTRAL, clean, fold
from judge.rubric import Need
from judge.verdict import Quote, Why

ANSWER = "answer"
MAX_ANSWER = 20_000
"""Characters that are looked at."""
MAX_CLAUSES = 200
MAX_WORDS = 20_000
"""Different words that were seen; with more than these nothing can be told."""
MAX_WORD = 40
FEWEST = 2
"""Words of a clause that have to be new before it is a claim."""
NEW = 0.5
"""Share of the words of a clause, from which on it is one."""
FOREIGN = 0.7
"""Share of new words in the whole answer, above which it is in words of its own."""
ENGLISH = 0.15
"""The least share of English words that hold sentences together in an answer of several words."""
LEAST = 12
"""Words with which an answer says in which language it is."""
_FEW = 3.0
"""Whole numbers up to it are said without counting."""
_CLAUSE = re.compile(
    r"[.!?;:](?=\s)|\n|\s-\s|,\s(?=(?:and|but|so|which|who|whose|while|because|though|although|since)\s)"
)
_SENTENCE = re.compile(r"[.!?](?=\s)|\n")
_ORDINAL = re.compile(r"(?<!\w)\d{1,3}(?:st|nd|rd|th)(?!\w)")
_WORD = re.compile(r"(?<![\w.])[^\W\d_]+(?:'[a-z]{1,3}(?![^\W\d_]))?(?!\w)|(?<=[_.])[^\W\d_]+")
_CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")


class _Words(Protocol):
    """What is used of PyStemmer."""

    def stemWords(self, words: Sequence[str], /) -> list[str]: ...


class _Clause(NamedTuple):
    """A part of the answer that claims something by itself."""

    text: str
    words: tuple[str, ...]
    """Different stems of what it says, without those within values."""
    numbers: tuple[tuple[Value, str], ...]
    """Numbers with the stem of the word behind them, where there is one."""


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

    With `facts`, all that good answers told, a sentence that tells none of them adds something: there one new word is
    enough that is half of it, and definitions of tools are no ground; but words for what agents do are.
    """
    clauses = _clauses(case)
    if not clauses:
        return missing(Why.NOT_APPLICABLE, "the answer says nothing in English words beside names and values")
    seen = _seen(case)
    if seen is None:
        return missing(Why.CUT, "more was seen than can be looked through")
    if not seen:
        return missing(Why.NOT_APPLICABLE, "what was seen is in another language than English")
    evidence = evidence_of(case)
    seen = seen | _stems(known)
    told = [word for clause in clauses for word in clause.words]
    if len(told) >= LEAST and sum(word not in seen for word in told) > FOREIGN * len(told):
        return missing(Why.NOT_APPLICABLE, "the answer is in other words than what was seen")
    loose = [clause for clause in clauses if _is_loose(evidence, clause, seen)]
    if facts:
        ground = _seen_words(case) | _stems(known) | _doing()
        said = " ".join(clause.text for clause in loose)
        added = [each for each in _sentences(case) if _is_added(case, each, ground, facts) and each.text not in said]
        loose += [each for each in added if not any(clause.text in each.text for clause in loose)]
    if not loose:
        return partly(1.0, "")
    shown = "; ".join(repr(clause.text[:80]) for clause in loose[:3])
    if evidence.cut_before(None) or not evidence.at_end().whole:
        return missing(Why.CUT, f"what {shown} says may stand in a part of a result that was not kept")
    quotes = [Quote(ANSWER, clause.text) for clause in loose[:3] if clause.text in (case.answer or "")]
    note = f"nothing that was seen speaks of this: {shown}"
    return partly(PARTLY * (1 - len(loose) / len(clauses)), note, quotes=quotes)


def telling_words(texts: Iterable[str]) -> list[str]:
    """The different words of these texts that say what they are about, sorted."""
    return sorted(
        {word for text in texts for word in map(fold, _WORD.findall(clean(text[:MAX_ANSWER]))) if _tells(word)}
    )


def _is_loose(evidence: Evidence, clause: _Clause, seen: frozenset[str]) -> bool:
    new = [word for word in clause.words if word not in seen]
    if len(new) >= FEWEST and len(new) >= NEW * len(clause.words):
        return True
    return any(noun in new and not _is_seen(evidence, number) for number, noun in clause.numbers)


def _is_added(case: Case, sentence: _Clause, ground: frozenset[str], facts: Sequence[str | int | float]) -> bool:
    """Whether a sentence tells nothing that good answers told or the task has, and half of it is new."""
    evidence = evidence_of(case)
    ordinals = [each for each in _ORDINAL.findall(sentence.text) if not any(r.has_text(each) for r in evidence.facts())]
    new = [*(word for word in sentence.words if word not in ground), *ordinals]
    if len(sentence.words) < FEWEST and not (ordinals and sentence.words):
        return False
    if not new or len(new) < NEW * (len(sentence.words) + len(ordinals)):
        return False
    told = Told(sentence.text)
    if any(told.has(fact) for fact in facts):
        return False
    quoted = [value for value in values_in(case.task or "") if value.kind is ValueKind.TEXT]
    return not any(told.has(value.written) for value in quoted)


def _is_seen(evidence: Evidence, number: Value) -> bool:
    return evidence.at_end().find(number) is not None or bool(evidence.arithmetic(None).of(number))


@once_a_case
def _clauses(case: Case) -> tuple[_Clause, ...]:
    """The clauses of the answer that say something; none where it is not in English."""
    return _pieces(case, _CLAUSE)


@once_a_case
def _sentences(case: Case) -> tuple[_Clause, ...]:
    """The same of its sentences and lines."""
    return _pieces(case, _SENTENCE)


def _pieces(case: Case, ending: re.Pattern[str]) -> tuple[_Clause, ...]:
    answer = clean((case.answer or "")[:MAX_ANSWER])
    matches = list(_WORD.finditer(answer))
    whole = [fold(match.group()) for match in matches]
    if len(whole) >= LEAST and sum(word in FUNCTION for word in whole) < ENGLISH * len(whole):
        return ()
    spans = [(value.start, value.end) for value in evidence_of(case).of_answer]
    numbers = {value.end: value for value in evidence_of(case).of_answer if value.number is not None}
    taken = _merged(spans)
    starts = [start for start, _ in taken]
    ends = [match.end() for match in ending.finditer(answer)][:MAX_CLAUSES]
    found: list[_Clause] = []
    begin = 0
    place = 0
    for end in [*ends, len(answer)]:
        words: list[str] = []
        counted: list[tuple[Value, str]] = []
        number: Value | None = None
        while place < len(matches) and matches[place].start() < end:
            match, word = matches[place], whole[place]
            place += 1
            span = bisect_right(starts, match.start()) - 1
            if span >= 0 and match.start() < taken[span][1]:
                number = None
            elif word in NUMBERS:
                number = as_one(f"{NUMBERS[word]:g}")
            elif _tells(word):
                words.append(word)
                number = number or _number_before(answer, numbers, match.start())
                if number is not None:
                    counted.append((number, word))
                number = None
            else:
                number = None
        if words:
            text = answer[begin:end].strip(" \n-*•")
            stems = _stemmer().stemWords(words)
            of_word = dict(zip(words, stems, strict=True))
            found.append(
                _Clause(text, tuple(dict.fromkeys(stems)), tuple((value, of_word[word]) for value, word in counted))
            )
        begin = end
    return tuple(found)


def _tells(word: str) -> bool:
    return 1 < len(word) <= MAX_WORD and word not in FUNCTION and word not in GLUE and word not in NEUTRAL


def _number_before(answer: str, numbers: dict[int, Value], start: int) -> Value | None:
    before = len(answer[max(0, start - 4) : start].rstrip()) - len(answer[max(0, start - 4) : start])
    value = numbers.get(start + before)
    return value if value is not None and value.number is not None and abs(value.number) > _FEW else None


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


@once_a_case
def _seen(case: Case) -> frozenset[str] | None:
    """Stems of all words that the answer may rest on: none where they are of another language; None where they are too
    many."""
    found = _words_seen(case)
    if len(found) > MAX_WORDS:
        return None
    if len(found & OTHER) > len(found & FUNCTION):
        return frozenset()
    known = frozenset(_stemmer().stemWords(sorted(found)))
    return known.union(*(_of_tool(case, written) for written in {act.written for act in case.acts}))


@once_a_case
def _words_seen(case: Case) -> frozenset[str]:
    """Words of the task, of results and of what tools were sent."""
    evidence = evidence_of(case)
    texts = [reading.cleaned for reading in evidence.facts()]
    texts += [evidence.arguments(act).cleaned for act in case.acts]
    return frozenset[str]().union(*(_words(text) for text in texts))


@once_a_case
def _seen_words(case: Case) -> frozenset[str]:
    """Their stems."""
    return frozenset(_stemmer().stemWords(sorted(_words_seen(case))))


def _of_tool(case: Case, written: str) -> frozenset[str]:
    definition = case.definition(written)
    return _stemmed(f"{written}\n{'' if definition is None else as_text(definition)}"[:20_000])


def _words(text: str) -> frozenset[str]:
    return frozenset(fold(word)[:MAX_WORD] for word in _WORD.findall(_CAMEL.sub(" ", text)))


def _stems(texts: Sequence[str]) -> frozenset[str]:
    return _stemmed("\n".join(texts)[:20_000])


@lru_cache(maxsize=256)
def _stemmed(text: str) -> frozenset[str]:
    """Of texts that are the same for many episodes."""
    return frozenset(_stemmer().stemWords(sorted(_words(text))))


def _stemmer() -> _Words:
    # Takes a microsecond; one is not safe in two threads.
    return cast("_Words", Stemmer.Stemmer("english"))  # pyright: ignore[reportUnknownMemberType]


def _doing() -> frozenset[str]:
    """Stems of words for what agents do."""
    return _stemmed("\n".join(sorted(READING | WRITING)))
