"""`toolatlas tools list` and `accept`: the owner looks at what changed and accepts it, with or without a gateway."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from typer.testing import CliRunner, Result

from proxy.app import build as build_app
from proxy.catalog.cache import ListingCache
from proxy.catalog.records import Listing
from proxy.cli import build
from proxy.errors import Denied, GatewayError, UnknownName
from proxy.metatools.base import Caller
from proxy.servers.configfile import load
from proxy.settings import Settings
from tests.fixtures.origins import agent
from tests.fixtures.running import entry

LIMIT_S = 30.0


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mcp.json"
    monkeypatch.setenv("TOOLATLAS_CONFIG", str(file))
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(tmp_path / "cache"))
    configure(file, one={**entry("names"), "on_change": "block"})
    return file


def configure(config: Path, **servers: Any) -> None:
    config.write_text(json.dumps({"mcpServers": servers}))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(build(), ["tools", *arguments])
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


def listed(config: Path, name: str, change: Callable[[Listing], Listing]) -> None:
    """As if the gateway had just listed the server, and it were another than before."""
    cache = ListingCache(config.parent / "cache" / "listings")
    (server,) = (server for server in load(config, os.environ).servers if server.name == name)
    before = cache.load(server.identity)
    assert before is not None
    cache.store(server.identity, change(before))


def described(description: str) -> Callable[[Listing], Listing]:
    """Every tool but the last with that description."""
    return lambda listing: replace(
        listing, tools=(*({**tool, "description": description} for tool in listing.tools[:-1]), listing.tools[-1])
    )


def states(*arguments: str) -> dict[str, str]:
    rows = json.loads(run("list", "--json", *arguments).stdout)
    return {row["tool"] or row["server"]: row["state"] for row in rows}


def test_what_is_known_is_listed_without_starting_anything(config: Path) -> None:
    assert states() == {"one": "not listed yet"}
    assert run("describe", "one.a_b").exit_code == 0
    assert states()["one.a_b"] == ""
    assert "one.a_b: The tool number 4." in run("list").stdout
    configure(config, one={**entry("names"), "tools": {"deny": ["a_b"]}})
    assert states()["one.a_b"] == "denied"


def test_a_changed_tool_is_withheld_until_it_is_accepted_under_any_of_its_names(config: Path) -> None:
    assert run("describe", "one.a_b").exit_code == 0
    listed(config, "one", described("Something else."))
    assert states()["one.calendar_update"] == "changed: description, withheld"
    assert "one.calendar_update [changed: description, withheld] Something else." in run("list").stdout
    refused = run("describe", "one.calendar_update")
    assert isinstance(refused.exception, Denied)
    assert "`toolatlas tools accept one.calendar.update`" in str(refused.exception)
    for target, name in (("one.calendar.update", "one.calendar_update"), ("one.GET__x", "one.GET__x")):
        looked = run("accept", target, "--dry-run")
        assert "[changed: description] Something else." in looked.stdout
        assert states()[name] == "changed: description, withheld"
        assert run("accept", target).stdout.endswith(f"accepted: {target}\n")
        assert states()[name] == ""
        again = run("accept", target)
        assert (again.exit_code, again.stdout) == (3, "")
    assert states()["one.a_b"] == "changed: description, withheld"
    accepted = json.loads(run("accept", "one", "--json").stdout)
    assert accepted["accepted"]
    assert {tool["tool"] for tool in accepted["tools"]} >= {"a_b", "a-b"}
    assert not any(states().values())


def test_a_new_tool_of_a_known_server_is_withheld_under_block(config: Path) -> None:
    assert run("describe", "one.a_b").exit_code == 0
    new = {"name": "later", "description": "Was not there.", "inputSchema": {"type": "object"}}
    listed(config, "one", lambda listing: replace(listing, tools=(*listing.tools, new)))
    assert states()["one.later"] == "new, withheld"
    assert isinstance(run("describe", "one.later").exception, Denied)
    assert run("accept", "one.later").exit_code == 0
    assert states()["one.later"] == ""


def test_a_waiting_server_is_listed_for_its_owner_alone(config: Path) -> None:
    configure(config, one={**entry("names"), "on_new": "ask"})
    assert states() == {"one": "waiting"}
    assert isinstance(run("describe", "one.a_b").exception, Denied)
    assert isinstance(run("call", "one.a_b").exception, Denied)
    assert run("search", "tool number").exit_code == 3
    assert not (config.parent / "cache").exists()
    looked = run("accept", "one", "--dry-run")
    assert "[new] The tool number 4." in looked.stdout
    assert states() == {"one": "waiting"}
    assert isinstance(run("accept", "one.a_b").exception, GatewayError)
    assert run("accept", "one").exit_code == 0
    assert states()["one.a_b"] == ""
    assert run("call", "one.a_b").exit_code == 0


def test_the_environment_sets_the_default_and_the_entry_has_the_last_word(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLATLAS_ON_NEW", "ask")
    configure(config, asked=entry("names"), known={**entry("names"), "on_new": "accept"})
    assert states() == {"asked": "waiting", "known": "not listed yet"}
    monkeypatch.setenv("TOOLATLAS_ON_NEW", "aks")
    assert isinstance(run("describe", "known.a_b").exception, GatewayError)
    reasons = {server.disabled_reason for server in load(config, os.environ).servers}
    assert reasons == {"the variable TOOLATLAS_ON_NEW has to be 'ask' or 'accept'"}


def test_damaged_pins_close_the_server_until_it_is_accepted_anew(config: Path) -> None:
    assert run("describe", "one.a_b").exit_code == 0
    (pins,) = (config.parent / "state" / "pins").glob("*.json")
    pins.write_text("{")
    assert states() == {"one": "withheld"}
    refused = run("describe", "one.a_b")
    assert isinstance(refused.exception, Denied)
    assert str(pins) in str(refused.exception)
    assert pins.read_text() == "{"
    assert run("accept", "one").exit_code == 0
    assert run("describe", "one.a_b").exit_code == 0


@pytest.mark.parametrize("target", ["two", "one.nothing", "one.", ""])
def test_what_does_not_exist_is_not_accepted(target: str) -> None:
    assert run("describe", "one.a_b").exit_code == 0
    assert isinstance(run("accept", target).exception, UnknownName)


@pytest.mark.anyio
async def test_a_gateway_that_serves_takes_over_what_is_accepted(config: Path, tmp_path: Path) -> None:
    configure(config, one={**entry("names"), "on_new": "ask"}, two={**entry("grows"), "on_change": "block"})
    settings = Settings(config=config, state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")
    configuration = load(config, os.environ)
    app = build_app(settings, os.environ, configuration=configuration)

    async def until(condition: Callable[[], bool]) -> None:
        with anyio.fail_after(LIMIT_S):
            while not condition():
                await anyio.sleep(0.02)

    async with app.gateway.running(configuration):
        gateway = app.gateway
        await until(lambda: "two.grow" in gateway.catalog.tools)
        assert gateway.catalog.server("one").withheld is not None
        with pytest.raises(Denied, match="waits"):
            await gateway.pool.refresh("one")
        assert (await anyio.to_thread.run_sync(run, "accept", "one")).exit_code == 0
        await until(lambda: "one.a_b" in gateway.catalog.tools)
        await gateway.pool.refresh("one")

        record = gateway.catalog.tool("two.grow")
        await app.service.calls.call(record, {}, Caller(agent="local", origin=agent()))
        await until(lambda: "two.grown_1" in gateway.catalog.refused)
        assert (await anyio.to_thread.run_sync(run, "accept", "two.grown_1")).exit_code == 0
        await until(lambda: "two.grown_1" in gateway.catalog.tools)
