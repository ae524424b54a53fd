"""Adapters go forward and back by what registry and log hold: nothing is forced, and every test reads real rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from proxy.store.database import Database
from proxy.store.judging_tables import BatchRow
from proxy.store.registry import InForce, State, approve, entry, in_force, register, roll_back, set_state
from tests.fixtures.registered import adapter, at, named
from tests.trainer.promotion.test_gates import JUDGE, paired
from tests.trainer.promotion.traffic import Quality, Traffic
from trainer.promotion.advancing import Look, advance
from trainer.promotion.canary import Tasks
from trainer.promotion.evidence import EVIDENCE, Evidence
from trainer.promotion.gates import GateSettings, Result
from trainer.promotion.settings import PromotionSettings
from trainer.promotion.watching import watch

pytestmark = pytest.mark.anyio
OLD, NEW, OTHER = named("old"), named("new"), named("other")
SETTINGS = PromotionSettings(share=0.2)
GOOD, BAD = Quality(success=0.6), Quality(success=0.35)


@pytest.fixture(autouse=True)
async def judged(database: Database) -> None:
    """A batch of the judge, whose canaries passed."""
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "id": "b_1", "judge": JUDGE, "worker": "w", "began_at": now, "ended_at": now, "accepted": True, "episodes": 100,
        "canaries": [{"name": "praises itself", "reward": 0.1, "passed": True, "note": ""}], "note": None,
    }  # fmt: skip
    async with database.writing() as connection:
        assert await database.add(connection, BatchRow, [row]) == 1


async def propose(
    database: Database, hashed: str, mean: float, *, against: str | None = None, tasks: int = 200
) -> None:
    """Register an adapter that an evaluation found so much better."""
    evidence = Evidence(against=against, paired=(paired(mean, tasks=tasks),), p95_ms=40.0, judges=(JUDGE,))
    await register(database, adapter(hashed, metrics={EVIDENCE: evidence.to_json()}), by="learn")


async def look(database: Database, settings: PromotionSettings = SETTINGS, **given: Any) -> dict[str, Look]:
    return {each.hash: each for each in await advance(database, settings, by="watch", **given)}


async def canary(database: Database, hashed: str, share: float = 0.2) -> None:
    await at(database, OLD, State.ACTIVE)
    await at(database, hashed, State.CANARY, share=share)


async def test_a_deliberately_worse_adapter_is_refused_by_the_gate(database: Database) -> None:
    await propose(database, NEW, -0.1)
    found = (await look(database))[NEW]
    assert (found.before, found.after) == (State.CANDIDATE, State.RETIRED)
    change = (await entry(database, NEW)).history[-1]
    assert change.by == "watch"
    assert change.reason == found.reason
    assert "it is worse" in found.reason
    assert await in_force(database) == InForce()


async def test_too_little_data_holds_a_candidate(database: Database) -> None:
    await propose(database, NEW, 0.5, tasks=20)
    found = (await look(database))[NEW]
    assert (found.before, found.after) == (State.CANDIDATE, State.CANDIDATE)
    assert "too little data" in found.reason
    assert (await entry(database, NEW)).state is State.CANDIDATE


async def test_from_candidate_to_active_by_traffic_alone(database: Database) -> None:
    traffic, tasks = Traffic(database), Tasks(database)
    await at(database, OLD, State.ACTIVE)
    await propose(database, NEW, 0.1, against=OLD)
    assert (await look(database))[NEW].after is State.SHADOW
    found = (await look(database))[NEW]
    assert (found.after, "0 of 50 searches ranked" in found.reason) == (State.SHADOW, True)
    await traffic.write(60, GOOD)
    found = (await look(database))[NEW]
    assert found.after is State.CANARY
    assert "of their first five tools 60% the same" in found.reason
    assert await in_force(database) == InForce(active=OLD, canary=NEW, share=0.2)
    for _ in range(10):
        await traffic.write(200, replace(GOOD, reward=0.6))
        if (found := (await look(database, tasks=tasks))[NEW]).after is not State.CANARY:
            break
    assert found.after is State.ACTIVE
    assert traffic.canary_searches >= SETTINGS.sequential.enough
    assert all("not worse by 0.2" in gate.said for gate in found.gates)
    assert await in_force(database) == InForce(active=NEW, former=(OLD,))
    assert (await entry(database, OLD)).state is State.RETIRED
    # After that it is compared with what it was.
    await traffic.write(50, GOOD)
    assert [gate.result for gate in (await look(database))[NEW].gates] == [Result.PASSED] * 3


@pytest.mark.parametrize("seed", range(3))
async def test_one_that_passed_offline_and_is_worse_is_rolled_back_within_200_searches(
    database: Database, seed: int
) -> None:
    traffic, tasks = Traffic(database, seed), Tasks(database)
    await at(database, OLD, State.ACTIVE)
    await propose(database, NEW, 0.1, against=OLD)
    await look(database)
    await traffic.write(60, GOOD)
    await look(database)
    assert (await in_force(database)).canary == NEW
    while (await in_force(database)).canary == NEW:
        await traffic.write(50, GOOD, BAD)
        await look(database, tasks=tasks)
        assert traffic.canary_searches <= 200
    last = (await entry(database, NEW)).history[-1]
    assert (last.state, last.by) == (State.RETIRED, "watch")
    assert "went well" in (last.reason or "")
    assert "it is worse" in (last.reason or "")
    assert await in_force(database) == InForce(active=OLD)


async def test_a_canary_that_the_judge_finds_worse_is_rolled_back(database: Database) -> None:
    traffic = Traffic(database)
    await canary(database, NEW)
    await traffic.write(700, replace(GOOD, reward=0.7), replace(GOOD, reward=0.4))
    found = (await look(database))[NEW]
    assert found.after is State.RETIRED
    assert found.reason.startswith("reward: -0.")


async def test_a_canary_that_is_late_is_rolled_back_though_words_answered_well(database: Database) -> None:
    traffic = Traffic(database)
    await canary(database, NEW)
    await traffic.write(700, GOOD, replace(GOOD, late=0.5))
    found = (await look(database))[NEW]
    assert found.after is State.RETIRED
    assert "searches that the router answered itself, in time: -0." in found.reason


async def test_a_canary_that_is_still_made_ready_is_not_rolled_back_for_that(database: Database) -> None:
    traffic = Traffic(database)
    await canary(database, NEW)
    await traffic.write(300, GOOD, replace(GOOD, unadapted=0.5))
    gates = (await look(database))[NEW].gates
    assert [gate.said.split()[0] for gate in gates if gate.name.endswith("in time")] == ["+0.000"]


async def test_tasks_of_before_the_canary_answered_do_not_count(database: Database) -> None:
    traffic = Traffic(database)
    await at(database, OLD, State.ACTIVE)
    await traffic.write(300, BAD)
    await at(database, NEW, State.CANARY, share=0.2)
    found = (await look(database))[NEW]
    assert found.reason == "canary: no search was answered by it yet"
    await traffic.write(300, GOOD)
    found = (await look(database))[NEW]
    assert all("of 4" in gate.said or "of 5" in gate.said or "of 6" in gate.said for gate in found.gates)


async def test_an_active_adapter_that_falls_is_rolled_back_to_the_one_before(database: Database) -> None:
    traffic = Traffic(database)
    await canary(database, NEW)
    await traffic.write(300, GOOD)
    await set_state(database, NEW, State.ACTIVE, "passed", by="ann")
    await traffic.write(200, Quality(success=0.15))
    found = (await look(database))[NEW]
    assert found.after is State.RETIRED
    assert "of its tasks as a canary" in found.reason
    assert await in_force(database) == InForce(active=OLD)
    assert (await entry(database, OLD)).history[-1].reason == f"{NEW[:12]} was rolled back"


async def test_one_whose_files_are_gone_is_not_gone_back_to(database: Database) -> None:
    traffic = Traffic(database)
    await canary(database, NEW)
    await traffic.write(300, GOOD)
    await set_state(database, NEW, State.ACTIVE, "passed", by="ann")
    await traffic.write(200, Quality(success=0.15))
    await look(database, usable=lambda hashed: hashed != OLD)
    assert (await in_force(database)).active is None


async def test_an_active_adapter_that_stays_as_it_was_stays(database: Database) -> None:
    traffic = Traffic(database)
    await canary(database, NEW)
    await traffic.write(300, GOOD)
    await set_state(database, NEW, State.ACTIVE, "passed", by="ann")
    await traffic.write(500, Quality(success=0.55))
    assert (await look(database))[NEW].after is State.ACTIVE


async def test_where_a_person_has_to_agree_no_canary_begins_before(database: Database) -> None:
    settings = PromotionSettings(gates=GateSettings(approval=True), shadowed=0, share=0.2)
    await at(database, NEW, State.SHADOW)
    found = (await look(database, settings))[NEW]
    assert (found.after, "toolatlas adapters approve" in found.reason) == (State.SHADOW, True)
    await approve(database, NEW, by="ann", note="looked at its report")
    found = (await look(database, settings))[NEW]
    assert (found.after, "by ann" in found.reason) == (State.CANARY, True)


async def test_one_is_tried_after_the_other(database: Database) -> None:
    settings = PromotionSettings(shadowed=0, share=0.2)
    for number, hashed in enumerate((NEW, OTHER)):
        evidence = Evidence(against=None, paired=(paired(0.1),), p95_ms=40.0, judges=(JUDGE,))
        metrics = {EVIDENCE: evidence.to_json()}
        await register(database, adapter(hashed, number, metrics=metrics), by="learn")
    found = await look(database, settings)
    # The newer one first.
    assert (found[OTHER].after, found[NEW].after) == (State.SHADOW, State.CANDIDATE)
    assert found[NEW].reason == f"place: {OTHER[:12]} is before it"
    found = await look(database, settings)
    assert (found[OTHER].after, found[NEW].after) == (State.CANARY, State.CANDIDATE)
    await roll_back(database, "by hand", by="ann")
    assert (await look(database, settings))[NEW].after is State.SHADOW


async def test_one_that_was_evaluated_against_another_is_held_once_that_is_active_no_more(database: Database) -> None:
    await propose(database, NEW, 0.1)
    await at(database, OLD, State.ACTIVE)
    found = (await look(database))[NEW]
    assert (found.after, "evaluate it again" in found.reason) == (State.CANDIDATE, True)


async def test_processes_that_look_at_the_same_time_change_it_once(database: Database) -> None:
    await propose(database, NEW, 0.1)
    settings = PromotionSettings(shadowed=10_000)
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(advance_by, database, settings)
    assert [change.state for change in (await entry(database, NEW)).history] == [State.CANDIDATE, State.SHADOW]


async def advance_by(database: Database, settings: PromotionSettings) -> None:
    await advance(database, settings, by="one of many")


async def test_policies_are_left_alone(database: Database) -> None:
    await register(database, adapter(NEW, kind="policy"), by="learn")
    assert await look(database) == {}


async def test_the_watch_tells_what_changed_and_waits_for_a_database_that_is_away(database: Database) -> None:
    told: list[Look] = []
    await propose(database, NEW, 0.1)
    looks = 0

    def done() -> bool:
        nonlocal looks
        looks += 1
        return looks == 4

    with anyio.fail_after(60):
        await watch(database, SETTINGS, by="watch", usable=lambda _: True, told=told.append, every_s=0.01, until=done)
    assert [(each.before, each.after) for each in told] == [
        (State.CANDIDATE, State.SHADOW),
        (State.SHADOW, State.SHADOW),
    ]
    away = Database("postgresql://nobody@127.0.0.1:1/none")
    looks = 2
    with anyio.fail_after(60):
        await watch(away, SETTINGS, by="watch", usable=lambda _: True, told=told.append, every_s=0.01, until=done)
    await away.close()
    assert len(told) == 2
