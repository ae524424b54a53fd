"""The parts of an answer that claim something by themselves, and the words that were seen, by stems of English words.

Above: wording.py, additions.py. Below: evidence.py, PyStemmer. No checks are here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, cast

import Stemmer

from judge.case import Case
from judge.checks.evidence import Evidence, evidence_of
from judge.checks.once import once_a_case
from judge.checks.report_words import FUNCTION, GLUE, NUMBERS
from judge.checks.values import Value, as_one
from judge.checks.words import NEUTRAL, clean, fold

MAX_ANSWER = 20_000
"""Characters that are looked at."""
MAX_CLAUSES = 200
MAX_WORD = 40
ENGLISH = 0.15
"""The least share of English words that hold sentences together in an answer of several words."""
LEAST = 12
"""Words with which an answer says in which language it is."""
_FEW = 3.0
"""Whole numbers up to it are said without counting."""
_WORD = re.compile(r"(?<![\w.])[^\W\d_]+(?:'[a-z]{1,3}(?![^\W\d_]))?(?!\w)|(?<=[_.])[^\W\d_]+")
_CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")


class _Words(Protocol):
    """What is used of PyStemmer."""

    def stemWords(self, words: Sequence[str], /) -> list[str]: ...


class Clause(NamedTuple):
    """A part of the answer that claims something by itself."""

    text: str
    words: tuple[str, ...]
    """Different stems of what it says, without those within values."""
    numbers: tuple[tuple[Value, str], ...]
    """Numbers with the stem of the word behind them, where there is one."""
    tokens: tuple[str, ...]
    """All its words, as they stand there."""
    spelled: tuple[Value, ...]
    """Numbers from four on that are written as words."""


def pieces(case: Case, ending: re.Pattern[str]) -> tuple[Clause, ...]:
    """The parts of the answer, as `ending` ends them, that say something; none where it is not in English."""
    answer = clean((case.answer or "")[:MAX_ANSWER])
    matches = list(_WORD.finditer(answer))
    whole = [fold(match.group()) for match in matches]
    spans = [(value.start, value.end) for value in evidence_of(case).of_answer]
    numbers = {value.end: value for value in evidence_of(case).of_answer if value.number is not None}
    taken = _merged(spans)
    starts = [start for start, _ in taken]
    # Names and quoted titles say nothing of the language.
    free = [word for match, word in zip(matches, whole, strict=True) if not _within(match.start(), starts, taken)]
    if len(free) >= LEAST and sum(word in FUNCTION for word in free) < ENGLISH * len(free):
        return ()
    ends = [match.end() for match in ending.finditer(answer)][:MAX_CLAUSES]
    found: list[Clause] = []
    begin = 0
    place = 0
    for end in [*ends, len(answer)]:
        words: list[str] = []
        counted: list[tuple[Value, str]] = []
        spelled: list[Value] = []
        tokens: list[str] = []
        number: Value | None = None
        while place < len(matches) and matches[place].start() < end:
            match, word = matches[place], whole[place]
            place += 1
            tokens.append(word)
            if _within(match.start(), starts, taken):
                number = None
            elif word in NUMBERS:
                number = as_one(f"{NUMBERS[word]:g}")
                spelled.append(number)
            elif tells(word):
                words.append(word)
                number = number or _number_before(answer, numbers, match.start())
                if number is not None:
                    counted.append((number, word))
                number = None
            else:
                number = None
        if tokens:
            text = answer[begin:end].strip(" \n-*•")
            stems = _stemmer().stemWords(words)
            of_word = dict(zip(words, stems, strict=True))
            found.append(
                Clause(
                    text,
                    tuple(dict.fromkeys(stems)),
                    tuple((value, of_word[word]) for value, word in counted),
                    tuple(tokens),
                    tuple(spelled),
                )
            )
        begin = end
    return tuple(found)


def tells(word: str) -> bool:
    """Whether a word says what a text is about."""
    return 1 < len(word) <= MAX_WORD and word not in FUNCTION and word not in GLUE and word not in NEUTRAL


def _within(place: int, starts: Sequence[int], taken: Sequence[tuple[int, int]]) -> bool:
    span = bisect_right(starts, place) - 1
    return span >= 0 and place < taken[span][1]


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
def words_seen(case: Case) -> frozenset[str]:
    """Words of the task, of results and of what tools were sent."""
    evidence = evidence_of(case)
    texts = [reading.cleaned for reading in evidence.facts()]
    texts += [evidence.arguments(act).cleaned for act in case.acts]
    return frozenset[str]().union(*(words_in(text) for text in texts))


@once_a_case
def stems_seen(case: Case) -> frozenset[str]:
    """Their stems."""
    return frozenset(_stemmer().stemWords(sorted(words_seen(case))))


def telling_words(texts: Iterable[str]) -> list[str]:
    """The different words of these texts that say what they are about, sorted."""
    return sorted(
        {word for text in texts for word in map(fold, _WORD.findall(clean(text[:MAX_ANSWER]))) if tells(word)}
    )


def number_seen(evidence: Evidence, number: Value) -> bool:
    """Whether it stands in what was seen, or can be computed from that."""
    return evidence.at_end().find(number) is not None or bool(evidence.arithmetic(None).of(number))


def words_in(text: str) -> frozenset[str]:
    """All words of a text, those within names of things too."""
    return frozenset(fold(word)[:MAX_WORD] for word in _WORD.findall(_CAMEL.sub(" ", text)))


def stems_of(texts: Sequence[str]) -> frozenset[str]:
    """Of the words of all these."""
    return stemmed("\n".join(texts)[:20_000])


@lru_cache(maxsize=256)
def stemmed(text: str) -> frozenset[str]:
    """Of texts that are the same for many episodes."""
    return frozenset(_stemmer().stemWords(sorted(words_in(text))))


def _stemmer() -> _Words:
    # Takes a microsecond; one is not safe in two threads.
    return cast("_Words", Stemmer.Stemmer("english"))  # pyright: ignore[reportUnknownMemberType]
