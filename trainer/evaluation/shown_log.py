"""The log as off-policy estimates read it: for every tool that a ranking showed, where it stood, where it might have
stood, where another router would put it, and whether it was rightly used.

Above: off_policy.py and position.py. Below: trainer/rows.py. Of n tools shown there were n possible orders: as ranked,
or with one pair of neighbours swapped, each pair with probability q (proxy/router/exploring.py). A tool ranked at place
k therefore stood at k - 1 or k + 1 with probability q each, and stayed otherwise; q is 0 where nothing was left to
chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxy.router.base import Router
from trainer.evaluation.answers import EVERYTHING
from trainer.rows import RankingRow

Whole = NDArray[np.intp]
Real = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLog:
    """One entry for each tool that was shown; arrays `[m]`. Places count from 0."""

    episode: Whole
    """From 0 to `episodes` - 1."""
    ranking: Whole
    """From 0 to `rankings` - 1."""
    size: Whole
    """Tools that its ranking showed."""
    ranked: Whole
    """Place before any swap."""
    shown: Whole
    target: Whole
    """Place in the order of the router that is asked about."""
    chance: Real
    """q of its ranking."""
    used: Real
    """1 where it was rightly used, else 0."""
    episodes: int
    rankings: int
    swaps: int

    @property
    def places(self) -> int:
        """The most tools that any ranking showed."""
        return int(self.size.max(initial=0))

    def stood(self, place: Whole) -> Real:
        """`[m]`: the probability that each tool stood at that place of its ranking."""
        neighbours = (self.ranked > 0).astype(np.float64) + (self.ranked < self.size - 1)
        near = np.abs(place - self.ranked) == 1
        return np.where(place == self.ranked, 1 - self.chance * neighbours, np.where(near, self.chance, 0.0))


def shown_log(rows: Sequence[RankingRow], router: Router | None) -> ShownLog:
    """Of rankings that showed at least two tools. `router`: whose order of the same tools is asked about; tools that it
    does not rank come last, as they were. None asks about the order before any swap."""
    columns: list[tuple[int, int, int, int, int, int, float, float]] = []
    episodes: dict[str, int] = {}
    rankings = swaps = 0
    for row in rows:
        if len(row.shown) < 2:
            continue
        episode = episodes.setdefault(row.origin.episode_id, len(episodes))
        ranked, chance, swapped = _chances(row)
        best = [] if router is None else router.rank(row.query, EVERYTHING)
        order = {each.tool: place for place, each in enumerate(best)}
        wanted = sorted(row.shown, key=lambda tool: (order.get(tool, len(order)), ranked[tool]))
        right = {each.tool for each in row.right if each.shown}
        for place, tool in enumerate(row.shown):
            used = float(tool in right)
            columns.append((episode, rankings, len(row.shown), ranked[tool], place, wanted.index(tool), chance, used))
        rankings += 1
        swaps += swapped
    table = np.array(columns, dtype=np.float64).reshape(-1, 8)
    whole = table[:, :6].astype(np.intp)
    return ShownLog(
        episode=whole[:, 0],
        ranking=whole[:, 1],
        size=whole[:, 2],
        ranked=whole[:, 3],
        shown=whole[:, 4],
        target=whole[:, 5],
        chance=table[:, 6],
        used=table[:, 7],
        episodes=len(episodes),
        rankings=rankings,
        swaps=swaps,
    )


def _chances(row: RankingRow) -> tuple[dict[str, int], float, bool]:
    """The place of each tool before any swap, q, and whether a pair was swapped."""
    as_shown = {tool: place for place, tool in enumerate(row.shown)}
    if row.order_propensity is None:
        return as_shown, 0.0, False
    scored = {tool: place for place, (tool, _) in enumerate(row.candidates)}
    before = sorted(row.shown, key=lambda tool: (scored.get(tool, len(scored)), as_shown[tool]))
    ranked = {tool: place for place, tool in enumerate(before)}
    swapped = any(ranked[tool] != place for tool, place in as_shown.items())
    pairs = len(row.shown) - 1
    return ranked, row.order_propensity if swapped else (1 - row.order_propensity) / pairs, swapped
