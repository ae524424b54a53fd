"""The gateway as its users run it: a process of its own in front of published servers, asked by real clients.

Below everything: servers from PyPI (uvx) and npm (npx) and a remote one over HTTP. Both protocol eras, and the
MCP Inspector as a client that nobody here wrote.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.types import CallToolResult, ElicitResult, TextContent

from proxy.endpoint.running import Registry
from tests.fixtures.running import free_port

ROOT = Path(__file__).parents[2]
INSPECTOR = "@modelcontextprotocol/inspector@0.15"
META_TOOLS = {
    *("search_tools", "list_servers", "list_tools", "describe_tools", "call_tool", "read_result", "finish_task"),
}
UP_S = 20.0
LISTED_S = 300.0
"""On a new machine all servers are downloaded first."""
ANSWER_S = 90.0

Era = Literal["auto", "legacy"]
ERAS: dict[Era, str] = {"auto": "2026-07-28", "legacy": "2025-11-25"}

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(600), pytest.mark.anyio]


@dataclass(frozen=True)
class Running:
    """A gateway in front of seven servers, all listed, and a folder that the local ones may use."""

    url: str
    folder: Path


@dataclass(frozen=True)
class Case:
    """A task for one server: words that find its tool, and a call with what its answer holds. FOLDER is filled in."""

    query: str
    tool: str
    arguments: Mapping[str, Any]
    answer: str

    def arguments_in(self, folder: Path) -> dict[str, Any]:
        return {key: str(folder) + value[6:] if str(value).startswith("FOLDER") else value
                for key, value in self.arguments.items()}  # fmt: skip


CASES = (
    Case(
        "convert a time from one time zone to another",
        "time.convert_time",
        {"source_timezone": "Europe/Paris", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        "Asia/Tokyo",
    ),
    Case("show the commit log", "git.git_log", {"repo_path": "FOLDER/repository"}, "The first commit of the test"),
    Case("run a SELECT query", "sqlite.read_query", {"query": "SELECT 6 * 7 AS answer"}, "42"),
    Case("read a text file", "filesystem.read_text_file", {"path": "FOLDER/note.txt"}, "a note for the test"),
    Case("read the knowledge graph", "memory.read_graph", {}, "entities"),
    Case("sum of two numbers", "everything.get_sum", {"a": 2, "b": 40}, "42"),
    Case("add two whole numbers", "remote.add", {"a": 2, "b": 40}, "42"),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    _require_uvx_and_npx()
    folder = tmp_path_factory.mktemp("real").resolve()
    (folder / "note.txt").write_text("a note for the test\n", encoding="utf-8")
    (folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(4_000)), encoding="utf-8")
    _make_repository(folder / "repository")
    remote_port = free_port()
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": _servers(folder, remote_port)}), encoding="utf-8")
    state = folder / "state"
    own = {"TOOLATLAS_STATE_DIR": str(state), "TOOLATLAS_CACHE_DIR": str(folder / "cache")}
    remote = ["-m", "tests.fixtures.modern", "--http", str(remote_port)]
    serve = ["-m", "proxy.cli", "serve", "--config", str(config), "--port", "0"]
    with ExitStack() as stack:
        stack.enter_context(_process(remote, os.environ, folder / "remote.log"))
        stack.enter_context(_process(serve, {**os.environ, **own}, folder / "gateway.log"))
        url = _found(state, config, folder / "gateway.log")
        _wait_until_listed(url, len(CASES), folder / "gateway.log")
        yield Running(url, folder)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


async def test_a_client_sees_the_index_and_the_meta_tools_only(running: Running, era: Era) -> None:
    async with _client(running.url, era) as client:
        assert client.protocol_version == ERAS[era]
        assert {tool.name for tool in (await client.list_tools()).tools} == META_TOOLS
        instructions = client.instructions or ""
        assert all(f"\n{_server(case)} - " in instructions for case in CASES), instructions


async def test_all_servers_are_listed_with_their_tools(running: Running, era: Era) -> None:
    async with _client(running.url, era) as client:
        servers = await _ask(client, "list_servers", {})
        for case in CASES:
            assert re.search(rf"^{_server(case)} - .* \(\d+ tools?\)$", servers, re.MULTILINE), servers
            assert f"{case.tool}:" in await _ask(client, "list_tools", {"server": _server(case)})


@pytest.mark.parametrize("case", [pytest.param(case, id=case.tool) for case in CASES])
async def test_a_tool_is_found_described_and_called(running: Running, era: Era, case: Case) -> None:
    async with _client(running.url, era) as client:
        assert f"{case.tool}(" in await _ask(client, "search_tools", {"query": case.query})
        described = await _ask(client, "describe_tools", {"tools": [case.tool]})
        assert all(parameter in described for parameter in (case.tool, *case.arguments))
        call = {"tool": case.tool, "arguments": case.arguments_in(running.folder)}
        assert case.answer in await _ask(client, "call_tool", call)


async def test_a_long_result_is_read_to_its_end_in_pages(running: Running, era: Era) -> None:
    async with _client(running.url, era) as client:
        call = {"tool": "filesystem.read_text_file", "arguments": {"path": str(running.folder / "long.txt")}}
        result = await client.call_tool("call_tool", call)
        task = {"task_id": found[1]} if (found := re.search(r"\[task_id: (\S+);", _text(result))) else {}
        cut = re.search(r'read_result\(id="(?P<id>[^"]+)", offset=(?P<offset>\d+)\)', _text(result))
        assert cut, _text(result)[:300]
        offset: str | None = cut["offset"]
        page, pages = "", 0
        while offset is not None:
            page = await _ask(client, "read_result", {"id": cut["id"], "offset": int(offset), **task})
            onward = re.search(r"next: offset=(\d+)", page.splitlines()[0])
            offset, pages = (onward[1] if onward else None), pages + 1
            assert pages < 20
        assert "line 3999" in page


async def test_wrong_arguments_are_answered_with_what_was_expected(running: Running, era: Era) -> None:
    async with _client(running.url, era) as client:
        call = {"tool": "everything.get_sum", "arguments": {"a": "two", "b": 40}}
        result = await client.call_tool("call_tool", call)
        assert result.is_error
        assert re.search(r"\ba\b.*number.*two", _text(result), re.DOTALL), _text(result)


async def test_an_unknown_tool_is_answered_with_the_nearest(running: Running, era: Era) -> None:
    async with _client(running.url, era) as client:
        result = await client.call_tool("call_tool", {"tool": "git.git_logs", "arguments": {}})
        assert result.is_error
        assert "git.git_log" in _text(result)


async def test_a_destructive_tool_is_denied_where_the_user_cannot_be_asked(running: Running, era: Era) -> None:
    target = running.folder / f"denied_{era}.txt"
    async with _client(running.url, era) as client:
        arguments = {"path": str(target), "content": "written"}
        result = await client.call_tool("call_tool", {"tool": "filesystem.write_file", "arguments": arguments})
    assert result.is_error
    assert '"approve"' in _text(result)
    assert not target.exists()


async def test_a_destructive_tool_runs_once_the_user_has_allowed_it(running: Running, era: Era) -> None:
    target = running.folder / f"allowed_{era}.txt"
    questions: list[str] = []

    async def allow(context: object, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={})

    async with Client(running.url, mode=era, elicitation_callback=allow, read_timeout_seconds=ANSWER_S) as client:
        arguments = {"path": str(target), "content": "written"}
        await _ask(client, "call_tool", {"tool": "filesystem.write_file", "arguments": arguments})
    assert len(questions) == 1
    assert "filesystem.write_file" in questions[0]
    assert target.read_text(encoding="utf-8") == "written"


async def test_one_server_is_passed_through_under_its_own_names(running: Running, era: Era) -> None:
    async with _client(f"{running.url}/everything", era) as client:
        assert "get-sum" in {tool.name for tool in (await client.list_tools()).tools}
        assert "42" in _text(await client.call_tool("get-sum", {"a": 2, "b": 40}))


async def test_a_task_is_finished(running: Running, era: Era) -> None:
    async with _client(running.url, era) as client:
        await _ask(client, "list_servers", {})
        assert "closed as done" in await _ask(client, "finish_task", {"outcome": "done"})


async def test_the_inspector_lists_the_meta_tools(running: Running) -> None:
    answer = await _inspect(running.url, "--method", "tools/list")
    assert {tool["name"] for tool in answer["tools"]} == META_TOOLS


async def test_the_inspector_searches_describes_and_calls(running: Running) -> None:
    async def call(name: str, *arguments: str) -> str:
        options = [option for argument in arguments for option in ("--tool-arg", argument)]
        answer = await _inspect(running.url, "--method", "tools/call", "--tool-name", name, *options)
        assert not answer.get("isError"), answer
        return answer["content"][0]["text"]

    assert "everything.get_sum(" in await call("search_tools", "query=sum of two numbers")
    assert "everything.get_sum" in await call("describe_tools", 'tools=["everything.get_sum"]')
    assert "42" in await call("call_tool", "tool=everything.get_sum", 'arguments={"a": 2, "b": 40}')


def _servers(folder: Path, remote_port: int) -> dict[str, Any]:
    def uvx(*args: str) -> dict[str, Any]:
        return {"command": "uvx", "args": list(args), "start_timeout_s": LISTED_S}

    def npx(*args: str, **env: str) -> dict[str, Any]:
        return {"command": "npx", "args": ["-y", *args], "env": env, "start_timeout_s": LISTED_S}

    own = "@modelcontextprotocol/server-"
    return {
        "time": uvx("mcp-server-time"),
        "git": uvx("mcp-server-git"),
        # Published before version 2 of the SDK, which it cannot work with.
        "sqlite": uvx("--with", "mcp<2", "mcp-server-sqlite", "--db-path", str(folder / "test.db")),
        "filesystem": npx(f"{own}filesystem", str(folder)),
        "memory": npx(f"{own}memory", MEMORY_FILE_PATH=str(folder / "memory.jsonl")),
        "everything": npx(f"{own}everything", "stdio"),
        "remote": {"type": "http", "url": f"http://127.0.0.1:{remote_port}/mcp"},
    }


def _require_uvx_and_npx() -> None:
    """Skip where the tools are not installed; in CI that is a failure, since a skip there would go unseen."""
    # The gateway looks beside its own interpreter too.
    path = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    missing = [tool for tool in ("uvx", "npx", "git") if shutil.which(tool, path=path) is None]
    if "npx" not in missing:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False, timeout=30).stdout
        if int((re.match(r"v(\d+)", version) or [0, 0])[1]) < 18:
            missing.append("node 18 or newer")
    if missing:
        reason = f"not installed: {', '.join(missing)} (uvx comes with the dev group, npx with Node.js)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def _make_repository(folder: Path) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    for command in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "-m", "The first commit of the test")):
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", *identity, *command], cwd=folder, check=True, timeout=30)


@contextmanager
def _process(arguments: list[str], environment: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=dict(environment), stdout=output, stderr=output
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
                raise


def _found(state: Path, config: Path, log: Path) -> str:
    """The URL of the gateway once it answers; a process elsewhere can only be polled."""
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        if (record := Registry(state).find(config)) is not None:
            return record.url
        time.sleep(0.1)
    raise AssertionError(f"the gateway did not come up in {UP_S} s:\n{log.read_text(encoding='utf-8')[-3000:]}")


def _wait_until_listed(url: str, count: int, log: Path) -> None:
    deadline = time.monotonic() + LISTED_S
    servers: dict[str, int] = {}
    while time.monotonic() < deadline:
        servers = httpx2.get(httpx2.URL(url).join("/readyz"), timeout=10).json()["servers"]
        if servers == {"ready": count}:
            return
        time.sleep(0.2)
    raise AssertionError(f"servers are {servers}:\n{log.read_text(encoding='utf-8')[-3000:]}")


def _client(url: str, era: Era) -> Client:
    return Client(url, mode=era, read_timeout_seconds=ANSWER_S)


async def _ask(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, _text(result)
    return _text(result)


def _text(result: CallToolResult) -> str:
    return "\n".join(item.text for item in result.content if isinstance(item, TextContent))


def _server(case: Case) -> str:
    return case.tool.split(".")[0]


async def _inspect(url: str, *options: str) -> dict[str, Any]:
    command = ["npx", "-y", INSPECTOR, "--cli", url, "--transport", "http", *options]
    with anyio.fail_after(LISTED_S):
        done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
