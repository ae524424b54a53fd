"""Which texts ask for the same thing: they lie on one side of a split, or what was learned by heart looks like skill.

Above: splits.py. Below: judge/writing/families.py, which masks values and gives MinHash signatures; an encoder, where
there is one, finds what is put in other words. Texts that are alike are joined, and so is what is alike to either.
Deterministic, whatever the order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from judge.writing.families import ROWS, signature, template
from proxy.router.encoder import Encoder

MARGIN = 0.25
"""By how much a signature may fall short of two texts that are compared word by word: four standard errors."""
BLOCK = 64
"""Texts that are compared with all others at a time."""
TOKENS = 256
"""Of a text, for the encoder."""


def joined(texts: Mapping[str, str], *, alike: float, encoder: Encoder | None = None, near: float = 1.0) -> Sets:
    """The ids of `texts`, those whose texts are alike in one set.

    Args:
        texts: By id, the one that names its set first. A text without words is like none.
        alike: The least share of words and pairs of words, values masked, that two have in common, 0 to 1.
        encoder: Finds those whose vectors have a cosine of at least `near`, too.
    """
    same: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for each in texts:
        if words := template(texts[each]):
            same[words].append(each)
    sets = Sets(texts)
    for ids in same.values():
        for each in ids[1:]:
            sets.join(ids[0], each)
    different = {ids[0]: words for words, ids in same.items()}
    for one, other in _by_words(texts, different, alike):
        sets.join(one, other)
    if encoder is not None:
        for one, other in _by_meaning(texts, list(different), encoder, near):
            sets.join(one, other)
    return sets


def _by_words(
    texts: Mapping[str, str], different: Mapping[str, tuple[str, ...]], alike: float
) -> Iterator[tuple[str, str]]:
    ids = list(different)
    shingles = [frozenset((*words, *pairwise(words))) for words in different.values()]
    numbers = np.array([signature(texts[each]) for each in ids], dtype=np.uint32)
    for start in range(0, len(ids), BLOCK):
        equal = np.count_nonzero(numbers[start : start + BLOCK, None] == numbers[None, start:], axis=2)
        for row, column in np.argwhere(equal >= (alike - MARGIN) * ROWS).tolist():
            one, other = start + row, start + column
            if one < other:
                common = len(shingles[one] & shingles[other])
                if common >= alike * (len(shingles[one]) + len(shingles[other]) - common):
                    yield ids[one], ids[other]


def _by_meaning(
    texts: Mapping[str, str], ids: Sequence[str], encoder: Encoder, near: float
) -> Iterator[tuple[str, str]]:
    vectors = encoder.encode([texts[each] for each in ids], TOKENS)
    for start in range(0, len(ids), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        for row, column in np.argwhere(cosines >= near).tolist():
            if start + row < column:
                yield ids[start + row], ids[column]


class Sets:
    """Disjoint sets, each named by the first of its members."""

    def __init__(self, members: Iterable[str]) -> None:
        self._place = {each: place for place, each in enumerate(members)}
        self._above = {each: each for each in self._place}

    def join(self, one: str, other: str) -> None:
        first, later = sorted((self.first(one), self.first(other)), key=self._place.__getitem__)
        self._above[later] = first

    def first(self, member: str) -> str:
        while (above := self._above[member]) != member:
            self._above[member] = member = self._above[above]
        return member
