"""A whole gateway over the probe's toy server, as a world."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from proxy.commands.probing import toy_gateway
from proxy.policy.base import World
from proxy.policy.toy import Toy


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
async def world(toy: Toy) -> AsyncGenerator[World]:
    async with toy_gateway(toy) as world:
        yield world
