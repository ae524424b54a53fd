"""Workers on real databases: what is judged is written once, whole batches or none, and nothing is tried for ever."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from sqlalchemy import delete, func, select, update

from judge.case import Case
from judge.checks.base import Finding, check, met, unmet
from judge.checks.library import Library
from judge.claims import Wanted
from judge.judging import Judge
from judge.keeping import attach, keep_rubric
from judge.rubric import Category, Criterion, Kind, Rubric
from judge.running import Pace, Refused, Worker
from judge.settings import RewardSettings
from judge.tally import Tally
from judge.verdict import Verdict
from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.judgements import judgements
from proxy.store.judging_tables import ClaimRow, JudgementRow, RubricRow
from proxy.store.rewards import batches
from proxy.store.rubrics import Attached
from proxy.store.tables import EndingRow, EpisodeRow, StepRow
from tests.judge.logs import filed, id_of, write_episodes

pytestmark = pytest.mark.anyio

EPISODES = 10


@check("asked_for_oslo")
def asked_for_oslo(case: Case) -> Finding:
    """The time of Oslo was asked for."""
    asked = [act for act in case.acts if act.arguments.get("timezone") == "Europe/Oslo"]
    return met(acts=asked) if asked else unmet("nobody asked for Oslo")


@check("anything")
def anything(case: Case) -> Finding:
    """Always met."""
    return met()


@check("stumbles", needs=())
def stumbles(case: Case) -> Finding:
    """Met, but for the episode whose agent is called `stone`."""
    if case.trajectory.agent == "stone":
        raise RuntimeError("a mistake of the check")
    return asked_for_oslo(case, {})


LIBRARY = Library({each.name: each for each in (asked_for_oslo, anything, stumbles)})


def rubric_of(check: str) -> Rubric:
    return Rubric(
        (
            Criterion(
                id="one",
                category=Category.TASK_FULFILMENT,
                text="It is as it should be.",
                weight=5,
                kind=Kind.CHECK,
                check=check,
                needs=frozenset(),
            ),
        )
    )


class Stumbling(Judge):
    """A judge with a mistake that shows with one episode."""

    async def judge(self, rubric: Rubric, case: Case) -> Any:
        if case.trajectory.id == id_of(3):
            raise KeyError("a mistake of the judge")
        return await super().judge(rubric, case)


@pytest.fixture
async def log(database: Database) -> Database:
    await write_episodes(database, range(EPISODES))
    await filed(database, range(EPISODES))
    return database


async def a_worker(
    database: Database,
    *,
    rubric: Rubric | None = None,
    canaries: Rubric | None = None,
    judge: Judge | None = None,
    told: Any = lambda _: None,
    filters: Filters | None = None,
    **pace: Any,
) -> Worker:
    judge = judge or Judge(LIBRARY, RewardSettings())
    strict = rubric_of("asked_for_oslo")
    hash_ = await keep_rubric(database, rubric or strict, writer="a test")
    wanted = Wanted(judge=judge.name, default=hash_, filters=filters or Filters())
    values: dict[str, Any] = {"batch": 4, "lease_s": 600.0} | pace
    return Worker(database, judge, wanted, Pace(**values), canaries=canaries or strict, told=told)


async def count(database: Database, table: Any) -> int:
    async with database.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def test_all_is_judged_in_batches_and_no_claim_stays(log: Database) -> None:
    told: list[Tally] = []
    worker = await a_worker(log, told=told.append)
    sums = await worker.run(anyio.Event())
    assert [each.judged for each in told] == [4, 4, 2]
    assert (sums.judged, sums.rewarded, sums.mean_reward, sums.broken) == (EPISODES, EPISODES, 1.0, 0)
    assert dict(sums.scopes) == {"calls+task+answer": EPISODES}
    assert await count(log, ClaimRow) == 0
    written = await batches(log)
    assert sorted(each.episodes for each in written) == [2, 4, 4]
    assert all(each.accepted and each.worker == worker.name for each in written)
    assert all(canary["passed"] for each in written for canary in each.canaries)
    again = await worker.run(anyio.Event())
    assert again.judged == 0
    assert await count(log, JudgementRow) == EPISODES


async def test_a_judgement_says_all_that_was_found(log: Database) -> None:
    worker = await a_worker(log)
    await worker.run(anyio.Event())
    (judgement,) = (await judgements(log, [id_of(0)]))[id_of(0)]
    (verdict,) = [Verdict.of_content(each) for each in judgement.verdicts]
    assert (verdict.criterion, verdict.score) == ("one", 1.0)
    assert judgement.credits == {verdict.steps[0]: 1.0}
    assert judgement.subtotals == {
        "task_fulfilment": 1.0, "tool_appropriateness": None, "tool_grounding": None, "parameter_accuracy": None,
    }  # fmt: skip
    assert (judgement.reward, judgement.unrewarded, judgement.scope) == (1.0, None, "calls+task+answer")
    assert (judgement.repeat, judgement.cost, judgement.prompt_hash) == (0, None, None)
    assert judgement.batch in {each.id for each in await batches(log)}


async def test_a_limit_is_kept(log: Database) -> None:
    worker = await a_worker(log, limit=6)
    assert (await worker.run(anyio.Event())).judged == 6
    assert await count(log, JudgementRow) == 6


async def test_a_refused_batch_leaves_nothing_but_what_the_canaries_got(log: Database) -> None:
    worker = await a_worker(log, canaries=rubric_of("anything"))
    with pytest.raises(Refused, match="None of the 4 judgements of this batch was kept") as refused:
        await worker.run(anyio.Event())
    assert await count(log, JudgementRow) == 0
    assert await count(log, ClaimRow) == 0
    (batch,) = await batches(log)
    assert (batch.accepted, batch.episodes) == (False, 0)
    assert all(canary["reward"] == 1.0 and not canary["passed"] for canary in batch.canaries)
    for canary in batch.canaries:
        assert canary["name"] in str(refused.value)


async def test_an_episode_on_which_the_judge_fails_is_judged_without_a_reward_and_not_tried_again(
    log: Database,
) -> None:
    worker = await a_worker(log, judge=Stumbling(LIBRARY, RewardSettings()))
    sums = await worker.run(anyio.Event())
    assert (sums.judged, sums.rewarded, sums.broken) == (EPISODES, EPISODES - 1, 1)
    (judgement,) = (await judgements(log, [id_of(3)]))[id_of(3)]
    assert (judgement.reward, judgement.unrewarded, judgement.credits) == (None, "judging failed: KeyError", None)
    assert judgement.verdicts[0]["why"] == "broken"


async def test_an_episode_that_cannot_be_read_spoils_no_other_one(log: Database) -> None:
    async with log.writing() as connection:
        await connection.execute(update(StepRow).where(StepRow.episode_id == id_of(2)).values(outcome="no such word"))
    worker = await a_worker(log)
    sums = await worker.run(anyio.Event())
    assert (sums.judged, sums.rewarded, sums.broken) == (EPISODES, EPISODES - 1, 1)
    (judgement,) = (await judgements(log, [id_of(2)]))[id_of(2)]
    assert (judgement.reward, judgement.unrewarded, judgement.scope) == (None, "judging failed: ValueError", "calls")


async def test_a_check_that_fails_makes_no_reward_up(log: Database) -> None:
    async with log.writing() as connection:
        await connection.execute(update(EpisodeRow).where(EpisodeRow.id == id_of(5)).values(agent="stone"))
    worker = await a_worker(log, rubric=rubric_of("stumbles"))
    sums = await worker.run(anyio.Event())
    assert (sums.judged, sums.rewarded, sums.broken) == (EPISODES, EPISODES - 1, 0)
    assert sum(sums.unrewarded.values()) == 1


async def test_what_was_deleted_while_it_was_judged_is_left_out(log: Database, database_url: str) -> None:
    class Deleting(Judge):
        async def judge(self, rubric: Rubric, case: Case) -> Any:
            if case.trajectory.id == id_of(1):
                async with log.writing() as connection:
                    await connection.execute(delete(EpisodeRow).where(EpisodeRow.id == id_of(0)))
            return await super().judge(rubric, case)

    worker = await a_worker(log, judge=Deleting(LIBRARY, RewardSettings()))
    await worker.run(anyio.Event())
    assert await count(log, JudgementRow) == EPISODES - 1
    assert await count(log, ClaimRow) == 0


async def test_a_rubric_that_cannot_be_read_is_named_and_nothing_stays_claimed(log: Database) -> None:
    worker = await a_worker(log)
    async with log.writing() as connection:
        row = {"hash": "e" * 64, "writer": "the future", "content": {"format": 99}}
        await log.add(connection, RubricRow, [row | {"created_at": (await batches_time(log))}])
    await attach(log, "e" * 64, Attached.FAMILY, "f_1")
    with pytest.raises(ConfigurationError, match="rubric eeeeeeeeeeee cannot be used"):
        await worker.run(anyio.Event())
    assert await count(log, ClaimRow) == 0


async def batches_time(log: Database) -> Any:
    async with log.reading() as connection:
        return (await connection.execute(select(EndingRow.ended_at).limit(1))).scalar_one()


async def test_told_to_stop_it_ends_with_the_batch_that_was_begun(log: Database) -> None:
    stop = anyio.Event()
    worker = await a_worker(log, told=lambda _: stop.set())
    assert (await worker.run(stop)).judged == 4
    assert await count(log, ClaimRow) == 0


async def test_broken_off_it_gives_its_episodes_back(log: Database) -> None:
    begun = anyio.Event()

    class Endless(Judge):
        async def judge(self, rubric: Rubric, case: Case) -> Any:
            begun.set()
            await anyio.sleep_forever()

    worker = await a_worker(log, judge=Endless(LIBRARY, RewardSettings()))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run, anyio.Event())
            await begun.wait()
            assert await count(log, ClaimRow) == 4
            tasks.cancel_scope.cancel()
    assert await count(log, ClaimRow) == 0
    assert await count(log, JudgementRow) == 0


async def test_leases_are_renewed_while_a_model_is_waited_for(log: Database) -> None:
    """A lease far shorter than the judging takes holds, for it is renewed: the other worker gets nothing of it."""
    renewed = anyio.Event()
    first: list[Any] = []

    class Slow(Judge):
        async def judge(self, rubric: Rubric, case: Case) -> Any:
            await renewed.wait()
            return await super().judge(rubric, case)

    async def until() -> Any:
        async with log.reading() as connection:
            return (await connection.execute(select(func.min(ClaimRow.until)))).scalar_one()

    worker = await a_worker(log, judge=Slow(LIBRARY, RewardSettings()), batch=EPISODES, lease_s=3.0)
    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run, anyio.Event())
            while not first or first[0] is None:
                first[:] = [await until()]
            while await until() == first[0]:
                pass
            renewed.set()
    assert await count(log, JudgementRow) == EPISODES


async def test_two_workers_judge_each_episode_once(log: Database, database_url: str) -> None:
    await write_episodes(log, range(EPISODES, 120))
    await filed(log, range(EPISODES, 120))
    sums: list[Tally] = []

    async def work() -> None:
        database = Database(database_url)
        try:
            worker = await a_worker(database, batch=7)
            sums.append(await worker.run(anyio.Event()))
        finally:
            await database.close()

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(work)
    assert sum(each.judged for each in sums) == 120
    assert await count(log, JudgementRow) == 120
    each_once = select(JudgementRow.episode_id).group_by(JudgementRow.episode_id).having(func.count() > 1)
    async with log.reading() as connection:
        assert (await connection.execute(each_once)).all() == []


async def test_a_worker_waits_for_what_another_one_holds_and_takes_it_when_it_is_given_back(
    log: Database, database_url: str
) -> None:
    begun, stop = anyio.Event(), anyio.Event()

    class Endless(Judge):
        async def judge(self, rubric: Rubric, case: Case) -> Any:
            begun.set()
            await anyio.sleep_forever()

    holder = await a_worker(log, judge=Endless(LIBRARY, RewardSettings()), batch=3)
    other = await a_worker(log, lease_s=0.3)
    sums: list[Tally] = []

    async def work() -> None:
        sums.append(await other.run(stop))

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as holding:
                holding.start_soon(holder.run, anyio.Event())
                await begun.wait()
                tasks.start_soon(work)
                while await count(log, JudgementRow) < EPISODES - 3:
                    pass
                assert sums == []
                holding.cancel_scope.cancel()
    assert [each.judged for each in sums] == [EPISODES]


@pytest.mark.parametrize("given", [{"batch": 0}, {"at_once": 0}, {"lease_s": 0.0}, {"limit": 0}])
def test_a_pace_that_cannot_be_meant_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Pace(**given)
