"""Held-out tasks: a query, and what was needed for it.

Above: the other modules of this package. Below: trainer/rows.py; data/caps.py, which knows who has how much.

Of a ranking that was held out and came out well, what was right by reward was needed. Agents only use what they are
shown: such tasks favour what ranked then, and say nothing of tools that nobody found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from proxy.router.base import Query
from proxy.router.metrics import Need
from trainer.data.caps import limits
from trainer.rows import RankingRow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One query that nothing was trained on."""

    id: str
    query: Query
    tools: tuple[Need, ...]
    """Written names; each need is met by any one of its names."""
    servers: tuple[Need, ...]
    cluster: str
    """The combination of servers that it needs: tasks of one are no independent evidence."""
    episode_id: str | None = None
    """Of the log; None where it is from a task file."""
    agent: str | None = None

    @property
    def right(self) -> frozenset[str]:
        """Every tool that meets a need."""
        return frozenset[str]().union(*self.tools)


def held_out(
    rows: Iterable[RankingRow], episodes: Iterable[str], *, margin: float, agent_share: float, most: int
) -> list[HeldOut]:
    """Of rankings in these episodes that were rewarded well, at most `most`, in their order.

    Args:
        margin: Rewarded well is an advantage above minus this, as in training.
        agent_share: Of the tasks, that any one agent has at most; with few agents, an equal part. Of one that has more,
            and of all, a hash of the ranking's id says which ones stay. The same search of one agent with the same
            outcome is one task.
    """
    wanted = frozenset(episodes)
    found: dict[tuple[object, ...], HeldOut] = {}
    for row in rows:
        right = dict.fromkeys(each.tool for each in row.right)
        if row.origin.episode_id in wanted and right and row.advantage > -margin:
            found.setdefault((row.origin.agent, row.query.text, *sorted(right)), _task(row, list(right)))
    return _sampled(list(found.values()), agent_share, most)


def server_of(tool: str) -> str:
    """The written name of a tool's server."""
    return tool.partition(".")[0]


def _task(row: RankingRow, right: Sequence[str]) -> HeldOut:
    servers = dict.fromkeys(map(server_of, right))
    return HeldOut(
        id=row.id,
        query=row.query,
        tools=tuple(frozenset({tool}) for tool in right),
        servers=tuple(frozenset({server}) for server in servers),
        cluster=" ".join(sorted(row.origin.servers | servers.keys())),
        episode_id=row.origin.episode_id,
        agent=row.origin.agent,
    )


def _sampled(tasks: Sequence[HeldOut], agent_share: float, most: int) -> list[HeldOut]:
    counts = Counter(task.agent or "" for task in tasks)
    factors = limits(counts, agent_share)
    by_agent: defaultdict[str, list[HeldOut]] = defaultdict(list)
    for task in sorted(tasks, key=_drawn):
        by_agent[task.agent or ""].append(task)
    # Rounded, since the product of a factor and a number need not be as whole as it should.
    kept = [task for agent, its in by_agent.items() for task in its[: max(1, int(len(its) * factors[agent] + 1e-6))]]
    chosen = {task.id for task in sorted(kept, key=_drawn)[:most]}
    return [task for task in tasks if task.id in chosen]


def _drawn(task: HeldOut) -> str:
    return sha256(task.id.encode("utf-8", "surrogatepass")).hexdigest()
