"""Leaves a small share of the orders that agents are shown to chance, so that the log can tell what a place is worth.

Above: metatools/finding.py. Below: nothing of ours. Without it, whatever stands first is called most because it stands
first, and no log of such orders says what another order would have brought (docs/decisions/0027).
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

_DOMAIN = b"toolatlas exploring 1\n"
"""The key is used for other things as well."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """What to show, in this order."""

    tools: tuple[str, ...]
    propensities: tuple[float, ...] | None
    """For each place, the probability of the tool there, given those above; their product is that of the whole order.
    None where nothing was left to chance."""
    explored: bool
    """Whether two neighbours are swapped."""


class Explorer:
    """With probability `share`, swaps one pair of neighbours, each pair as likely as any other."""

    def __init__(self, share: float, key: bytes) -> None:
        """`share`: between 0 and 1. `key`: a secret, so that nobody can tell beforehand which searches are explored."""
        self._share = share
        self._key = key

    def order(self, tools: Sequence[str], decision: str) -> Ordered:
        """`tools` as they are ranked, all of which are shown; `decision` names this one search, and settles the draw:
        the same key, name and number of tools swap the same pair."""
        pairs = len(tools) - 1
        if self._share <= 0 or pairs < 1:
            return Ordered(tuple(tools), None, explored=False)
        drawn = self._draw(decision)
        if drawn >= self._share:
            return Ordered(tuple(tools), self._propensities(pairs, None), explored=False)
        # Given that it is below the share, it is spread evenly below it.
        pair = min(int(drawn / self._share * pairs), pairs - 1)
        order = [*tools[:pair], tools[pair + 1], tools[pair], *tools[pair + 2 :]]
        return Ordered(tuple(order), self._propensities(pairs, pair), explored=True)

    def _draw(self, decision: str) -> float:
        """Between 0 and 1, without 1: 53 bits, as many as a float holds."""
        digest = hmac.digest(self._key, _DOMAIN + decision.encode(), "sha256")
        return (int.from_bytes(digest[:8], "big") >> 11) / 2**53

    def _propensities(self, pairs: int, swapped: int | None) -> tuple[float, ...]:
        """There are as many orders as tools: the ranked one, and one for each pair."""
        of_one = self._share / pairs

        def as_ranked(places: int) -> float:
            """The probability that the first places are as ranked: no pair that reaches into them is swapped."""
            return 1 - of_one * min(places, pairs)

        propensities: list[float] = []
        for place in range(pairs + 1):
            if swapped is None or place < swapped:
                propensities.append(as_ranked(place + 1) / as_ranked(place))
            else:
                # From here on, only one order is left.
                propensities.append(of_one / as_ranked(place) if place == swapped else 1.0)
        return tuple(propensities)
