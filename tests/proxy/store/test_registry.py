"""States of adapters on both databases: one step at a time, one of each role, and the way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from proxy.errors import UnknownName
from proxy.store.database import Database
from proxy.store.registry import (
    InForce,
    State,
    WrongState,
    approve,
    entries,
    entry,
    in_force,
    register,
    roll_back,
    set_state,
)
from tests.fixtures.registered import adapter, at, named

pytestmark = pytest.mark.anyio
FIRST, SECOND, THIRD = (named(name) for name in ("first", "second", "third"))


async def set_to(database: Database, hashed: str, state: State) -> bool:
    return await set_state(database, hashed, state, "because", by="ann", share=0.2 if state is State.CANARY else None)


async def test_an_adapter_goes_step_by_step_and_all_of_it_is_kept(database: Database) -> None:
    assert await register(database, adapter(FIRST), by="learn", reason="of the log of November")
    assert not await register(database, adapter(FIRST), by="somebody else")
    for state in (State.SHADOW, State.CANARY, State.ACTIVE):
        assert await set_to(database, FIRST, state)
    await approve(database, FIRST, by="ben", note="looks well")
    (found,) = await entries(database)
    assert found.adapter == adapter(FIRST)
    assert found.state is State.ACTIVE
    assert [(change.state, change.reason, change.by, change.share) for change in found.history] == [
        (State.CANDIDATE, "of the log of November", "learn", None),
        (State.SHADOW, "because", "ann", None),
        (State.CANARY, "because", "ann", 0.2),
        (State.ACTIVE, "because", "ann", None),
    ]
    assert [(each.by, each.note) for each in found.approvals] == [("ben", "looks well")]
    assert await in_force(database) == InForce(active=FIRST)


@pytest.mark.parametrize(
    ("here", "to"),
    [
        (State.CANDIDATE, State.CANARY),
        (State.CANDIDATE, State.ACTIVE),
        (State.SHADOW, State.ACTIVE),
        (State.SHADOW, State.CANDIDATE),
        (State.ACTIVE, State.SHADOW),
    ],
)
async def test_no_step_is_left_out(database: Database, here: State, to: State) -> None:
    await at(database, FIRST, here)
    with pytest.raises(WrongState, match=f"is {here}; from there"):
        await set_to(database, FIRST, to)
    assert (await entry(database, FIRST)).state is here


async def test_what_takes_a_place_retires_who_had_it(database: Database) -> None:
    await at(database, FIRST, State.ACTIVE)
    await at(database, SECOND, State.SHADOW)
    await at(database, THIRD, State.SHADOW)
    assert await in_force(database) == InForce(active=FIRST, shadow=THIRD)
    assert (await entry(database, SECOND)).history[-1].reason == f"{THIRD[:12]} took its place"
    await set_to(database, THIRD, State.CANARY)
    assert await in_force(database) == InForce(active=FIRST, canary=THIRD, share=0.2)
    await set_to(database, THIRD, State.ACTIVE)
    assert await in_force(database) == InForce(active=THIRD, former=(FIRST,))
    assert (await entry(database, FIRST)).state is State.RETIRED


async def test_a_second_canary_has_to_wait(database: Database) -> None:
    await at(database, FIRST, State.CANARY)
    await at(database, SECOND, State.SHADOW)
    with pytest.raises(WrongState, match=f"{FIRST[:12]} is the canary"):
        await set_to(database, SECOND, State.CANARY)
    assert (await in_force(database)).canary == FIRST


async def test_rolling_back_goes_to_who_was_active_before_and_never_to_who_was_rolled_back(database: Database) -> None:
    await at(database, FIRST, State.ACTIVE)
    await at(database, SECOND, State.ACTIVE)
    assert await roll_back(database, "worse", by="ann") == (SECOND, FIRST)
    assert await in_force(database) == InForce(active=FIRST)
    await at(database, THIRD, State.ACTIVE)
    assert await roll_back(database, "worse, too", by="ann") == (THIRD, FIRST)
    assert await roll_back(database, "this one also", by="ann") == (FIRST, None)
    assert await in_force(database) == InForce()
    assert await roll_back(database, "nothing is left", by="ann") is None


async def test_rolling_back_takes_the_canary_first_and_leaves_the_active_one(database: Database) -> None:
    await at(database, FIRST, State.ACTIVE)
    await at(database, SECOND, State.CANARY)
    assert await roll_back(database, "slow", by="guard", hashed=THIRD) is None
    assert await roll_back(database, "slow", by="guard") == (SECOND, FIRST)
    assert await in_force(database) == InForce(active=FIRST)


async def test_one_that_is_named_is_rolled_back_beside_a_canary(database: Database) -> None:
    await at(database, FIRST, State.ACTIVE)
    await at(database, SECOND, State.ACTIVE)
    await at(database, THIRD, State.CANARY)
    assert await roll_back(database, "it fails", by="guard", hashed=SECOND) == (SECOND, FIRST)
    assert await in_force(database) == InForce(active=FIRST, canary=THIRD, share=0.5)


async def test_one_whose_files_are_gone_is_not_gone_back_to(database: Database) -> None:
    for each in (FIRST, SECOND, THIRD):
        await at(database, each, State.ACTIVE)
    assert await roll_back(database, "worse", by="ann", usable=lambda hashed: hashed != SECOND) == (THIRD, FIRST)


async def test_a_retired_one_may_be_tried_again(database: Database) -> None:
    await at(database, FIRST, State.CANARY)
    await roll_back(database, "a bad day", by="ann")
    assert await set_to(database, FIRST, State.CANDIDATE)
    for state in (State.SHADOW, State.CANARY, State.ACTIVE):
        await set_to(database, FIRST, state)
    assert (await in_force(database)).active == FIRST


async def test_a_change_that_comes_too_late_changes_nothing(database: Database) -> None:
    await at(database, FIRST, State.CANARY)
    await roll_back(database, "late", by="guard")
    assert not await set_state(database, FIRST, State.ACTIVE, "passed", by="watch", expected=State.CANARY)
    assert await in_force(database) == InForce()


async def test_changes_at_the_same_time_leave_one_of_each_role(database: Database) -> None:
    names = [named(f"crowd {number}") for number in range(8)]
    for name in names:
        await at(database, name, State.SHADOW)
        await at(database, named(f"{name} beside"), State.CANDIDATE)
    refused: list[str] = []

    async def attempt(change: Callable[[], Awaitable[bool]]) -> None:
        try:
            await change()
        except WrongState as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(attempt, lambda name=name: set_to(database, name, State.CANDIDATE))
            tasks.start_soon(attempt, lambda name=name: set_to(database, named(f"{name} beside"), State.SHADOW))
    states = [found.state for found in await entries(database)]
    assert states.count(State.SHADOW) == 1
    # Those that the others had displaced could be tried again; one that was still in shadow could not.
    assert len(refused) == 8 - states.count(State.CANDIDATE)


async def test_no_gateway_serves_with_an_adapter_that_works_tasks(database: Database) -> None:
    await at(database, FIRST, State.CANDIDATE, kind="policy")
    with pytest.raises(WrongState, match="toolatlas agent --adapter"):
        await set_to(database, FIRST, State.SHADOW)
    assert await set_to(database, FIRST, State.RETIRED)


async def test_a_share_goes_with_a_canary_and_with_nothing_else(database: Database) -> None:
    await at(database, FIRST, State.SHADOW)
    for state, share in ((State.CANARY, None), (State.CANARY, 0.0), (State.CANARY, 1.5), (State.RETIRED, 0.5)):
        with pytest.raises(ValueError, match="share"):
            await set_state(database, FIRST, state, "because", by="ann", share=share)
    assert (await entry(database, FIRST)).state is State.SHADOW


async def test_a_name_has_to_fit_one_adapter(database: Database) -> None:
    same = ["ab" + "0" * 62, "ab" + "1" * 62]
    for hashed in same:
        await at(database, hashed, State.CANDIDATE)
    assert (await entry(database, "ab0")).adapter.hash == same[0]
    for name, what in (("ab", "2 adapters have"), ("c", "no adapter has"), ("", "no adapter has")):
        with pytest.raises(UnknownName, match=what):
            await entry(database, name)
    with pytest.raises(UnknownName, match="there is no adapter"):
        await set_to(database, named("nobody"), State.SHADOW)
