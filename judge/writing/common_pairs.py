"""Which values good episodes of one task agree to give to which subject, or under which word.

Above: of_task.py. Below: sources.py, checks' pairing.py. What the answers do not clearly tell apart is asked of nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

from judge.checks.clauses import telling_words
from judge.checks.pairing import BREAK, MEASURED, Told
from judge.checks.sightings import is_slight
from judge.checks.values import Value, ValueKind, as_one, values_in
from judge.checks.words import fold, vocabulary
from judge.writing.sources import Source

MAX_PAIRS = 12
MAX_SUBJECTS = 12
MAX_PHRASES = 10
MAX_WORDS = 8
MAX_PHRASE = 8
"""Words."""
MAX_ANSWER = 4_000
"""Characters of an answer or a result in which phrases are looked for."""
MAX_RESULTS = 50
_CLEARLY = 12
"""Characters by which values stand nearer to their subjects than to others."""
_EXACT = 0.005
_LABEL = re.compile(r"(?<![\w'])[^\W\d_]{3,20}(?![\w'])")
_WORDS = re.compile(r"[\w'.-]*\w")
_NO_LABELS = vocabulary(
    "and are but for from has have not our that the their them then there they this was were with you your"
)


def common_pairs(sources: Sequence[Source], agreed: Sequence[Value]) -> list[tuple[str, str]]:
    """Subjects that the task names with the agreed facts that every answer gives them; of at least two subjects, or
    none. Two facts are told apart where in every answer they would stand clearly farther from their subjects if they
    were exchanged."""
    told = [Told(source.case.answer or "") for source in sources]
    agreed = [*agreed, *common_phrases(sources)]
    named = [
        each
        for each in _subjects(sources[0].case.task or "")
        if all(one.subject_places(each) for one in told) and not any(source.is_about_all(each) for source in sources)
    ]
    facts = [fact for fact in agreed if not _is_sum(fact, agreed) and fold(fact.written) not in map(fold, named)]
    if len(named) < 2:
        # Where the task names none, results may: files, references.
        named = [fact.written for fact in facts if fact.kind is ValueKind.IDENTIFIER][:MAX_SUBJECTS]
        facts = [fact for fact in facts if fact.kind is not ValueKind.IDENTIFIER]
    return _told_apart(told, named, facts)


def labelled_pairs(sources: Sequence[Source], agreed: Sequence[Value]) -> list[tuple[str, str]]:
    """Words that the task asks with and that stand once in every answer (`since`, `checked`) with the agreed measure
    that in all of them clearly stands nearest, in the same sentence; of at least two measures, or none."""
    told = [Told(source.case.answer or "") for source in sources]
    task = sources[0].case.task or ""
    named = " ".join(value.written for value in values_in(task) if value.kind not in MEASURED)
    none = _NO_LABELS | set(_LABEL.findall(fold(named)))
    words = dict.fromkeys(word for word in _LABEL.findall(fold(task)) if word not in none)
    labels = [word for word in words if all(len(each.subject_places(word)) == 1 for each in told)]
    facts = [each for each in agreed if not is_slight(each) and each.kind in MEASURED]
    found: list[tuple[str, str]] = []
    for label in labels[:MAX_SUBJECTS]:
        for value in facts:
            far = [each.apart_of(label, value) for each in told]
            others = [[each.apart_of(label, other) for each in told] for other in facts if other is not value]
            if max(far) < BREAK and all(
                all(one + _CLEARLY < at for one, at in zip(far, each, strict=True)) for each in others
            ):
                found.append((label, value.written))
    return found[:MAX_PAIRS] if len({value for _, value in found}) > 1 else []


def common_phrases(sources: Sequence[Source]) -> list[Value]:
    """Words side by side in all answers and in a result, but not in the task: `opposite the library`."""
    first, *others = [" ".join(_WORDS.findall(fold(source.case.answer or "")[:MAX_ANSWER])) for source in sources]
    given = [
        " ".join(_WORDS.findall(reading.cleaned[:MAX_ANSWER].casefold()))
        for reading in sources[0].results[:MAX_RESULTS]
    ]
    task = f" {' '.join(_WORDS.findall(fold(sources[0].case.task or '')))} "
    words = first.split()
    found: list[str] = []
    place = 0
    while place < len(words) and len(found) < MAX_PHRASES:
        longest = ""
        for end in range(place + 2, min(place + MAX_PHRASE, len(words)) + 1):
            phrase = f" {' '.join(words[place:end])} "
            if not all(phrase in f" {other} " for other in others) or not any(phrase in f" {each} " for each in given):
                break
            longest = phrase.strip()
        if longest and f" {longest} " not in task and telling_words([longest]) and not values_in(longest):
            found.append(longest)
        place += max(1, len(longest.split()))
    return [as_one(phrase) for phrase in dict.fromkeys(found)]


def common_words(sources: Sequence[Source]) -> list[Value]:
    """Single words that each answer has once, that tell something and that a result has, but not the task: `green`."""
    answers = [Counter(_WORDS.findall(fold(source.case.answer or "")[:MAX_ANSWER])) for source in sources]
    task = set(_WORDS.findall(fold(sources[0].case.task or "")))
    given = [
        set(_WORDS.findall(reading.cleaned[:MAX_ANSWER].casefold())) for reading in sources[0].results[:MAX_RESULTS]
    ]
    words = [word for word, times in answers[0].items() if word.isalpha() and times == 1 and word not in task]
    shared = [
        word for word in words if all(each[word] == 1 for each in answers) and any(word in each for each in given)
    ]
    return [as_one(word) for word in shared if telling_words([word])][:MAX_WORDS]


def _told_apart(told: Sequence[Told], named: Sequence[str], facts: Sequence[Value]) -> list[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    refuted: set[tuple[str, str]] = set()
    for (one, other), (first, second) in product(combinations(named, 2), combinations(facts, 2)):
        leanings = {_leaning(each, one, other, first, second) for each in told}
        straight = {(one, first.written), (other, second.written)}
        crossed = {(one, second.written), (other, first.written)}
        if leanings == {1}:
            found |= straight
            refuted |= crossed
        elif leanings == {-1}:
            found |= crossed
            refuted |= straight
    by_value = {each.written: each for each in facts}
    near = {
        (subject, written): [each.apart_of(subject, by_value[written]) for each in told]
        for subject, written in found - refuted
    }
    kept = sorted(
        (subject, written)
        for (subject, written), far in near.items()
        # One value is of one subject, and in one sentence with it.
        if max(far) < BREAK
        and all(
            all(map(int.__lt__, far, others))
            for (other, value), others in near.items()
            if value == written and other != subject
        )
    )[:MAX_PAIRS]
    return kept if len({subject for subject, _ in kept}) > 1 else []


def _subjects(task: str) -> list[str]:
    """What the task names; words of a name that stand side by side are one, and a part of another is none."""
    joined: list[str] = []
    end = -1
    for value in values_in(task):
        if value.kind in (ValueKind.NUMBER, ValueKind.DATE, ValueKind.TIME):
            continue
        if value.kind is ValueKind.NAME and joined and value.start == end + 1:
            joined[-1] = f"{joined[-1]} {value.written}"
        else:
            joined.append(value.written)
        end = value.end if value.kind is ValueKind.NAME else -1
    distinct = list(dict.fromkeys(joined))[:MAX_SUBJECTS]
    return [each for each in distinct if not any(each != other and each in other for other in distinct)]


def _is_sum(fact: Value, agreed: Sequence[Value]) -> bool:
    """Whether it belongs to several subjects, as the sum of what belongs to each."""
    numbers = [each.number for each in agreed if each is not fact and each.number is not None]
    return fact.number is not None and any(
        abs(fact.number - one - other) < _EXACT for one, other in combinations(numbers, 2)
    )


def _leaning(told: Told, one: str, other: str, first: Value, second: Value) -> int:
    """1 where the first fact is of the one subject and the second of the other, -1 the other way, 0 where unclear."""
    places = told.value_places(first), told.value_places(second)
    if not all(places):
        return 0
    subjects = told.subject_places(one), told.subject_places(other)
    if order := told.order(subjects, places):
        return order
    straight = told.apart(subjects[0], places[0]) + told.apart(subjects[1], places[1])
    crossed = told.apart(subjects[0], places[1]) + told.apart(subjects[1], places[0])
    if abs(straight - crossed) < _CLEARLY:
        return 0
    return 1 if straight < crossed else -1
