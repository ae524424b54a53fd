"""`toolatlas migrate` as its user runs it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from sqlalchemy import make_url, text
from typer.testing import CliRunner

from proxy.commands import migrate
from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.migrating import HEAD
from tests.fixtures.databases import database_url, postgres_server

__all__ = ["database_url", "postgres_server"]

WAIT_S = 60.0


def _run(*arguments: str) -> Result:
    app = typer.Typer()
    migrate.register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["migrate", *arguments])


def refused(*arguments: str) -> str:
    error = _run(*arguments).exception
    assert isinstance(error, ConfigurationError)
    return str(error)


def test_the_log_lies_in_the_state_folder_when_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("TOOLATLAS_DATABASE", raising=False)
    result = _run()
    assert result.exit_code == 0, result.output
    assert result.stderr.strip().replace("\n", "") == f"sqlite:///{tmp_path / 'toolatlas.db'} is at revision {HEAD}"
    assert (tmp_path / "toolatlas.db").exists()


def test_a_check_fails_until_the_tables_are_there_and_as_they_should_be(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLATLAS_DATABASE", database_url)
    assert "at revision base" in refused("--check")
    assert _run().exit_code == 0
    assert _run("--check").exit_code == 0
    asyncio.run(_change(database_url))
    assert "mood" in refused("--check")
    assert _run("--to", "base").exit_code == 0
    assert "at revision base" in refused("--check")


async def _change(url: str) -> None:
    database = Database(url)
    async with database.writing() as connection:
        await connection.execute(text("ALTER TABLE calls ADD COLUMN mood TEXT"))
    await database.close()


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    said = refused("--database", "postgresql://me:hidden@127.0.0.1:1/log", "--wait", "0.1")
    assert "postgresql://me:***@127.0.0.1:1/log cannot be reached" in said


def test_a_refused_login_is_told_in_the_words_of_the_database(postgres_server: str) -> None:
    url = make_url(f"{postgres_server}/postgres").set(password="hidden").render_as_string(hide_password=False)
    said = refused("--database", url, "--wait", "600")
    assert "refuses that: password authentication failed" in said
    assert "hidden" not in said


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_waiting_ends_when_the_database_answers(database_url: str) -> None:
    """The command starts first; then a way to the database is opened on the port that it tries."""

    async def run() -> tuple[int, str]:
        parsed = make_url(database_url)

        async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(parsed.host, parsed.port)
            await asyncio.gather(pump(reader, back), pump(there, writer))

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        listener = await asyncio.start_server(join, "127.0.0.1", 0, start_serving=False)
        # Bound and not listening yet: whoever connects is refused.
        port = listener.sockets[0].getsockname()[1]
        url = parsed.set(port=port).render_as_string(hide_password=False)
        code = "from proxy.commands.migrate import migrate; import sys; migrate(sys.argv[1], 'head', False, 60.0)"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-X", "importtime", "-c", code, url), stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        await asyncio.wait_for(_until_tried(process.stderr), WAIT_S)
        async with listener:
            await listener.start_serving()
            said = await asyncio.wait_for(process.stderr.read(), WAIT_S)
            return await process.wait(), said.decode()

    code, said = asyncio.run(run())
    assert code == 0, said
    assert f"is at revision {HEAD}" in said


async def _until_tried(stderr: asyncio.StreamReader) -> None:
    """asyncpg imports nothing more once it connects."""
    while b"asyncpg.connect_utils" not in await stderr.readline():
        pass
