"""A database of SQLite with all tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.store.database import Database
from proxy.store.migrating import migrate


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture
async def database(url: str, anyio_backend: str) -> AsyncIterator[Database]:
    await migrate(url)
    database = Database(url)
    yield database
    await database.close()
