"""What the corpus runs on: a folder that is prepared anew before every run, web pages on the loopback, and the servers.

Above: families write their files, tables, graphs and pages with it; running.py starts the servers. Below: published
servers from PyPI (uvx) and npm (npx). Everything that they can change lies in the folder.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

START_S = 300.0
"""On a new machine all servers are downloaded first."""
PAGES_PORT = 8931
"""Stands in the texts of tasks, so that they are the same in every corpus; another is taken where it is in use."""

Row = Sequence[str | int | float]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a prepared repository: what it writes, and who made it."""

    author: str
    day: str
    """`2026-03-14`."""
    message: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that the servers work in, and the pages that they can fetch."""

    folder: Path
    pages: dict[str, str] = field(default_factory=dict[str, str])
    """HTML or plain text by path, `/lamps/prices`."""
    pages_url: str = f"http://127.0.0.1:{PAGES_PORT}"

    @property
    def files(self) -> Path:
        """What the server `filesystem` shows."""
        return self.folder / "files"

    @property
    def archive(self) -> Path:
        """What the server `archive` shows: older copies."""
        return self.folder / "archive"

    @property
    def database(self) -> Path:
        return self.folder / "orders.db"

    @property
    def archive_database(self) -> Path:
        return self.folder / "archive.db"

    @property
    def memory(self) -> Path:
        return self.folder / "memory.jsonl"

    def make(self) -> None:
        """The empty folder, as the servers need it when they start."""
        for folder in (self.files, self.archive):
            folder.mkdir(parents=True)

    def write(self, folder: str, files: Mapping[str, str], old: Mapping[str, str] | None = None) -> None:
        """Makes `folder` hold exactly these files, and its copy in the archive the `old` ones."""
        for root, contents in ((self.files, files), (self.archive, old or {})):
            shutil.rmtree(root / folder, ignore_errors=True)
            for name, text in contents.items():
                path = root / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")

    def fill(self, table: str, columns: str, rows: Sequence[Row], *, old: bool = False) -> None:
        """Makes `table` of the database (or of last year's) hold exactly these rows; `columns` as in CREATE TABLE."""
        marks = ", ".join("?" for _ in columns.split(","))
        path = self.archive_database if old else self.database
        with closing(sqlite3.connect(path, timeout=30)) as database, database:
            database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"CREATE TABLE {table} ({columns})")
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def remember(
        self, entities: Mapping[str, tuple[str, Sequence[str]]], relations: Sequence[tuple[str, str, str]]
    ) -> None:
        """Makes the knowledge graph hold exactly this: entities with type and observations; from, relation, to."""
        lines: list[dict[str, Any]] = [
            {"type": "entity", "name": name, "entityType": kind, "observations": list(observations)}
            for name, (kind, observations) in entities.items()
        ]
        lines += [{"type": "relation", "from": a, "to": b, "relationType": says} for a, says, b in relations]
        self.memory.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")

    def commit(self, folder: str, commits: Sequence[Commit], uncommitted: Mapping[str, str] | None = None) -> None:
        """Makes `folder` a git repository with exactly these commits, and then changes files."""
        self.write(folder, {".gitkeep": ""})
        path = self.files / folder
        _git(path, "init", "--quiet", "--initial-branch", "main")
        _git(path, "config", "user.name", "Sam Office")
        _git(path, "config", "user.email", "sam@office.example")
        _git(path, "config", "commit.gpgsign", "false")
        for commit in commits:
            for name, text in commit.files.items():
                (path / name).write_text(text, "utf-8")
            who = f"{commit.author} <{commit.author.split()[0].lower()}@office.example>"
            date = f"{commit.day}T09:30:00+00:00"
            _git(path, "add", "--all")
            _git(path, "commit", "--quiet", "--author", who, "--date", date, "-m", commit.message, date=date)
        for name, text in (uncommitted or {}).items():
            (path / name).write_text(text, "utf-8")


@contextmanager
def served(home: Home) -> Iterator[Home]:
    """Serves `home.pages` on the loopback; gives the home with the address under which they are found."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = home.pages.get(self.path.rstrip("/"))
            body = (page or "<html><body><p>There is no such page.</p></body></html>").encode()
            self.send_response(404 if page is None else 200)
            # The server makes Markdown of HTML, which takes it a second.
            form = "html" if body.startswith(b"<") else "plain"
            self.send_header("Content-Type", f"text/{form}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", PAGES_PORT), Pages)
    except OSError:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Home(home.folder, home.pages, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def mcp_servers(home: Home) -> dict[str, dict[str, Any]]:
    """`mcpServers` over that folder."""

    def uvx(*arguments: str) -> dict[str, Any]:
        return _server("uvx", *arguments)

    def npx(package: str, *arguments: str, **env: str) -> dict[str, Any]:
        return {**_server("npx", "-y", f"@modelcontextprotocol/server-{package}", *arguments), "env": env}

    # Published before version 2 of the SDK, which they cannot work with.
    older = ("--with", "mcp<2")
    return {
        "filesystem": npx("filesystem", str(home.files)),
        "archive": npx("filesystem", str(home.archive)),
        "memory": npx("memory", MEMORY_FILE_PATH=str(home.memory)),
        "everything": npx("everything", "stdio"),
        "thinking": npx("sequential-thinking"),
        "orders_db": uvx(*older, "mcp-server-sqlite", "--db-path", str(home.database)),
        "archive_db": uvx(*older, "mcp-server-sqlite", "--db-path", str(home.archive_database)),
        "text_editor": uvx(*older, "mcp-text-editor"),
        "git": uvx("mcp-server-git"),
        "time": uvx("mcp-server-time", "--local-timezone", "UTC"),
        "calculator": uvx("mcp-server-calculator"),
        "fetch": uvx("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
        "duckdb": uvx("mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
    }


def _server(command: str, *arguments: str) -> dict[str, Any]:
    # Nobody is there to be asked.
    return {"command": command, "args": list(arguments), "start_timeout_s": START_S, "approve": "never"}


def _git(folder: Path, *arguments: str, date: str = "2026-01-01T00:00:00+00:00") -> None:
    environment = {"GIT_COMMITTER_DATE": date, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, timeout=30, capture_output=True)
