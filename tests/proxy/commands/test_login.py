"""`toolatlas servers login` and `logout` as their user runs them, also beside a gateway that serves."""

from __future__ import annotations

import json
import os
import re
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client
from typer.testing import CliRunner, Result

from proxy.cli import build
from proxy.errors import ConfigurationError, GatewayError
from tests.fixtures.authorization import Protected, protected
from tests.fixtures.running import entry, free_port, http_server

pytestmark = pytest.mark.anyio

COMMAND = (sys.executable, "-P", "-m", "proxy.cli")
LIMIT_S = 60.0


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file that the commands use, not written yet."""
    monkeypatch.setenv("TOOLATLAS_CONFIG", str(tmp_path / "mcp.json"))
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "mcp.json"


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A browser whose user agrees at once, in the place of the system's; the addresses that it was given."""
    opened: list[str] = []

    def visit(address: str) -> bool:
        opened.append(address)
        httpx2.get(address, follow_redirects=True, trust_env=False)
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    return opened


def configure(config: Path, **servers: Any) -> None:
    config.write_text(json.dumps({"mcpServers": servers}))


async def run(*arguments: str) -> Result:
    """Run a command beside the servers of this test."""
    with anyio.fail_after(LIMIT_S):
        result = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(build(), arguments))
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


async def test_login_opens_the_browser_and_the_server_can_be_used(config: Path, browser: list[str]) -> None:
    async with protected() as pair:
        configure(config, docs=pair.entry)
        before = await run("servers", "test", "docs")
        assert (before.exit_code, "toolatlas servers login docs" in str(before.exception)) == (1, True)
        done = await run("servers", "login", "docs", "--json")
        assert done.exit_code == 0, done.output
        answer = json.loads(done.stdout)
        assert (answer["issuer"], answer["scope"], answer["renewable"]) == (pair.issuer, "tools", True)
        assert answer["tools"] > 0
        assert len(browser) == 1
        assert browser[0] in done.stderr
        assert (await run("servers", "test", "docs")).exit_code == 0
        assert not any(secret in done.output for secret in pair.authorization.issued)


async def test_doctor_says_which_server_wants_a_login(config: Path) -> None:
    async with protected() as pair:
        configure(config, docs=pair.entry)
        findings = json.loads((await run("doctor", "--json")).stdout)
        (finding,) = [finding for finding in findings if finding["what"] == "server docs"]
        assert not finding["ok"]
        assert "toolatlas servers login docs" in finding["detail"]


async def test_logout_forgets_the_login_and_says_when_there_is_none(config: Path, browser: list[str]) -> None:
    async with protected() as pair:
        configure(config, docs=pair.entry)
        assert (await run("servers", "login", "docs")).exit_code == 0
        out = await run("servers", "logout", "docs", "--json")
        assert (out.exit_code, json.loads(out.stdout)) == (0, {"server": "docs", "removed": 1})
        assert (await run("servers", "test", "docs")).exit_code == 1
        again = await run("servers", "logout", "docs")
        assert (again.exit_code, "no login to docs" in again.stdout) == (3, True)


async def test_a_server_that_wants_no_login_is_nothing_to_do(config: Path, browser: list[str]) -> None:
    async with http_server() as url:
        configure(config, open={"url": url})
        result = await run("servers", "login", "open")
        assert (result.exit_code, "wants no login" in result.stdout, browser) == (3, True, [])


async def test_what_cannot_be_logged_in_to_is_refused(config: Path, browser: list[str]) -> None:
    configure(config, program=entry("echo"))
    for name, said in (("program", "nothing to log in to"), ("other", "there are program")):
        result = await run("servers", "login", name)
        assert isinstance(result.exception, ConfigurationError)
        assert said in str(result.exception)
    assert browser == []


@asynccontextmanager
async def gateway(log: Path) -> AsyncIterator[Client]:
    """A gateway as a process of its own, over the environment's configuration."""
    port = free_port()
    with log.open("ab") as output:
        async with await anyio.open_process(
            [*COMMAND, "serve", "--port", str(port)], stdin=None, stdout=output, stderr=output
        ) as process:
            try:
                await until_it_answers(f"http://127.0.0.1:{port}/healthz")
                async with Client(f"http://127.0.0.1:{port}/mcp", mode="legacy") as client:
                    yield client
            finally:
                process.terminate()
                with anyio.fail_after(LIMIT_S, shield=True):
                    await process.wait()


async def until_it_answers(url: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        while True:
            try:
                if (await http.get(url)).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await anyio.sleep(0.05)


async def said(client: Client, metatool: str, **arguments: Any) -> str:
    result = await client.call_tool(metatool, arguments)
    return "\n".join(getattr(item, "text", "") for item in result.content)


async def log_in_by_hand(name: str) -> None:
    """Run the command without a browser, and open the address that it prints."""
    async with await anyio.open_process([*COMMAND, "servers", "login", name, "--no-browser"], stdin=None) as process:
        assert process.stderr is not None
        printed = ""
        async for text in TextReceiveStream(process.stderr):
            printed += text
            if found := re.search(r"(http://\S+)\n", printed):
                async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
                    await browser.get(found[1])
                break
        assert await process.wait() == 0, printed


async def sum_in(client: Client) -> str:
    return await said(client, "call_tool", tool="docs.add", arguments={"a": 2, "b": 3})


async def use(pair: Protected, client: Client) -> None:
    """Call until a token has been renewed once more; every call has to work."""
    before = pair.authorization.renewals
    while pair.authorization.renewals == before:
        answer = await sum_in(client)
        assert answer.startswith("5"), answer


async def test_a_serving_gateway_takes_a_login_over_keeps_it_alive_and_has_it_after_a_restart(
    config: Path, tmp_path: Path
) -> None:
    log = tmp_path / "gateway.log"
    with anyio.fail_after(2 * LIMIT_S):
        async with protected(lifetime_s=2) as pair:
            configure(config, docs=pair.entry)
            async with gateway(log) as client:
                while "toolatlas servers login docs" not in await said(client, "list_servers"):
                    await anyio.sleep(0.05)
                await log_in_by_hand("docs")
                while not (await sum_in(client)).startswith("5"):
                    await anyio.sleep(0.05)
                await use(pair, client)
            async with gateway(log) as client:
                await use(pair, client)
            written = log.read_text() + "".join(
                path.read_bytes().decode("latin-1") for path in (tmp_path / "state").rglob("*") if path.is_file()
            )
            assert pair.authorization.issued
            assert not any(secret in written for secret in pair.authorization.issued)
            assert "Traceback" not in log.read_text()
    assert os.environ["TOOLATLAS_STATE_DIR"] == str(tmp_path / "state")
