"""What a server that a host started can see and reach of the gateway: nothing but its pipes."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from typing import cast

import anyio
import psutil
import pytest
import typer
from mcp import Client
from typer.testing import CliRunner

from proxy.commands import host
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.servers.process import INHERITED
from tests.hosting.conftest import OTHER_USER, SERVERS_USER, Place, StartGateway, StartHost, prying_entry
from tests.lifecycle.conftest import ask

pytestmark = pytest.mark.anyio


async def answer(client: Client, tool: str, **arguments: object) -> object:
    """What a tool of `prying` found out."""
    return json.loads(await ask(client, f"prying.{tool}", **arguments))


async def test_a_call_goes_to_a_server_of_another_user_and_its_answer_comes_back(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    with start_host() as daemon:
        async with hosted_gateway(daemon, {"prying": prying_entry()}) as running:
            async with Client(running.url, mode="legacy") as client:
                assert await ask(client, "prying.echo", text="héllo") == "héllo"
                assert len(await ask(client, "prying.big", size=3_000_000)) > 1000
                server = json.loads(await ask(client, "prying.whoami"))["pid"]
                assert psutil.Process(server).ppid() == daemon.process.pid, "the gateway starts nothing itself"
                assert set(cast(list[int], await answer(client, "ids"))) == {SERVERS_USER}
                assert psutil.Process(server).num_fds() == 3, "its standard streams and nothing else"


async def test_a_server_reads_no_file_of_the_gateway(start_host: StartHost, hosted_gateway: StartGateway) -> None:
    with start_host() as daemon:
        async with hosted_gateway(daemon, {"prying": prying_entry()}) as running:
            state = running.state
            TokenStore(state / "tokens.json").create("agent", None)
            (state / "secret.key").touch(0o600)
            async with Client(running.url, mode="legacy") as client:
                files = [each for each in state.rglob("*") if each.is_file()]
                assert {"tokens.json", "secret.key"} <= {each.name for each in files}
                for file in files:
                    assert await answer(client, "read", path=str(file)) == "PermissionError", file
                # What it may read, it does read.
                assert "import pytest" in str(await answer(client, "read", path=__file__))


async def test_a_server_sees_nothing_of_the_gateways_process_and_cannot_signal_it(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with start_host() as daemon:
            async with hosted_gateway(daemon, {"prying": prying_entry()}) as running:
                async with Client(running.url, mode="legacy") as client:
                    for file in ("environ", "mem", "maps", "auxv"):
                        path = f"/proc/{os.getpid()}/{file}"
                        assert await answer(client, "read", path=path) == "PermissionError", file
                    for folder in ("fd", "map_files"):
                        assert await answer(client, "list", path=f"/proc/{os.getpid()}/{folder}") == "PermissionError"
                    assert await answer(client, "signal", pid=os.getpid()) == "PermissionError"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == []


async def test_a_server_has_its_own_variables_and_the_hosts_safe_ones_and_no_others(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    entry = prying_entry(TOKEN="${GATEWAYS_TOKEN}", PLAIN="1")
    environ = {**os.environ, "GATEWAYS_TOKEN": "from the gateway", "GATEWAYS_OTHER": "not for servers"}
    with start_host() as daemon:
        async with hosted_gateway(daemon, {"prying": entry}, environ) as running:
            async with Client(running.url, mode="legacy") as client:
                seen = await answer(client, "variables")
    assert isinstance(seen, dict)
    assert (seen["TOKEN"], seen["PLAIN"]) == ("from the gateway", "1")
    assert seen.keys() - {"TOKEN", "PLAIN"} <= INHERITED
    assert "secret" not in seen.values()
    assert seen["HOME"] == str(daemon.socket.parent), "its home is that of the host's user"


async def test_a_server_can_open_its_own_streams_by_name(start_host: StartHost, hosted_gateway: StartGateway) -> None:
    with start_host() as daemon:
        async with hosted_gateway(daemon, {"prying": prying_entry()}) as running:
            async with Client(running.url, mode="legacy") as client:
                assert await answer(client, "say", text="said by name") is None
                failed = await client.call_tool("call_tool", {"tool": "prying.crash", "arguments": {}})
    assert failed.is_error
    assert "said by name" in str(failed.content)
    assert "exited with code 3" in str(failed.content)


async def test_a_user_that_was_not_named_starts_nothing(start_host: StartHost, hosted_gateway: StartGateway) -> None:
    with start_host("--allow-uid", "12345") as daemon:
        async with hosted_gateway(daemon, {"prying": prying_entry()}) as running:
            reason = running.app.gateway.pool.state("prying").reason or ""
            assert f"user {os.geteuid()} may not start servers here" in reason
            assert "--allow-uid" in reason
            assert daemon.servers() == []


async def test_the_servers_own_user_starts_nothing_though_it_reaches_the_socket(
    place: Place, start_host: StartHost
) -> None:
    connect = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(9999))"
    with start_host() as daemon:
        assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o666
        for uid in (SERVERS_USER, OTHER_USER):
            command = place.as_user(uid, [sys.executable, "-I", "-c", connect, str(daemon.socket)])
            done = await anyio.run_process(command)
            assert f"user {uid} may not start servers here" in done.stdout.decode()
        assert daemon.servers() == []


def test_servers_never_run_as_root(place: Place) -> None:
    app = typer.Typer()
    host.register(app)
    result = CliRunner().invoke(app, ["--socket", str(place.folder / "s")])
    assert isinstance(result.exception, ConfigurationError)
    assert "as a user of its own" in str(result.exception)
