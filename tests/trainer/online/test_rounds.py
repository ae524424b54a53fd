"""A round begins when all who still run wait, in the order of their places."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint

from trainer.online.rounds import Rounds, Sampled

pytestmark = pytest.mark.anyio


def made(*numbers: int) -> list[Sampled]:
    return [Sampled((number,), None) for number in numbers]


async def settled() -> None:
    for _ in range(5):
        await checkpoint()


async def test_nothing_is_asked_before_all_wait_and_answers_come_to_who_asked() -> None:
    handed: list[Sequence[Sequence[int]]] = []
    got: dict[int, Sampled] = {}
    rounds = Rounds(2, handed.append)

    async def ask(place: int) -> None:
        got[place] = await rounds.ask(place, [place])

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, 1)
            await settled()
            assert handed == []
            group.start_soon(ask, 0)
            await settled()
            assert handed == [[[0], [1]]]
            rounds.answer(made(10, 11))
    assert got == {0: made(10)[0], 1: made(11)[0]}


async def test_who_leaves_is_not_waited_for() -> None:
    handed: list[Sequence[Sequence[int]]] = []
    rounds = Rounds(2, handed.append)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(rounds.ask, 0, [7])
            await settled()
            rounds.leave(1)
            assert handed == [[[7]]]
            rounds.answer(made(1))
    rounds.leave(0)
    assert len(handed) == 1


async def test_one_that_is_broken_off_in_a_round_does_not_hold_up_the_next() -> None:
    handed: list[Sequence[Sequence[int]]] = []
    rounds = Rounds(2, handed.append)

    async def breaks_off() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await rounds.ask(0, [0])
        rounds.leave(0)

    async def goes_on() -> None:
        await rounds.ask(1, [1])
        await rounds.ask(1, [2])

    scopes: list[anyio.CancelScope] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(breaks_off)
            group.start_soon(goes_on)
            await settled()
            scopes[0].cancel()
            await settled()
            rounds.answer(made(1, 2))
            await settled()
            assert handed == [[[0], [1]], [[2]]]
            rounds.answer(made(3))
