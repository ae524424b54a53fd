"""Uses of servers: by how many episodes of late."""

from __future__ import annotations

from datetime import timedelta

import pytest

from proxy.store.database import Database
from proxy.store.uses import uses
from tests.fixtures.logged import NOON, Episode, write

pytestmark = pytest.mark.anyio


async def test_an_episode_counts_once_for_each_server_it_called_and_old_ones_do_not(database: Database) -> None:
    old = Episode(1, began_at=NOON - timedelta(days=40))
    old.call("mail", "send", {}, None)
    one = Episode(2)
    for _ in range(3):
        one.call("files", "list", {}, None)
    one.call("mail", "send", {}, None, outcome="tool_error")
    two = Episode(3)
    two.call("files", "read", {}, None)
    two.step("search_tools", {"query": "maps"}, None)
    await write(database, old.rows, one.rows, two.rows)
    assert await uses(database, NOON - timedelta(days=30)) == {"files": 2, "mail": 1}
    assert await uses(database, NOON + timedelta(days=1)) == {}
