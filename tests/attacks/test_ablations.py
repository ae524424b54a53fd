"""Without its protection an attack gets what it wants: so it was that protection, and the attack is a real one.

One attack for each set of protections here; `python -m tests.attacks` tries every one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.arena import arena, open_path
from tests.attacks.case import Attack
from tests.attacks.protection import Protection
from tests.attacks.table import ATTACKS

pytestmark = [pytest.mark.docker, pytest.mark.anyio, pytest.mark.timeout(180)]

FIRST = {attack.removed: attack for attack in reversed(ATTACKS) if attack.removed}


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name) for attack in FIRST.values()])
async def test_without_its_protection_it_succeeds(sandbox_image: str, tmp_path: Path, attack: Attack) -> None:
    open_path(tmp_path)
    async with arena(sandbox_image, tmp_path, attack.removed) as weak:
        outcome = await weak.attack(attack)
    assert attack.won(outcome), outcome.said


def test_every_protection_that_can_be_taken_away_is() -> None:
    taken = {protection for attack in ATTACKS for protection in attack.removed}
    assert {protection for protection in Protection if protection.removal} == taken
