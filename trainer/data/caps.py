"""How much rows count, so that no agent teaches the router alone: neither by much traffic, nor by the same again.

Above: collecting.py; ranking/ and policy/ may balance their own weights by `limits`. Below: judge/writing/families.py,
which masks values. Pure.

An agent that calls the same tool after the same search n times counts as √n of them: values in the search are masked,
so that numbering them makes no other search. Then, with w(a) the final weight of all rows of agent a, each is held to

    min(w(a), c)        c = s · sum over a of min(w(a), c)

with s = max(agent_share, 1 / number of agents): with fewer agents than 1 / agent_share nobody can be below it, and each
has an equal part. Whoever has no credential comes as one agent, the label that the gateway logs them under.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from judge.writing.families import template
from trainer.data.settings import CapSettings
from trainer.rows import RankingRow

_EXACT = 1 + 1e-12
"""What rounding may have taken off."""


def limits(weights: Mapping[str, float], share: float) -> dict[str, float]:
    """What to multiply the weight of each agent with, 0 to 1, so that afterwards none has more than its share.

    `weights`: of each agent, at least 0. `share`: above 0, at most 1.
    """
    present = sorted(weight for weight in weights.values() if weight > 0)
    most = _most(present, max(share, 1 / len(present))) if present else math.inf
    return {agent: 1.0 if weight <= most else most / weight for agent, weight in weights.items()}


def balanced(agents: Sequence[str], weights: Sequence[float], share: float) -> list[float]:
    """The same weights, of rows of these agents, once each agent is held to its share of them."""
    factors = limits(sums(agents, weights), share)
    return [weight * factors[agent] for agent, weight in zip(agents, weights, strict=True)]


def sums(agents: Iterable[str], weights: Iterable[float]) -> dict[str, float]:
    """The weight of each agent."""
    terms: defaultdict[str, list[float]] = defaultdict(list)
    for agent, weight in zip(agents, weights, strict=True):
        terms[agent].append(weight)
    return {agent: math.fsum(each) for agent, each in terms.items()}


def shares(agents: Iterable[str], weights: Iterable[float]) -> dict[str, float]:
    """The part of the whole weight that each agent has, the largest first; 0 of nothing."""
    found = sums(agents, weights)
    whole = math.fsum(found.values())
    return {
        agent: weight / whole if whole else 0.0
        for agent, weight in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    }


def repeats(rows: Sequence[RankingRow]) -> list[float]:
    """For each row 1 / √n, where its agent has n rows with the same tool after the same search; of several tools, the
    one that it has most often."""
    pairs = [[(row.origin.agent, tool, query) for tool in tools] for row, tools, query in map(_asked, rows)]
    counts = Counter(pair for its in pairs for pair in its)
    return [1 / math.sqrt(max(counts[pair] for pair in its)) for its in pairs]


def final(advantage: float, settings: CapSettings) -> float:
    """What training makes of a row of weight 1: `min(clip, exp(advantage / beta))`."""
    # What is above the clip may be too much for exp.
    return math.exp(min(advantage / settings.beta, math.log(settings.clip)))


def capped(rows: Sequence[RankingRow], settings: CapSettings) -> list[float]:
    """The weight of each row: after it, no agent has more than its share of the sum of weight x final weight."""
    less = repeats(rows)
    finals = [final(row.advantage, settings) * factor for row, factor in zip(rows, less, strict=True)]
    factors = limits(sums((row.origin.agent for row in rows), finals), settings.agent_share)
    return [factor * factors[row.origin.agent] for row, factor in zip(rows, less, strict=True)]


def _most(weights: Sequence[float], share: float) -> float:
    """c of the equation above; infinite where nobody is above it. `weights`: above 0, the smallest first."""
    for held in range(len(weights)):
        # If the largest `held` are held to c, all others keep what they have.
        others = weights[: len(weights) - held]
        most = share * math.fsum(others) / (1 - share * held)
        if others[-1] <= most * _EXACT:
            return most if held else math.inf
    # Only where numbers are too small to be divided.
    return weights[0]


def _asked(row: RankingRow) -> tuple[RankingRow, Sequence[str | None], str]:
    tools: list[str | None] = [each.tool for each in row.used] or [None]
    return row, tools, " ".join(template(row.query.text))
