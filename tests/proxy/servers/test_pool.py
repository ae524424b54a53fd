"""All servers together: first listings, changed tools and configurations, isolation, and an end without remains."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import anyio
import pytest

from proxy.errors import Denied, ServerDown, UnknownName
from proxy.servers.supervisor import Phase
from tests.fixtures.running import Restartable, entry, modern_entry
from tests.proxy.servers.conftest import LIMIT_S, Pooled, config, pooled, running, until

pytestmark = pytest.mark.anyio


async def pid_of(servers: Pooled, name: str, session: str = "session") -> int:
    return json.loads(await servers.text(name, "whoami", session=session))["pid"]


async def test_one_silent_server_does_not_hold_up_the_first_listings_of_others() -> None:
    async with pooled(
        config(entry("echo"), "one"),
        config(entry("paged"), "two"),
        config(entry("silent"), "silent", start_timeout_s=30),
        config(entry("exits"), "exits"),
        config(entry("echo"), "off", enabled=False),
        unlisted=True,
    ) as servers:
        await until(lambda: servers.pool.starting == 1)
        await servers.pool.wait_for_first_listings(0.2)
        assert servers.pool.starting == 1
        assert servers.listings.of.keys() == {"one", "two"}
        assert len(servers.listings.names("two")) == 14
        phases = {name: servers.pool.state(name).phase for name in servers.pool.configs}
        assert phases == {
            "one": Phase.READY,
            "two": Phase.READY,
            "silent": Phase.STARTING,
            "exits": Phase.DOWN,
            "off": Phase.DISABLED,
        }
        assert "API_TOKEN is not set" in (servers.pool.state("exits").reason or "")


async def test_first_listings_are_over_when_every_server_was_listed_or_failed() -> None:
    async with pooled(config(entry("echo"), "one"), config(entry("exits"), "exits"), unlisted=True) as servers:
        with anyio.fail_after(LIMIT_S / 2):
            await servers.pool.wait_for_first_listings(LIMIT_S)
        assert servers.pool.starting == 0
        assert servers.listings.of.keys() == {"one"}


async def test_a_server_that_fails_at_first_is_listed_once_it_runs() -> None:
    backend = Restartable()
    async with pooled(config(backend.entry), unlisted=True) as servers:
        await until(lambda: servers.pool.state("srv").phase is Phase.DOWN)
        async with backend:
            await until(lambda: "echo" in servers.listings.names())


async def test_a_server_listed_before_sleeps_until_it_is_called() -> None:
    async with pooled(config(entry("echo"))) as servers:
        assert servers.pool.state("srv").phase is Phase.ASLEEP
        assert await servers.text("srv", "add", a=1, b=2) == "3"
        assert servers.pool.state("srv").phase is Phase.READY
        # Its start is the occasion to see whether the listing of before still holds.
        await until(lambda: "echo" in servers.listings.names())


async def test_a_stale_listing_is_confirmed_without_a_call() -> None:
    async with pooled() as servers:
        server = config(entry("echo"))
        await servers.pool.apply({"srv": server}, set(), {"srv"})
        await until(lambda: "echo" in servers.listings.names())


@pytest.mark.parametrize("kind", ["initialize era", "2026-07-28", "2026-07-28 over HTTP", "initialize era over HTTP"])
async def test_a_server_whose_tools_changed_is_listed_again(kind: str) -> None:
    async def grow(entry: dict[str, Any]) -> None:
        async with pooled(config(entry), unlisted=True) as servers:
            await servers.pool.wait_for_first_listings(LIMIT_S)
            for name in ("grown_1", "grown_2"):
                assert name not in servers.listings.names()
                assert await servers.text("srv", "grow") == name
                await until(lambda name=name: name in servers.listings.names())
                assert await servers.text("srv", name) == f"{name} works"

    if "HTTP" in kind:
        async with Restartable(legacy_only="initialize" in kind) as server:
            await grow(server.entry)
    else:
        await grow(modern_entry() if "2026" in kind else entry("grows"))


async def test_a_storm_of_changes_causes_few_listings() -> None:
    async with pooled(config(entry("grows", STORM="500")), unlisted=True) as servers:
        await servers.pool.wait_for_first_listings(LIMIT_S)
        for name in ("grown_1", "grown_2", "grown_3"):
            assert await servers.text("srv", "grow") == name
            await until(lambda name=name: name in servers.listings.names())
        assert int(await servers.text("srv", "listings")) <= 10


async def test_a_removed_server_ends_an_unchanged_one_stays_and_a_changed_one_starts_anew() -> None:
    before = [config(entry("echo"), name) for name in ("removed", "same", "changed")]
    async with pooled(*before) as servers:
        removed, same, changed = [await pid_of(servers, name) for name in ("removed", "same", "changed")]
        await servers.apply(before[1], config(entry("echo", NEW="1"), "changed"))
        await until(lambda: not running(removed) and not running(changed))
        assert await pid_of(servers, "same") == same
        assert await pid_of(servers, "changed") != changed
        assert "NEW" in json.loads(await servers.text("changed", "whoami"))["environment"]
        with pytest.raises(UnknownName, match="removed"):
            await servers.text("removed", "whoami")


async def test_a_server_removed_while_it_starts_is_not_waited_for(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    silent = entry("silent")
    line = f"echo $$ > {shlex.quote(str(pid_file))}; exec {shlex.join([silent['command'], *silent['args']])}"
    slow = config({"command": "sh", "args": ["-c", line]}, start_timeout_s=2 * LIMIT_S)
    async with pooled(slow, unlisted=True) as servers:
        await until(lambda: pid_file.exists() and pid_file.read_text("utf-8").endswith("\n"))
        pid = int(pid_file.read_text("utf-8"))
        assert running(pid)
        await servers.apply()
        await until(lambda: not running(pid) and servers.pool.starting == 0)
        with pytest.raises(UnknownName):
            await servers.text("srv", "echo", text="x")


async def test_a_server_that_is_switched_off_is_stopped_and_denied() -> None:
    async with pooled(config(entry("echo"))) as servers:
        before = await pid_of(servers, "srv")
        await servers.apply(config(entry("echo"), enabled=False))
        with pytest.raises(Denied, match="enabled: false"):
            await servers.text("srv", "whoami")
        await until(lambda: not running(before))


async def test_an_entry_that_cannot_be_used_is_denied_with_its_reason() -> None:
    async with pooled(config({"command": "x", "env": {"KEY": "${NO_SUCH_VARIABLE}"}}), unlisted=True) as servers:
        assert servers.pool.starting == 0
        assert servers.pool.state("srv").phase is Phase.DISABLED
        with pytest.raises(Denied, match="NO_SUCH_VARIABLE"):
            await servers.text("srv", "whoami")


async def test_isolated_sessions_have_their_own_process_until_they_are_released() -> None:
    async with pooled(config(entry("echo"), isolation="session")) as servers:
        assert [await servers.text("srv", "counter", session="a") for _ in range(2)] == ["1", "2"]
        assert await servers.text("srv", "counter", session="b") == "1"
        first, second = await pid_of(servers, "srv", "a"), await pid_of(servers, "srv", "b")
        assert first != second
        servers.pool.release("a")
        await until(lambda: not running(first))
        assert await servers.text("srv", "counter", session="b") == "2"
        assert await servers.text("srv", "counter", session="a") == "1"


async def test_a_shared_server_is_one_for_all_sessions_and_outlives_them() -> None:
    async with pooled(config(entry("echo"))) as servers:
        assert await servers.text("srv", "counter", session="a") == "1"
        assert await servers.text("srv", "counter", session="b") == "2"
        servers.pool.release("a")
        assert await servers.text("srv", "counter", session="b") == "3"


async def test_nothing_runs_after_the_pool_is_left() -> None:
    async with pooled(config(entry("stubborn"), "one"), config(entry("echo"), "two", isolation="session")) as servers:
        pids = [await pid_of(servers, "one"), int(await servers.text("one", "child"))]
        pids += [await pid_of(servers, "two", session) for session in ("a", "b")]
        assert all(running(pid) for pid in pids)
    assert not any(running(pid) for pid in pids)


async def test_one_server_that_crashes_leaves_the_others_alone() -> None:
    async with pooled(config(entry("echo"), "one"), config(entry("echo"), "two")) as servers:
        other = await pid_of(servers, "two")
        with pytest.raises(ServerDown) as caught:
            await servers.text("one", "crash")
        assert caught.value.server == "one"
        assert await pid_of(servers, "two") == other
