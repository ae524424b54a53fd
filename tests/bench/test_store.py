"""The bench of the log in its short form, and that it sees what it is there to see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.targets.logged import STEPS, batches
from bench.targets.recorded import failures
from bench.targets.streaming import read
from proxy.store.database import Database
from tests.fixtures.databases import database, database_url, postgres_server

__all__ = ["database", "database_url", "postgres_server"]


@pytest.mark.anyio
async def test_the_invented_log_is_read_whole(database: Database, database_url: str) -> None:
    for batch in batches(600):
        async with database.writing() as connection:
            for table, rows in batch:
                assert await database.add(connection, table, rows) == len(rows)
    found = await read(database_url)
    assert (found["episodes"], found["steps"]) == (600, 600 * STEPS)
    assert found["before_mb"] <= found["early_mb"] <= found["peak_mb"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"log": "sqlite", "cost_percent": 9.9, "missing": 0}, []),
        ({"log": "sqlite", "cost_percent": 10.1, "missing": 0}, ["logging into sqlite costs 10.1 %, more than 10 %"]),
        ({"log": "sqlite", "cost_percent": -1.0, "missing": 3}, ["3 steps are not in sqlite"]),
    ],
)
def test_what_costs_too_much_or_is_lost_is_told(row: dict[str, Any], says: list[str]) -> None:
    assert failures([row], 10.0) == says


@pytest.mark.timeout(240)
def test_the_short_form_loses_no_step_and_finds_all_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "store.json"
    code = main(["store", "--calls", "448", "--seconds", "1", "--steps", "2000", "--json", str(out)])
    printed = capsys.readouterr()
    # On a machine that does other work too, limits may be exceeded.
    assert code in (0, 1), printed.out + printed.err
    result = json.loads(out.read_text("utf-8"))
    assert [row["log"] for row in result["serving"]][:2] == ["off", "sqlite"]
    assert all(row["missing"] == 0 for row in result["serving"])
    assert all(row["steps"] == 100 and row["dropped"] == 0 for row in result["acknowledged"].values())
    for parts in result["reading"].values():
        assert parts["streamed"]["steps"] == 2000
        assert {page["status"] for page in parts["pages"].values()} == {200}
