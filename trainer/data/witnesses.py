"""Which rankings another agent bears out: the same tools were right for it, too, for a search that is alike.

Above: caps.py. Below: judge/writing/families.py, which masks values. Who makes things up finds nobody who agrees; what
several found out for themselves is hardly made up. Pure, and the same whatever the order of the rows.

Searches are compared by their words, each weighed by how rare it is, log(n / searches that have it): the cosine of the
two (Salton and Buckley 1988, "Term-weighting approaches in automatic text retrieval").
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from judge.writing.families import template
from trainer.rows import RankingRow

ALIKE = 0.25
"""The least cosine of two searches for the same thing: two that put one need in other words share some of its nouns."""
BLOCK = 256
"""Searches that are compared with all others of their tool at a time."""


def borne_out(rows: Sequence[RankingRow]) -> list[bool]:
    """For each row, whether each tool that was right in it was right in a row of another agent whose search is alike.
    False where nothing was right."""
    by_tool: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        for tool in {each.tool for each in row.right}:
            by_tool[tool].append(place)
    words = [frozenset(template(row.query.text)) for row in rows]
    counts = Counter(word for its in words for word in its)
    rarity = {word: math.log(len(rows) / count) for word, count in counts.items()}
    names = {agent: number for number, agent in enumerate(sorted({row.origin.agent for row in rows}))}
    agents = np.array([names[row.origin.agent] for row in rows], dtype=np.intp)
    seen = [bool(row.right) for row in rows]
    for its in by_tool.values():
        vectors = _vectors([words[place] for place in its], rarity)
        for place, found in zip(its, _seen_by_another(vectors, agents[its]), strict=True):
            seen[place] = seen[place] and found
    return seen


def _seen_by_another(vectors: NDArray[np.float32], agents: NDArray[np.intp]) -> list[bool]:
    found: list[bool] = []
    for start in range(0, len(vectors), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        others = agents[start : start + BLOCK, np.newaxis] != agents[np.newaxis, :]
        found += ((cosines >= ALIKE) & others).any(axis=1).tolist()
    return found


def _vectors(texts: Sequence[frozenset[str]], rarity: Mapping[str, float]) -> NDArray[np.float32]:
    """`[n, words that two of them have]`; their products are cosines. All 0 where no word tells a text from others."""
    counts = Counter(word for its in texts for word in its)
    places = {word: place for place, word in enumerate(sorted(word for word in counts if counts[word] > 1))}
    vectors = np.zeros((len(texts), len(places)), dtype=np.float32)
    for row, its in enumerate(texts):
        length = math.sqrt(math.fsum(rarity[word] ** 2 for word in its))
        for word in its:
            if length and word in places:
                vectors[row, places[word]] = rarity[word] / length
    return vectors
