"""A catalogue of the log as the router reads one, and as it lies beside the rows of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.errors import ConfigurationError
from proxy.router.documents import tool_document
from proxy.store.database import Database
from tests.fixtures.logged import CATALOG
from tests.trainer.loop.learnable import DESCRIPTIONS, fill
from trainer.loop.catalogues import read_servers, servers_of, write_servers

pytestmark = pytest.mark.anyio


async def test_the_servers_of_that_time_with_their_tools(database: Database, tmp_path: Path) -> None:
    await fill(database, 1)
    servers = await servers_of(database, CATALOG)
    assert [tool.written for server in servers for tool in server.tools] == list(DESCRIPTIONS)
    shop = servers[0]
    assert (shop.name, [tool.name for tool in shop.tools]) == ("shop", ["find_item", "sell"])
    assert DESCRIPTIONS["shop.sell"] in tool_document(shop, shop.tools[1])
    write_servers(tmp_path / "catalog.jsonl", servers)
    assert read_servers(tmp_path / "catalog.jsonl") == servers


async def test_a_catalogue_that_was_never_written_is_named(database: Database) -> None:
    with pytest.raises(ConfigurationError, match="was never written"):
        await servers_of(database, "0" * 64)
