"""The attacks that can be written down in the embedded interpreter: none gets what it wants. Needs no engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.attacks.arena import Arena, embedded_arena
from tests.attacks.case import Attack
from tests.attacks.table import EMBEDDED

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Arena]:
    async with embedded_arena(tmp_path_factory.mktemp("embedded")) as opened:
        await opened.prepare()
        yield opened


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name) for attack in EMBEDDED])
async def test_an_attack_is_stopped(embedded: Arena, attack: Attack) -> None:
    outcome = await embedded.attack(attack)
    assert attack.stopped(outcome), outcome.said


async def test_after_all_attacks_the_task_beside_them_has_its_variables(embedded: Arena) -> None:
    assert await embedded.other_is_untouched()
