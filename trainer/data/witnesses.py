"""Which rankings another agent bears out: the same tools were right for it, too, for a search that is alike. And how
far an agent agrees with the others where they searched for the same.

Above: caps.py. Below: judge/writing/families.py, which masks values. Who makes things up finds nobody who agrees; what
several found out for themselves is hardly made up. Pure, and the same whatever the order of the rows.

Searches are compared by their words, each weighed by how rare it is, log(n / searches that have it): the cosine of the
two (Salton and Buckley 1988, "Term-weighting approaches in automatic text retrieval").
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from judge.writing.families import template
from trainer.rows import RankingRow

ALIKE = 0.25
"""The least cosine of two searches for the same thing: two that put one need in other words share some of its nouns."""
BLOCK = 256
"""Searches that are compared with all others of their tool at a time."""
ASKED = 300
"""Of each agent, at most so many different rankings are compared with everybody's."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of one agent, over its different rankings."""

    compared: int
    """For which another agent had a search that is alike, with something right."""
    agreed: int
    """Of these, those that another agent bears out."""


def borne_out(rows: Sequence[RankingRow]) -> list[bool]:
    """For each row, whether each tool that was right in it was right in a row of another agent whose search is alike.
    False where nothing was right."""
    by_tool: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        for tool in {each.tool for each in row.right}:
            by_tool[tool].append(place)
    searches = _searches(rows)
    names = {agent: number for number, agent in enumerate(sorted({row.origin.agent for row in rows}))}
    agents = np.array([names[row.origin.agent] for row in rows], dtype=np.intp)
    seen = [bool(row.right) for row in rows]
    for its in by_tool.values():
        vectors = _vectors([searches[place] for place in its])
        for place, found in zip(its, _seen_by_another(vectors, agents[its]), strict=True):
            seen[place] = seen[place] and found
    return seen


def agreements(rows: Sequence[RankingRow], borne: Sequence[bool]) -> dict[str, Agreement]:
    """Of each agent. `rows`: with something right; `borne`: what `borne_out` says of them."""
    searches = _searches(rows)
    index = _Index(searches, [row.origin.agent for row in rows])
    different: defaultdict[str, dict[object, int]] = defaultdict(dict)
    for place in sorted(range(len(rows)), key=lambda place: sha256(rows[place].id.encode("utf-8")).digest()):
        its = different[rows[place].origin.agent]
        key = (frozenset(searches[place]), frozenset(used.tool for used in rows[place].right))
        if len(its) < ASKED:
            its.setdefault(key, place)
    found: dict[str, Agreement] = {}
    for agent, chosen in different.items():
        compared = [place for place in chosen.values() if index.another(place)]
        found[agent] = Agreement(len(compared), sum(borne[place] for place in compared))
    return found


class _Index:
    """Of words to the searches that have them."""

    def __init__(self, searches: Sequence[Mapping[str, float]], agents: Sequence[str]) -> None:
        self._agents = np.array(agents)
        self._searches = searches
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, its in enumerate(searches):
            for word in its:
                places[word].append(place)
        self._having = {
            word: (np.array(its, dtype=np.intp), np.array([searches[each][word] for each in its]))
            for word, its in places.items()
            if len(its) > 1
        }

    def another(self, place: int) -> bool:
        """Whether a search of another agent is alike."""
        cosines = np.zeros(len(self._agents))
        for word, weight in self._searches[place].items():
            if word in self._having:
                having, theirs = self._having[word]
                cosines[having] += weight * theirs
        return bool(((cosines >= ALIKE) & (self._agents != self._agents[place])).any())


def _seen_by_another(vectors: NDArray[np.float32], agents: NDArray[np.intp]) -> list[bool]:
    found: list[bool] = []
    for start in range(0, len(vectors), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        others = agents[start : start + BLOCK, np.newaxis] != agents[np.newaxis, :]
        found += ((cosines >= ALIKE) & others).any(axis=1).tolist()
    return found


def _searches(rows: Sequence[RankingRow]) -> list[dict[str, float]]:
    """For each row the words of its search with their weights, whose squares sum to 1; all are 0 where no word tells
    a search from others."""
    words = [frozenset(template(row.query.text)) for row in rows]
    counts = Counter(word for its in words for word in its)
    rarity = {word: math.log(len(rows) / count) for word, count in counts.items()}
    lengths = [math.sqrt(math.fsum(rarity[word] ** 2 for word in its)) for its in words]
    return [
        {word: rarity[word] / length if length else 0.0 for word in its}
        for its, length in zip(words, lengths, strict=True)
    ]


def _vectors(searches: Sequence[Mapping[str, float]]) -> NDArray[np.float32]:
    """`[n, words that two of them have]`; their products are cosines."""
    counts = Counter(word for its in searches for word in its)
    places = {word: place for place, word in enumerate(sorted(word for word in counts if counts[word] > 1))}
    vectors = np.zeros((len(searches), len(places)), dtype=np.float32)
    for row, its in enumerate(searches):
        for word, weight in its.items():
            if word in places:
                vectors[row, places[word]] = weight
    return vectors
