"""Rewards of rollouts: the judge reads what the gateway logged of them, as of any other episode.

Above: running.py. Below: the store, and trainer/loop/judging.py, by which canaries are tried with every batch. A
rollout is never given a number that the judge did not give: without a reward it is left out, and so is one that was
seen in another way than most, since rewards of two scopes are not compared (docs/decisions/0024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
from sqlalchemy import select

from judge.judging import Judge
from judge.scope import Scope
from proxy.errors import ConfigurationError
from proxy.policy.client_world import logged_as
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.rewards import rewards_of
from proxy.store.tables import EndingRow, EpisodeRow
from trainer.loop.judging import judge_all
from trainer.online.playing import Rollout

LOGGED_S = 120.0
POLL_S = 0.05


async def rewarded(database: Database, judge: Judge, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The same rollouts with their rewards, or with why they are left out.

    Raises:
        ConfigurationError: Episodes do not come into this log, so that it is not the gateway's.
        Refused: A canary got more than it deserves.
    """
    episodes = await logged(database, [each.client for each in rollouts if each.acted])
    ids = tuple(episodes.values())
    # What was cut off is judged too: that costs little, and the log stays whole.
    await judge_all(database, judge, filters=Filters(ids=ids))
    async with database.reading() as connection:
        rewards = await rewards_of(connection, ids, judge=judge.name)
    scored: list[Rollout] = []
    for each in rollouts:
        its = rewards.get(episodes.get(each.client, ""))
        if each.left_out is not None:
            scored.append(each)
        elif its is None:
            scored.append(replace(each, left_out="it was not judged"))
        elif its.reward is None:
            scored.append(replace(each, left_out=f"it has no reward: {its.unrewarded}"))
        elif not _whole(its.scope):
            scored.append(replace(each, left_out=f"only its {its.scope} could be judged"))
        else:
            scored.append(replace(each, reward=its.reward))
    return scored


def _whole(scope: str) -> bool:
    """Whether both the task and an answer were seen."""
    its = Scope.read(scope)
    return its.task and its.answer


async def logged(database: Database, clients: Sequence[str]) -> dict[str, str]:
    """The episode of each client, once all of them are in the log with their ends.

    Raises:
        ConfigurationError: They do not come into this log, so that it is not the gateway's.
    """
    names = {logged_as(client): client for client in clients}
    statement = (
        select(EpisodeRow.client, EpisodeRow.id)
        .join(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(EpisodeRow.client.in_(names))
        .order_by(EpisodeRow.began_at)
    )
    found: dict[str, str] = {}
    with anyio.move_on_after(LOGGED_S):
        while True:
            async with database.reading() as connection:
                found = {names[str(row.client)]: row.id for row in await connection.execute(statement)}
            if len(found) == len(names):
                return found
            await anyio.sleep(POLL_S)
    raise ConfigurationError(
        f"{len(names) - len(found)} of {len(names)} episodes did not come into the log within {LOGGED_S:.0f} s: name "
        "the database that the gateway logs into with --database, and let it log contents in full"
    )
