from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy.clients.backup import Backups
from proxy.clients.base import Entry, Place
from proxy.clients.connecting import Connection, ConnectPlan, CountTokens, Tokens, apply_connect, plan_connect
from proxy.clients.known import CLIENTS, find_client
from proxy.clients.reading import read_servers
from proxy.errors import ConfigurationError

URL = "http://127.0.0.1:8765/mcp"
TABLE = ("mcpServers",)
OWN = {"url": URL}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.json"


def plan(file: Path, config: Path | None, count_tokens: CountTokens | None = None, key: str = "cursor") -> ConnectPlan:
    client = find_client(key)
    return plan_connect(
        client,
        [Place(file, client.table)],
        Connection(URL, "toolatlas", None, None),
        config=config,
        urls=frozenset((URL,)),
        count_tokens=count_tokens,
    )


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.key)
@pytest.mark.parametrize("url", [None, "https://gw.example/mcp"])
def test_our_own_entry_is_recognised_as_ours_in_every_client(tmp_path: Path, client, url: str | None) -> None:
    place = Place(tmp_path / "file", client.table)
    connection = Connection(url, "toolatlas", None, "TOK")
    done = plan_connect(client, [place], connection, config=None, urls=frozenset(), count_tokens=None)
    apply_connect(done, Backups(tmp_path / "state"))
    reading = read_servers(client, place, frozenset())
    assert (reading.servers, reading.skipped) == ((), (("toolatlas", "it is this gateway"),))


def test_a_client_that_only_starts_programs_is_given_a_relay_to_the_url() -> None:
    desktop = find_client("claude-desktop")
    relay = Connection("https://gw.example/mcp", "/bin/toolatlas", Path("/c.json"), "TOK").entry(desktop)
    assert relay == {
        "command": "/bin/toolatlas",
        "args": ["stdio", "--url", "https://gw.example/mcp", "--token-env", "TOK"],
    }
    local = Connection(None, "toolatlas", Path("/c.json"), None).entry(desktop)
    assert local == {"command": "toolatlas", "args": ["stdio", "--config", "/c.json"]}


def test_tokens_are_counted_over_what_the_client_has_before_and_after(tmp_path: Path, file: Path) -> None:
    servers = {"a": {"command": "a"}, "b": {"command": "b"}, "stays": {"command": "${input:x}"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    counted: list[tuple[set[str], set[str] | None]] = []

    def count(seen: Mapping[str, Entry], behind: Mapping[str, Entry] | None) -> int:
        counted.append((set(seen), None if behind is None else set(behind)))
        return 100 * len(seen) + (0 if behind is None else 50)

    done = plan(file, tmp_path / "our.json", count)
    assert done.tokens == Tokens(300, 150)
    assert counted == [({"a", "b", "stays"}, None), ({"stays"}, {"a", "b"})]


def test_a_connected_client_counts_our_entry_before_too(tmp_path: Path, file: Path) -> None:
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}, "toolatlas": OWN}}))

    def count(seen: Mapping[str, Entry], behind: Mapping[str, Entry] | None) -> int:
        return len(seen) + (0 if behind is None else 10)

    assert plan(file, tmp_path / "our.json", count).tokens == Tokens(11, 10)
    assert plan(file, tmp_path / "our.json").tokens == Tokens(None, None)


def test_when_the_clients_file_cannot_be_written_its_servers_are_in_both_files(tmp_path: Path, file: Path) -> None:
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}}))
    done = plan(file, tmp_path / "our.json")
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}, "new": {"command": "n"}}}))
    with pytest.raises(ConfigurationError, match="run this again"):
        apply_connect(done, Backups(tmp_path / "state"))
    assert list(json.loads(file.read_text())["mcpServers"]) == ["a", "new"]
    assert list(json.loads((tmp_path / "our.json").read_text())["mcpServers"]) == ["a"]


def test_a_configuration_that_cannot_be_changed_keeps_the_client_as_it_is(tmp_path: Path, file: Path) -> None:
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}}))
    config = tmp_path / "our.json"
    config.write_text('{"mcpServers": {}} // mine')
    with pytest.raises(ConfigurationError, match=r"our\.json has comments"):
        plan(file, config)


def test_servers_are_not_moved_from_our_configuration_into_itself(file: Path) -> None:
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}}))
    with pytest.raises(ConfigurationError, match="own configuration"):
        plan(file, file)


def test_the_diff_shows_nothing_of_the_file_but_its_servers(file: Path) -> None:
    file.write_text(
        json.dumps({"account": "ann@x.example", "mcpServers": {"a": {"command": "a", "env": {"K": "s3c"}}}})
    )
    diff = plan(file, None).diff
    assert '+      "url": "http://127.0.0.1:8765/mcp"' in diff
    assert "ann@x.example" not in diff
    assert "s3c" not in diff


def test_both_tables_of_the_claude_code_file_are_emptied(tmp_path: Path) -> None:
    client = find_client("claude-code")
    path = tmp_path / ".claude.json"
    local = ("projects", "/p", "mcpServers")
    projects = {"/p": {"mcpServers": {"mine": {"command": "m"}}, "x": 1}, "/q": {"mcpServers": {"q": {"command": "q"}}}}
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}, "projects": projects, "n": 5}))
    connection = Connection(URL, "toolatlas", None, None)
    places = [Place(path, TABLE), Place(path, local)]
    config = tmp_path / "our.json"
    done = plan_connect(client, places, connection, config=config, urls=frozenset(), count_tokens=None)
    apply_connect(done, Backups(tmp_path / "state"))
    assert done.moved == ("a", "mine")
    assert json.loads(path.read_text()) == {
        "mcpServers": {"toolatlas": {"type": "http", "url": URL}},
        "projects": {"/p": {"mcpServers": {}, "x": 1}, "/q": {"mcpServers": {"q": {"command": "q"}}}},
        "n": 5,
    }
    assert list(json.loads(config.read_text())["mcpServers"]) == ["a", "mine"]
