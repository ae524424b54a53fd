"""Secrets go in at every place where agents and servers say something; none is found in what the log keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import select

from proxy.store.database import Database, read_url, sqlite_path
from proxy.store.exporting import export
from proxy.store.migrating import migrate
from proxy.store.recorder import Decision, Outcome, Revealed
from proxy.store.redaction import Redactor
from proxy.store.snapshots import CatalogView
from proxy.store.tables import Base
from tests.fixtures.recorded import CATALOG, KEY, WITHIN_S, ending_of, episode_of, recorder_of, step_of
from tests.store_secrets.planted import Planted, planted

pytestmark = pytest.mark.anyio


def test_every_kind_is_recognised_alone() -> None:
    missed = [each.kind for each in planted(Random(1)) if each.secret in Redactor(KEY).text("e_1", each.text)]
    assert missed == []


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_is_recognised_within_values(seed: int) -> None:
    redactor = Redactor(KEY)
    for each in planted(Random(seed)):
        value = {
            "content": [{"type": "text", "text": f"{each.text}\nbye"}],
            each.text: 1,
            "nested": {"list": [each.text]},
        }
        assert each.secret not in str(redactor.value("e_1", value)), each.kind


async def test_no_secret_is_found_in_what_the_log_keeps(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await migrate(database_url)
    secrets = planted(Random(7))
    where = tmp_path / "journals"
    recorder = recorder_of(where, database_url, catalogue=_catalogue_with(secrets))
    async with recorder.running():
        for number, each in enumerate(secrets):
            _record(recorder, number, each)
        assert await recorder.flushed(WITHIN_S)
        # While it is open too, and with what the journal holds.
        journals = [path for path in where.rglob("*") if path.is_file()]
        kept = {path.name: path.read_bytes() for path in journals}
    database = Database(database_url)
    try:
        kept["export"] = "\n".join([line async for line in export(database)]).encode()
        kept["rows"] = str([await _rows(database, table) for table in Base.__subclasses__()]).encode()
    finally:
        await database.close()
    if read_url(database_url).drivername == "sqlite":
        kept |= {path.name: path.read_bytes() for path in sqlite_path(read_url(database_url)).parent.iterdir()}
    out, err = capfd.readouterr()
    kept |= {"stdout": out.encode(), "stderr": err.encode()}
    found = [
        (each.kind, place) for each in secrets for place, content in kept.items() if each.secret.encode() in content
    ]
    assert found == []
    # What stood around them is there.
    assert kept["rows"].count(b"from now on") > 4 * 20
    assert kept["export"].count(b"[secret:") > len(secrets)


async def _rows(database: Database, table: type[Base]) -> list[Any]:
    async with database.reading() as connection:
        return list((await connection.execute(select(table.__table__))).all())


def _catalogue_with(secrets: list[Planted]) -> Any:
    def catalogue(_: str) -> CatalogView:
        text = "\n".join(each.text for each in secrets)
        return CatalogView(
            hash=CATALOG,
            servers=[{"name": "echo", "written": "echo", "purpose": text}],
            tools=[
                ("echo.say", "echo", "say", {"name": "say", "description": text, "inputSchema": {"type": "object"}})
            ],
            introduction=text,
        )

    return catalogue


def _record(recorder: Any, number: int, each: Planted) -> None:
    """In every place: of one episode each, so that none is recognised only since another place named it."""
    text = each.text
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"said": text, "list": [{"of": text}]}}
    places: list[dict[str, Any]] = [
        {"arguments": {"text": text}},
        {"result": result},
        {"outcome": Outcome.TOOL_ERROR, "error": f"RuntimeError: {text}", "result": {"isError": True, **result}},
        {"revealed": (Revealed(tool="echo.say", how="name"),), "decision": _decision(text)},
    ]
    for place, given in enumerate(places):
        episode = episode_of(100 * number + place)
        recorder.record(replace(step_of(number, episode=episode, **given), id=f"s_{number}_{place}"))
        recorder.end(ending_of(episode, answer=f"Done: {text}", outcome="done"))
    code = replace(
        step_of(number, episode=episode_of(100 * number + 50)), id=f"s_{number}_code", name="run_python", call=None
    )
    recorder.record(replace(code, arguments={"code": f"# notes\n{text}\nprint(1)\n"}, result=result))


def _decision(text: str) -> Decision:
    return Decision(
        policy="lexical", query=text, task=text, candidates=(("echo.say", 1.0),), shown=("echo.say",),
        duration_ms=1.0,
    )  # fmt: skip
