"""An empty log of SQLite, and where a turn of learning keeps things."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from proxy.router.embeddings import EmbeddingCache
from proxy.store.database import Database
from proxy.store.migrating import migrate
from tests.proxy.router.encoders import WordEncoder
from trainer.loop.running import Place


@pytest.fixture
async def database(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    database = Database(url)
    yield database
    await database.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    cache = EmbeddingCache(None)
    yield Place(adapters=tmp_path / "adapters", encoder=WordEncoder(), cache=cache)
    cache.close()
