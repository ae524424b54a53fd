"""`kill -9` of a gateway under load, of its writer as well every other time: what was acknowledged is in the tables,
none twice, and what is missing is named exactly.

KILL_ROUNDS and KILL_CALLS make it longer: `make kill` does 20 rounds of 2,000 calls.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import anyio
import pytest
from sqlalchemy import func, select

from proxy.store.migrating import migrate
from proxy.store.tables import CallRow, EndingRow, EpisodeRow, GapRow, StepRow, StreamRow
from tests.fixtures.recorded import rows
from tests.kill.killed import Places, gateway, kill_in_the_middle, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(3600)]

ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))
CALLS = int(os.environ.get("KILL_CALLS", "400"))


async def test_what_was_acknowledged_survives_any_kill_once_and_gaps_are_named(
    tmp_path: Path, database_url: str
) -> None:
    if database_url.startswith("postgresql"):
        await migrate(database_url)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    places = Places(tmp_path, database_url)
    for number in range(ROUNDS):
        killed = await kill_in_the_middle(places, CALLS, chance)
        print(f"round {number}: {killed}")
    # One start more takes over what is left, and says what is missing.
    async with gateway(places):
        await until(lambda: not places.left() & {killed.stream for killed in places.killed})
    log = await anyio.Path(tmp_path / "gateway.log").read_text()
    gaps = {row["stream"]: row for row in await rows(database_url, GapRow)}
    for killed in places.killed:
        numbers = select(StepRow.seq).where(StepRow.stream == killed.stream).order_by(StepRow.seq)
        found = [number for (number,) in await rows(database_url, numbers)]
        # What became durable without the time to say so is there as well.
        assert len(found) >= killed.acknowledged
        assert found == list(range(1, len(found) + 1)), "acknowledged steps are missing"
        gap = gaps.pop(killed.stream, None)
        if len(found) == killed.assigned:
            assert gap is None
        else:
            assert gap is not None, f"nothing says that {len(found) + 1} to {killed.assigned} are missing"
            assert (gap["first_seq"], gap["last_seq"], gap["reason"]) == (len(found) + 1, killed.assigned, "killed")
            # Those who took over the others' were killed themselves, maybe before it was in the log.
            if killed is places.killed[-1]:
                assert f"its steps {len(found) + 1} to {killed.assigned} were not written" in log
    assert gaps == {}
    assert sum(killed.assigned for killed in places.killed) > ROUNDS
    twice = select(StepRow.episode_id, CallRow.arguments, StepRow.arguments, func.count())
    twice = twice.join(CallRow, CallRow.step_id == StepRow.id)
    twice = twice.group_by(StepRow.episode_id, CallRow.arguments, StepRow.arguments).having(func.count() > 1)
    assert await rows(database_url, twice) == []
    open_ended = select(EpisodeRow.id).where(EpisodeRow.id.not_in(select(EndingRow.episode_id)))
    assert await rows(database_url, open_ended) == []
    assert {killed.stream for killed in places.killed} <= {row["id"] for row in await rows(database_url, StreamRow)}
