"""How much rows count, so that no agent teaches the router alone: neither by much traffic, nor by the same again.

Above: collecting.py, for all rows; the loop, for those of a split that are trained on. Below:
judge/writing/families.py, which masks values. Pure.

An agent that calls the same tool after the same search n times counts as √n of them: values in the search are masked,
so that numbering them makes no other search. Of what an agent alone calls right, where others' rows do not bear it out
(witnesses.py), no more counts than

    max(trust · what is borne out of its own, alone_share · what all others call right)

and of that, since who is contradicted more than twice as often as usual is believed less in what it alone says,

    min(1, 2 · r(a) / median of all r)      r(a) = (agreed + n · median of all r) / (compared + n)

where r(a) is how often others bear out what the agent found, where they searched for the same, and n is 5. Where
nothing of anybody is borne out, as in the log of one person, all counts. Then, with w(a) what all rows of agent a
teach, each is held to

    min(w(a), c)        c = max(agent_share · sum over a of min(w(a), c), the lower median of all w(a))

The median is for few agents: nobody can then be below `agent_share`, and to hold all to it would hold all to the least
of them, so that one false row of a newcomer would weigh as much as all of anybody else. What a row teaches is the
weight that training makes of its advantage A,

    min(clip, exp(A / beta)) of what was right, where A is above -margin;    -A of what was wrong, where it is not

and the two are held apart: nobody has more than the share of what is taught as right, nor of what is taught as wrong.
Whoever has no credential comes as one agent, the label that the gateway logs them under.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from judge.writing.families import template
from trainer.data.settings import CapSettings
from trainer.data.witnesses import Agreement, agreements, borne_out
from trainer.rows import RankingRow

PRIOR = 5.0
"""Rankings that an agent is taken to have agreed on as usual before anything was compared."""
_EXACT = 1 + 1e-12
"""What rounding may have taken off."""


def limits(weights: Mapping[str, float], share: float) -> dict[str, float]:
    """What to multiply the weight of each agent with, 0 to 1, so that afterwards none has more than its share, or than
    the lower median agent, if that is more.

    `weights`: of each agent, at least 0. `share`: above 0, at most 1.
    """
    present = sorted(weight for weight in weights.values() if weight > 0)
    if not present:
        return dict.fromkeys(weights, 1.0)
    median = present[(len(present) - 1) // 2]
    most = max(median, _most(present, share) if share * len(present) > 1 else 0.0)
    return {agent: 1.0 if weight <= most else most / weight for agent, weight in weights.items()}


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


def is_right(advantage: float, settings: CapSettings) -> bool:
    """Whether a row with this advantage teaches what was right; else it teaches what was wrong."""
    return advantage > -settings.margin


def final(advantage: float, settings: CapSettings) -> float:
    """What training makes of a row of weight 1, on its own side."""
    if not is_right(advantage, settings):
        return -advantage
    # What is above the clip may be too much for exp.
    return math.exp(min(advantage / settings.beta, math.log(settings.clip)))


def taught(row: RankingRow, settings: CapSettings) -> float:
    """The same; 0 of a row that has nothing to teach."""
    something = row.right if is_right(row.advantage, settings) else row.used
    return final(row.advantage, settings) if something else 0.0


def factors(
    agents: Sequence[str], advantages: Sequence[float], weights: Sequence[float], settings: CapSettings
) -> list[float]:
    """What to multiply each weight with, so that on neither side any agent has more than its share."""
    sides = [is_right(each, settings) for each in advantages]
    by_side: dict[bool, dict[str, float]] = {}
    for side in (True, False):
        its = [place for place, each in enumerate(sides) if each is side]
        of_side = sums([agents[place] for place in its], [weights[place] for place in its])
        by_side[side] = limits(of_side, settings.agent_share)
    return [by_side[side][agent] for side, agent in zip(sides, agents, strict=True)]


def believed(rows: Sequence[RankingRow], weights: Sequence[float], settings: CapSettings) -> list[float]:
    """For each row what to multiply its weight with, so that no agent teaches much as right that nobody bears out."""
    right = [bool(row.right) and is_right(row.advantage, settings) for row in rows]
    shown = [row for row, its in zip(rows, right, strict=True) if its]
    seen = borne_out(shown)
    if not any(seen):
        return [1.0] * len(rows)
    reliable = _reliable(agreements(shown, seen))
    places = iter(seen)
    alone = [its and not next(places) for its in right]
    agents = [row.origin.agent for row in rows]
    whole = sums(agents, [weight * its for weight, its in zip(weights, right, strict=True)])
    lone = sums(agents, [weight * its for weight, its in zip(weights, alone, strict=True)])
    everybody = math.fsum(whole.values())
    held: dict[str, float] = {}
    for agent, said in lone.items():
        most = max(settings.trust * (whole[agent] - said), settings.alone_share * (everybody - whole[agent]))
        held[agent] = reliable[agent] * min(1.0, most / said) if said > 0 else 1.0
    return [held[agent] if its else 1.0 for agent, its in zip(agents, alone, strict=True)]


def capped(rows: Sequence[RankingRow], settings: CapSettings) -> tuple[RankingRow, ...]:
    """The same rows with the weights that they have beside each other, whatever they had before: multiplied with
    `taught`, no agent has more than its share on either side."""
    less = repeats(rows)
    weights = [taught(row, settings) * factor for row, factor in zip(rows, less, strict=True)]
    trusted = believed(rows, weights, settings)
    less, weights = ([one * other for one, other in zip(its, trusted, strict=True)] for its in (less, weights))
    agents, advantages = [row.origin.agent for row in rows], [row.advantage for row in rows]
    held = factors(agents, advantages, weights, settings)
    return tuple(replace(row, weight=one * other) for row, one, other in zip(rows, less, held, strict=True))


def _reliable(found: Mapping[str, Agreement]) -> dict[str, float]:
    """The second equation above, of each agent; 1 where nobody agrees with anybody."""
    usual = median([each.agreed / each.compared for each in found.values() if each.compared] or [0.0])
    if not usual:
        return dict.fromkeys(found, 1.0)
    return {
        agent: min(1.0, 2 * (each.agreed + PRIOR * usual) / (each.compared + PRIOR) / usual)
        for agent, each in found.items()
    }


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
