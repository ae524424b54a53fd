"""Rows as examples: a query, what was right for it and what was wrong, with weights by reward.

Above: training.py. Below: trainer/rows.py and objectives/. What is right comes from rows alone: a tool that was used,
whose call was ok and has no negative credit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.router.base import Query
from trainer.ranking.objectives import advantage_weighted, filtered_imitation, imitation
from trainer.ranking.settings import RankingSettings
from trainer.rows import RankingRow

WITNESSES = 2
"""Agents, for whom a server has to have been right, where any server was for so many."""


@dataclass(frozen=True, slots=True)
class Example:
    """One query with what it teaches; written names of tools -> weights, all above 0."""

    query: Query
    right: Mapping[str, float] = field(default_factory=dict[str, float])
    wrong: Mapping[str, float] = field(default_factory=dict[str, float])
    candidates: tuple[str, ...] = ()
    """What the router chose among, best first, for policies that reorder; empty where nobody ranked."""
    weight: float = 1.0
    """Of its row beside other rows, which is in `right` and `wrong` already; of a task, of its heaviest row."""


def examples(rows: Iterable[RankingRow], settings: RankingSettings, known: Collection[str]) -> list[Example]:
    """One for each row that teaches something of tools in `known`, and one for each task, in the rows' order."""
    made: list[Example] = []
    by_episode: dict[str, list[RankingRow]] = defaultdict(list)
    for row in rows:
        right, wrong = lessons(row, settings)
        example = Example(
            query=row.query,
            right={tool: weight for tool, weight in right.items() if tool in known},
            wrong={tool: weight for tool, weight in wrong.items() if tool in known},
            candidates=tuple(tool for tool, _ in row.candidates),
            weight=row.weight,
        )
        if example.right or example.wrong:
            made.append(example)
        by_episode[row.origin.episode_id].append(row)
    if settings.tasks:
        made += [task for each in by_episode.values() if (task := _task(each, settings, known)) is not None]
    return made


def lessons(row: RankingRow, settings: RankingSettings) -> tuple[dict[str, float], dict[str, float]]:
    """What was right and what was wrong, tool -> weight; several right tools share the weight of their ranking."""
    positive, negative = _weights(row.advantage, settings)
    good = dict.fromkeys(each.tool for each in (row.right if settings.algorithm != "imitation" else row.used))
    right = {tool: positive * row.weight / len(good) for tool in good} if positive else {}
    wrong = {each.tool: negative * row.weight / len(row.used) for each in row.used} if negative else {}
    return {tool: weight for tool, weight in right.items() if weight}, wrong


def learned_servers(rows: Iterable[RankingRow], settings: RankingSettings, owners: Mapping[str, str]) -> frozenset[str]:
    """Servers of which good logs say enough: tools of theirs were right in `good_episodes` different episodes and for
    two agents, so that nobody has to believe what one alone says. Where no two agents share a server, each is believed
    of its own.

    `owners`: written name of a tool -> configured name of its server.
    """
    episodes: dict[str, set[str]] = defaultdict(set)
    agents: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for tool in lessons(row, settings)[0]:
            if tool in owners:
                episodes[owners[tool]].add(row.origin.episode_id)
                agents[owners[tool]].add(row.origin.agent)
    witnesses = WITNESSES if any(len(those) >= WITNESSES for those in agents.values()) else 1
    return frozenset(
        server
        for server, those in episodes.items()
        if len(those) >= settings.good_episodes and len(agents[server]) >= witnesses
    )


def _weights(advantage: float, settings: RankingSettings) -> tuple[float, float]:
    match settings.algorithm:
        case "advantage-weighted":
            return advantage_weighted.weights(
                advantage,
                beta=settings.beta,
                clip=settings.clip,
                margin=settings.margin,
                negative=settings.negative,
            )
        case "filtered-imitation":
            return filtered_imitation.weights(advantage)
        case "imitation":
            return imitation.weights()


def _task(rows: Sequence[RankingRow], settings: RankingSettings, known: Collection[str]) -> Example | None:
    """The user's own words, and all that was right in the episode, whatever it was found by."""
    task = next((text for row in rows if (text := row.query.task or row.origin.task)), None)
    right: dict[str, float] = defaultdict(float)
    heaviest = 0.0
    for row in rows:
        for tool, weight in lessons(row, settings)[0].items():
            if tool in known:
                right[tool] = max(right[tool], weight)
                heaviest = max(heaviest, row.weight)
    if task is None or not right:
        return None
    share = settings.tasks / len(right)
    return Example(query=Query(task), right={tool: weight * share for tool, weight in right.items()}, weight=heaviest)
