"""A stdio server's process: what it is given, what it leaves behind, and that nothing of it outlives its connection."""

from __future__ import annotations

import gc
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from proxy.errors import ServerDown
from proxy.servers.process import INHERITED, LastWords, child_environment, stdio_process
from tests.fixtures.running import entry
from tests.proxy.servers.conftest import call, config, connected, running, supervised, text, until

pytestmark = pytest.mark.anyio


def behind_a_shell(entry: dict[str, Any]) -> dict[str, Any]:
    """The same server as a grandchild: with a second command to come, the shell stays in between."""
    line = shlex.join([entry["command"], *entry["args"]]) + "; true"
    return entry | {"command": "sh", "args": ["-c", line]}


async def test_a_server_sees_only_allowed_variables_and_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLATLAS_TOKEN", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with connected(config(entry("echo", OWN="1"))) as connection:
        seen = set(json.loads(text(await connection.request(call("whoami"))))["environment"])
    assert seen <= INHERITED | {"OWN"}
    assert seen >= {"OWN", "PATH"}


def test_the_servers_own_variables_win_over_inherited_ones() -> None:
    environment = child_environment({"HOME": "/own", "ANY": "x"}, {"HOME": "/root", "ANY": "y", "LANG": "C"})
    assert {name: environment[name] for name in ("HOME", "ANY", "LANG")} == {"HOME": "/own", "ANY": "x", "LANG": "C"}


def test_a_proxy_with_credentials_and_a_shell_function_are_not_inherited() -> None:
    inherited = {"HTTP_PROXY": "http://user:word@proxy:1", "https_proxy": "http://proxy:1", "SHELL": "() { :; }"}
    environment = child_environment({}, inherited)
    assert environment.keys() == {"https_proxy", "PATH"}


def test_programs_beside_our_interpreter_are_found_last() -> None:
    folders = child_environment({}, {"PATH": "/usr/bin"})["PATH"].split(":")
    assert folders[0] == "/usr/bin"
    assert folders[-1] == sys.executable.rpartition("/")[0]


async def test_junk_on_stdout_is_skipped_and_the_call_works() -> None:
    async with connected(config(entry("junk"))) as connection:
        assert text(await connection.request(call("echo", text="héllo"))) == "héllo"
        assert connection.channel.last_words.junk_lines >= 2
        assert connection.channel.last_words.junk_sample == "INFO starting up on stdio"


def test_last_words_tell_the_code_the_junk_and_the_end_of_stderr() -> None:
    words = LastWords(junk_lines=3, junk_sample="INFO", exit_code=7)
    words.stderr.extend(f"line {number}" for number in range(9))
    described = words.describe()
    assert "exited with code 7" in described
    assert "3 lines on stdout that are not MCP, such as 'INFO'" in described
    assert "line 4 | line 5 | line 6 | line 7 | line 8" in described
    assert "line 3" not in described


async def test_a_server_that_exits_is_quoted() -> None:
    with pytest.raises(ServerDown, match=r"exited with code 1.*fatal: API_TOKEN is not set"):
        async with connected(config(entry("exits"))):
            pass


async def test_the_end_that_we_made_ourselves_is_not_told_as_the_servers() -> None:
    with pytest.raises(ServerDown) as caught:
        async with connected(config(entry("silent"), start_timeout_s=0.5)):
            pass
    assert "exited" not in str(caught.value)


async def test_nothing_of_a_process_group_is_left_after_a_stop() -> None:
    async with supervised(config(behind_a_shell(entry("stubborn")))) as server:
        pids = [json.loads(await server.text("whoami"))["pid"], int(await server.text("child"))]
        assert all(running(pid) for pid in pids)
        await server.supervisor.stop()
        assert not any(running(pid) for pid in pids)


async def test_nothing_of_a_process_group_is_left_when_its_owner_is_cancelled() -> None:
    async with supervised(config(behind_a_shell(entry("stubborn")))) as server:
        pids = [json.loads(await server.text("whoami"))["pid"], int(await server.text("child"))]
    assert not any(running(pid) for pid in pids)


async def test_a_child_that_outlives_a_crashed_server_is_ended_too() -> None:
    async with supervised(config(entry("stubborn"))) as server:
        child = int(await server.text("child"))
        with pytest.raises(ServerDown):
            await server.text("crash")
        await until(lambda: not running(child))


@pytest.mark.parametrize("ticks", range(12))
def test_a_start_that_is_cancelled_in_the_middle_leaves_no_process_behind(ticks: int) -> None:
    server = entry("echo")

    async def start() -> None:
        async with stdio_process(server["command"], tuple(server["args"]), env={}, cwd=None, last_words=LastWords()):
            await anyio.sleep_forever()

    async def cancel_it() -> None:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(start)
                for _ in range(ticks):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()

    # A loop of its own, which is gone at once, so that nothing is tidied up later.
    anyio.run(cancel_it)
    # A child that nobody waited for warns when it is collected, and warnings are errors.
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline") for child in children]
    assert not any(b"plain.py" in command.read_bytes() for command in commands if command.exists())
