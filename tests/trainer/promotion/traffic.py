"""Tasks in the log that end as soon as they begin, with searches that an adapter answered, well or not.

Above: the tests beside it. Below: tests/fixtures/logged.py and judged.py, whose rows a gateway and a judge would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np

from proxy.router.serving import in_canary
from proxy.store.database import Database
from proxy.store.registry import in_force
from proxy.store.tables import ShadowRow
from tests.fixtures import judged, logged
from tests.fixtures.logged import Episode, Rows, text

_TIMES = ("began_at", "started_at", "decided_at", "ended_at")
CANDIDATES = [(f"shop.tool_{number}", 9.0 - number) for number in range(8)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What searches come to."""

    success: float = 0.6
    late: float = 0.0
    """Share that words answer, since the router is late."""
    unadapted: float = 0.0
    """Share that the router answers without its adapter."""
    reward: float | None = None
    """Mean of the tasks' rewards; none is judged without."""


class Traffic:
    """Writes tasks, each answered by whoever the registry says."""

    def __init__(self, database: Database, seed: int = 0) -> None:
        self._database = database
        self._random = np.random.default_rng(seed)
        self._numbers = count(1)
        self.canary_searches = 0

    async def write(self, tasks: int, usual: Quality, canary: Quality | None = None) -> None:
        """`canary`: of its tasks; like all others without."""
        force = await in_force(self._database)
        logs: list[Rows] = []
        shadows: list[dict[str, Any]] = []
        judgements: list[dict[str, Any]] = []
        for at in _moments(tasks):
            episode = Episode(next(self._numbers))
            own = force.canary is not None and in_canary(force.canary, episode.id, force.share)
            quality, adapter = (canary or usual, force.canary) if own else (usual, force.active)
            searches = 1 + int(self._random.poisson(1.0))
            self.canary_searches += searches if own else 0
            for _ in range(searches):
                step = self._search(episode, adapter, quality)
                if force.shadow is not None:
                    shadows.append(shadow(step, episode.id, force.shadow))
            if quality.reward is not None:
                reward = float(np.clip(self._random.normal(quality.reward, 0.2), 0.0, 1.0))
                judgements.append(judged.judgement(episode.id, reward))
            logs.append(_moved(episode.end("a task"), at))
        await logged.write(self._database, *logs)
        await judged.write(self._database, [judged.rubric()] if judgements else [], judgements)
        async with self._database.writing() as connection:
            await self._database.add(connection, ShadowRow, shadows)

    def _search(self, episode: Episode, adapter: str | None, quality: Quality) -> str:
        late = bool(self._random.random() < quality.late)
        step = episode.step("search_tools", {"query": "a tool"}, text("tools"))
        answer = {"adapter": None, "policy": "lexical", "degraded": "late"} if late else {"adapter": adapter}
        if self._random.random() < quality.unadapted:
            answer = {"adapter": None, "degraded": "without its adapter"}
        episode.decided(step, "a tool", CANDIDATES, 5, **answer)
        if self._random.random() < quality.success:
            episode.call("shop", "tool_0", {}, text("done"))
        return step


def shadow(step: str, episode: str, adapter: str) -> dict[str, Any]:
    """A row of `shadow_decisions` whose first five tools are three of those of the decision."""
    ranked = [*CANDIDATES[:3], *CANDIDATES[6:], *CANDIDATES[3:6]]
    return {
        "step_id": step,
        "episode_id": episode,
        "policy": "fused",
        "adapter": adapter,
        "candidates": [list(each) for each in ranked],
        "decided_at": datetime.now(UTC),
    }


def _moments(number: int) -> Iterator[datetime]:
    began = datetime.now(UTC)
    for place in range(number):
        yield began + timedelta(microseconds=place)


def _moved(rows: Rows, at: datetime) -> Rows:
    """The same, all of it at one moment: after what the registry said before, and before what it says next."""
    found: dict[Any, Sequence[dict[str, Any]]] = {}
    for table, each in rows.items():
        found[table] = [{**row, **{name: at for name in _TIMES if name in row}} for row in each]
    return found
