"""The table of attacks against containers as the gateway starts them: none gets what it wants.

Needs a Docker engine and the sandbox's image. `python -m tests.attacks` runs the same, with all ablations, as a table.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.attacks.arena import Arena, arena, open_path
from tests.attacks.case import Attack
from tests.attacks.table import ATTACKS

pytestmark = [pytest.mark.docker, pytest.mark.anyio, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
async def hardened(sandbox_image: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Arena]:
    folder = tmp_path_factory.mktemp("attacks")
    open_path(folder)
    async with arena(sandbox_image, folder) as opened:
        await opened.prepare()
        yield opened


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name) for attack in ATTACKS])
async def test_an_attack_is_stopped(hardened: Arena, attack: Attack) -> None:
    outcome = await hardened.attack(attack)
    assert attack.stopped(outcome), outcome.said


async def test_after_all_attacks_the_task_beside_them_has_its_variables(hardened: Arena) -> None:
    assert await hardened.other_is_untouched()
