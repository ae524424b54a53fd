"""Programs in place of calls, over HTTP: with published servers, and with those of the tests where it must go wrong."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.app import App, build, choose_backend
from proxy.catalog.cache import ListingCache
from proxy.servers.configfile import parse
from proxy.servers.pins import PinStore
from proxy.settings import Settings
from proxy.store.recorder import Outcome, Step
from tests.end_to_end.test_real_servers import (
    LISTED_S,
    _found,
    _make_repository,
    _process,
    _require_uvx_and_npx,
    _wait_until_listed,
)
from tests.fixtures.running import Restartable, entry
from tests.lifecycle.conftest import LIMIT_S, serving, until
from tests.proxy.endpoint.conftest import Steps
from tests.proxy.metatools.conftest import run

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
CAUGHT = "try:\n    print({})\nexcept ToolError as error:\n    print('caught', error)"


@dataclass(frozen=True)
class Serving:
    """A gateway over HTTP whose agents can run code, in this process."""

    app: App
    url: str
    steps: Steps
    folder: Path
    servers: dict[str, Any]

    @property
    def runs(self) -> list[Step]:
        return [step for step in self.steps.all if step.name == "run_python"]

    @property
    def calls(self) -> list[Step]:
        """What code has called."""
        return [step for step in self.steps.all if step.mode == "code"]

    async def change(self, **servers: Any) -> None:
        """Take over the same configuration with other entries; None takes one out."""
        entries = {name: given for name, given in {**self.servers, **servers}.items() if given is not None}
        await self.app.gateway.apply(parse({"mcpServers": entries}, os.environ))


SANDBOXES = pytest.mark.parametrize("sandbox", ["embedded", pytest.param("docker", marks=pytest.mark.docker)])


@asynccontextmanager
async def gateway(folder: Path, sandbox: str = "embedded", **servers: Any) -> AsyncGenerator[Serving]:
    settings = Settings(
        config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache", sandbox=sandbox
    )
    steps = Steps()
    app = build(
        settings,
        os.environ,
        configuration=parse({"mcpServers": servers}, os.environ),
        recorders=(steps,),
        backend=await choose_backend(settings, os.environ),
    )
    async with serving(app.http) as base:
        await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        yield Serving(app, f"{base}/mcp", steps, folder, servers)


@pytest.mark.parametrize(
    ("kind", "sandbox"),
    [
        ("stdio", "embedded"),
        ("http with sessions", "embedded"),
        ("http without sessions", "embedded"),
        pytest.param("stdio", "docker", marks=pytest.mark.docker),
    ],
)
@ERAS
async def test_a_cancelled_run_reaches_the_servers_with_the_ids_of_its_calls(
    tmp_path: Path, kind: str, sandbox: str, era: str
) -> None:
    """Each server obeys a cancellation only under the id that the request had for it."""
    async with Restartable(legacy_only=kind == "http with sessions") as remote:
        server = entry("echo") if kind == "stdio" else remote.entry
        async with gateway(tmp_path, sandbox, srv=server) as running, Client(running.url, mode=era) as client:
            await client.list_tools()
            assert (await run(client, "srv.counter()")).rest == 'Value:\n"1"'
            begun: list[str] = []
            cancelled = anyio.CancelScope()

            async def note(progress: float, total: float | None, message: str | None) -> None:
                begun.append(message or "")

            async def doomed() -> None:
                code = {"code": "parallel(lambda n: srv.slow(seconds=600), range(2))"}
                with cancelled:
                    await client.call_tool("run_python", code, progress_callback=note)
                    raise AssertionError("it was not cancelled")

            with anyio.fail_after(LIMIT_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(doomed)
                    await until(lambda: begun.count("srv.slow: step 1") == 2, "both calls are at the server")
                    cancelled.cancel()
                await until(lambda: len(running.runs) == 2, "the run is over")
                while (await run(client, "srv.cancellations()")).rest != 'Value:\n"2"':
                    await anyio.sleep(0.02)
            assert running.runs[1].outcome is Outcome.CANCELLED
            cut = [step for step in running.calls if step.tool == "slow"]
            assert [(step.outcome, step.parent) for step in cut] == [(Outcome.CANCELLED, running.runs[1].id)] * 2
            # The same connection, the same process: nobody was evicted.
            assert (await run(client, "srv.counter()")).rest == 'Value:\n"2"'


async def denied(running: Serving) -> None:
    await running.change(tools={**entry("echo"), "tools": {"deny": ["a*"]}})


async def removed(running: Serving) -> None:
    await running.change(tools=None)


async def waiting(running: Serving) -> None:
    echo = entry("echo")
    await running.change(tools={**echo, "args": [*echo["args"], "again"], "on_new": "ask"})


async def changed(running: Serving) -> None:
    """What was accepted is another definition than the one that the server gives."""
    strict = {**entry("echo"), "on_change": "block"}
    await running.change(tools=strict)
    (config,) = parse({"mcpServers": {"tools": strict}}, os.environ).servers
    listing = ListingCache(running.folder / "cache" / "listings").load(config.identity)
    assert listing is not None
    other = tuple({**tool, "description": "Other."} if tool["name"] == "add" else tool for tool in listing.tools)
    PinStore(running.folder / "state" / "pins").accept(config, replace(listing, tools=other))
    await until(lambda: "tools.add" not in running.app.gateway.catalog.tools, "the tool is withheld")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (denied, "tools.deny"),
        (removed, "no tool 'tools.add'"),
        (waiting, "waits until the gateway's owner accepts it"),
        (changed, "its definition changed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_change_in_the_middle_of_a_run_holds_for_its_next_call(
    tmp_path: Path, change: Callable[[Serving], Awaitable[None]], reason: str
) -> None:
    """The change comes while a server asks the agent; the code goes on with the function that it had before."""

    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        await change(running)
        return t.ElicitResult(action="accept", content={"colour": "red"})

    code = f"add = lambda: tools.add(a=2, b=3)\nprint(add())\nprint(asking.ask())\n{CAUGHT.format('add()')}"
    async with Restartable() as asking, gateway(tmp_path, tools=entry("echo"), asking=asking.entry) as running:
        async with Client(running.url, mode="legacy", elicitation_callback=answer) as client:
            ran = await run(client, code)
            lines = ran.rest.splitlines()
            assert lines[1:3] == ["5", 'accept {"colour": "red"}']
            assert lines[3].startswith("caught ")
            assert reason in lines[3]
            for call in ("tools.add(a=2, b=3)", "tools.Add(a=2, b=3)", "add()"):
                told = await run(client, CAUGHT.format(call))
                assert "Output:\n5" not in told.rest
            for look in ("describe('tools.add')", "help('tools')"):
                assert "add(" not in (await run(client, CAUGHT.format(look))).rest
    # The one before the change. What is left has a tool of that name, too, which is never called in its place.
    assert [step.server for step in running.calls if step.tool == "add"] == ["tools"]


@SANDBOXES
@ERAS
async def test_a_run_asks_the_user_and_goes_on_where_it_was(tmp_path: Path, sandbox: str, era: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action="accept", content={})

    code = (
        "first = tools.counter()\nprint(tools.delete_file(path='a'), tools.delete_file(path='b'))\n"
        "[first, tools.counter()]"
    )
    async with gateway(tmp_path, sandbox, tools=entry("echo")) as running:
        async with Client(running.url, mode=era, elicitation_callback=answer) as client:
            ran = await run(client, code)
    assert ran.rest == 'Output:\ndeleted a deleted b\nValue:\n["1", "2"]'
    assert len(asked) == 2
    assert [step.outcome for step in running.runs] == [Outcome.OK]


@dataclass(frozen=True)
class Published:
    """A gateway as a process of its own, in front of published servers."""

    url: str
    folder: Path


@pytest.fixture(scope="module", params=["embedded", pytest.param("docker", marks=pytest.mark.docker)])
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    _require_uvx_and_npx()
    folder = tmp_path_factory.mktemp("code").resolve()
    _make_repository(folder / "repository")
    for name, text in (("one.txt", "Europe/Paris"), ("two.txt", "Asia/Tokyo"), ("three.md", "no zone")):
        (folder / name).write_text(text, encoding="utf-8")
    servers = {
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
        "git": {"command": "uvx", "args": ["mcp-server-git"]},
        "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", str(folder)]},
    }
    slow = {name: {**server, "start_timeout_s": LISTED_S} for name, server in servers.items()}
    config, state, log = folder / "mcp.json", folder / "state", folder / "gateway.log"
    config.write_text(json.dumps({"mcpServers": slow}), encoding="utf-8")
    own = {"TOOLATLAS_STATE_DIR": str(state), "TOOLATLAS_CACHE_DIR": str(folder / "cache")}
    serve = ["-m", "proxy.cli", "serve", "--config", str(config), "--port", "0", "--sandbox", request.param]
    with ExitStack() as stack:
        stack.enter_context(_process(serve, {**os.environ, **own}, log))
        url = _found(state, config, log)
        _wait_until_listed(url, len(servers), log)
        yield Published(url, folder)


DISCOVER = """
for server in servers():
    print(server["name"], server["tools"])
print(describe("time.get_current_time"))
"""
LOOP = """
paths = filesystem.search_files(path=FOLDER, pattern="*.txt")
if not isinstance(paths, str):
    paths = paths["content"]
zones = {}
for path in sorted(paths.splitlines()):
    text = filesystem.read_text_file(path=path)
    zone = text if isinstance(text, str) else text["content"]
    zones[zone] = time.get_current_time(timezone=zone)["datetime"]
log = git.git_log(repo_path=FOLDER + "/repository")
print(len(zones), "zones")
"""
NEXT = """
offsets = {zone: moment[-6:] for zone, moment in zones.items()}
print("The first commit of the test" in str(log))
offsets["Asia/Tokyo"]
"""


@pytest.mark.real_servers
@pytest.mark.timeout(600)
@ERAS
async def test_one_program_discovers_loops_over_two_servers_and_the_next_goes_on(
    published: Published, era: str
) -> None:
    async with Client(published.url, mode=era, read_timeout_seconds=90) as client:
        found = await run(client, DISCOVER)
        assert not found.failed, found
        assert all(re.search(rf"^{name} \d+$", found.rest, re.MULTILINE) for name in ("time", "git", "filesystem"))
        assert "def get_current_time(*, timezone: str)" in found.rest
        looped = await run(client, LOOP.replace("FOLDER", repr(str(published.folder))), **found.task)
        assert not looped.failed, looped
        assert looped.rest.startswith("Output:\n2 zones")
        assert "; 6 tool calls;" in looped.status
        again = await run(client, NEXT, **found.task)
        assert again.rest == 'Output:\nTrue\nValue:\n"+09:00"'
        assert again.status.endswith("; 0 tool calls; variables kept]")
