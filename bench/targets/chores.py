"""Three chores of several steps over published servers, each done twice by agents whose every move is written here.

Above: bench/sandbox.py, which counts. One agent calls tool after tool, as agents without code do; the other writes one
program. Both begin by reading the same stubs, and both must come to the same answer, which is known beforehand.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

Call = Callable[..., Awaitable[str]]
"""`await call("server.tool", argument=...)`: one move of the agent; the text that it reads then."""

COMMITS = 20
FILES = 20
OFFICES = {
    "Lisbon": "Europe/Lisbon", "Berlin": "Europe/Berlin", "Athens": "Europe/Athens", "Dubai": "Asia/Dubai",
    "Delhi": "Asia/Kolkata", "Bangkok": "Asia/Bangkok", "Singapore": "Asia/Singapore", "Tokyo": "Asia/Tokyo",
    "Brisbane": "Australia/Brisbane", "Honolulu": "Pacific/Honolulu", "Phoenix": "America/Phoenix",
    "Bogota": "America/Bogota", "Lima": "America/Lima", "Caracas": "America/Caracas", "Nairobi": "Africa/Nairobi",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chore:
    """`answer` is what both agents have to find; FOLDER in `program` stands for the folder that the servers use."""

    name: str
    tools: tuple[str, ...]
    by_hand: Callable[[Call, Path], Awaitable[str]]
    program: str
    answer: str


def prepare(folder: Path) -> dict[str, dict[str, Any]]:
    """Fills the folder with what the chores are about; `mcpServers` over it, as in examples/mcp.json."""
    _make_repository(folder / "repository")
    files = folder / "files"
    files.mkdir()
    rows: list[tuple[str, int]] = []
    for number in range(FILES):
        text = f"Report {number}\n" + "".join(f"line {line} of report {number}\n" for line in range(number * 3 + 5))
        (files / f"report_{number:02}.txt").write_text(text, "utf-8")
        # Of every seventh the table tells another size.
        rows.append((f"report_{number:02}.txt", len(text) + (7 if number % 7 == 3 else 0)))
    database = sqlite3.connect(folder / "chores.db")
    with database:
        database.execute("CREATE TABLE reports (name TEXT, size INTEGER)")
        database.executemany("INSERT INTO reports VALUES (?, ?)", rows)
        database.execute("CREATE TABLE offices (city TEXT, zone TEXT)")
        database.executemany("INSERT INTO offices VALUES (?, ?)", OFFICES.items())
    database.close()
    sqlite = ["--with", "mcp<2", "mcp-server-sqlite", "--db-path", str(folder / "chores.db")]
    return {
        "git": {"command": "uvx", "args": ["mcp-server-git"]},
        "sqlite": {"command": "uvx", "args": sqlite},
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
        "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", str(folder)]},
    }


def _make_repository(folder: Path) -> None:
    """Commits that each change one to three of five files."""
    folder.mkdir()
    names = ["parser", "lexer", "printer", "checker", "driver"]
    git = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@example.com", "-c", "commit.gpgsign=false")
    subprocess.run([*git, "init", "--quiet"], cwd=folder, check=True, timeout=30)
    for number in range(COMMITS):
        for name in names[: 1 + number % 3] if number % 4 else names[2:4]:
            with (folder / f"{name}.py").open("a", encoding="utf-8") as file:
                file.writelines(f"def {name}_{number}_{line}():\n    return {line}\n\n" for line in range(12))
        subprocess.run([*git, "add", "."], cwd=folder, check=True, timeout=30)
        subprocess.run([*git, "commit", "--quiet", "-m", f"Change {number}"], cwd=folder, check=True, timeout=30)


async def _changes_by_hand(call: Call, folder: Path) -> str:
    repository = str(folder / "repository")
    log = await call("git.git_log", repo_path=repository, max_count=COMMITS)
    changes: Counter[str] = Counter()
    for commit in _hashes(log):
        shown = await call("git.git_show", repo_path=repository, revision=commit)
        changes.update(set(re.findall(r"^\+\+\+ b?/?(\S+)", shown, re.MULTILINE)))
    return _most(changes)


def _hashes(log: str) -> list[str]:
    return re.findall(r"Commit: '?([0-9a-f]{40})", log)


def _most(changes: Mapping[str, int]) -> str:
    return json.dumps(sorted(changes.items(), key=lambda item: (-item[1], item[0])))


CHANGES = """\
import re
from collections import Counter
repository = "FOLDER/repository"
log = git.git_log(repo_path=repository, max_count=20)
commits = re.findall(r"Commit: '?([0-9a-f]{40})", str(log))
shown = parallel(lambda commit: git.git_show(repo_path=repository, revision=commit), commits)
changes = Counter()
for text in shown:
    changes.update(set(re.findall(r"^\\+\\+\\+ b?/?(\\S+)", str(text), re.MULTILINE)))
sorted(map(list, changes.items()), key=lambda item: (-item[1], item[0]))
"""


async def _sizes_by_hand(call: Call, folder: Path) -> str:
    rows = _rows(await call("sqlite.read_query", query="SELECT name, size FROM reports"))
    wrong: list[str] = []
    for row in rows:
        text = await call("filesystem.get_file_info", path=str(folder / "files" / row["name"]))
        if int(re.findall(r"size: (\d+)", text)[0]) != row["size"]:
            wrong.append(row["name"])
    return json.dumps(wrong)


def _rows(text: str) -> list[dict[str, Any]]:
    """The server answers with Python's repr of a list of flat dicts."""
    return json.loads(text.replace("'", '"'))


SIZES = """\
import ast, re
rows = ast.literal_eval(str(sqlite.read_query(query="SELECT name, size FROM reports")))
infos = parallel(lambda row: filesystem.get_file_info(path="FOLDER/files/" + row["name"]), rows)
sizes = [int(re.findall(r"size: (\\d+)", str(info))[0]) for info in infos]
[row["name"] for row, size in zip(rows, sizes) if row["size"] != size]
"""


async def _offices_by_hand(call: Call, folder: Path) -> str:
    rows = _rows(await call("sqlite.read_query", query="SELECT city, zone FROM offices"))
    opened: list[str] = []
    for row in rows:
        text = await call("time.convert_time", source_timezone="UTC", time="08:00", target_timezone=row["zone"])
        hour = int(json.loads(text)["target"]["datetime"][11:13])
        if 9 <= hour < 17:
            opened.append(row["city"])
    return json.dumps(sorted(opened))


def _open_today() -> str:
    now = datetime.now(UTC).replace(hour=8, minute=0)
    return json.dumps(sorted(city for city, zone in OFFICES.items() if 9 <= now.astimezone(ZoneInfo(zone)).hour < 17))


OPEN = """\
import ast
rows = ast.literal_eval(str(sqlite.read_query(query="SELECT city, zone FROM offices")))
def hour(row):
    local = time.convert_time(source_timezone="UTC", time="08:00", target_timezone=row["zone"])
    return int(local["target"]["datetime"][11:13])
sorted(row["city"] for row, local in zip(rows, parallel(hour, rows)) if 9 <= local < 17)
"""

CHORES = (
    Chore(
        "which files change most, over 20 commits",
        ("git.git_log", "git.git_show"),
        _changes_by_hand,
        CHANGES,
        '[["parser.py", 15], ["lexer.py", 10], ["printer.py", 10], ["checker.py", 5]]',
    ),
    Chore(
        "which of 20 files have another size than a table says",
        ("sqlite.read_query", "filesystem.get_file_info"),
        _sizes_by_hand,
        SIZES,
        json.dumps([f"report_{number:02}.txt" for number in range(FILES) if number % 7 == 3]),
    ),
    Chore(
        "which of 15 offices are open at 08:00 UTC",
        ("sqlite.read_query", "time.convert_time"),
        _offices_by_hand,
        OPEN,
        _open_today(),
    ),
)
