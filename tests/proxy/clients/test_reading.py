from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.clients.base import Entry, Place
from proxy.clients.entries import Found
from proxy.clients.known import find_client
from proxy.clients.reading import Reading, read_existing, read_servers
from proxy.errors import ConfigurationError
from proxy.servers.configfile import parse

GATEWAY = frozenset(("http://127.0.0.1:8765/mcp",))


def read_json(tmp_path: Path, key: str, servers: object, folder: Path | None = None) -> Reading:
    client = find_client(key)
    path = tmp_path / "file.json"
    path.write_text(json.dumps({client.table[0]: servers}))
    return read_servers(client, Place(path, client.table, folder), GATEWAY)


def read_one(tmp_path: Path, key: str, entry: Entry, folder: Path | None = None) -> Found:
    (found,) = read_json(tmp_path, key, {"one": entry}, folder).servers
    return found


def read_codex(tmp_path: Path, text: str) -> Reading:
    client = find_client("codex")
    path = tmp_path / "config.toml"
    path.write_text(text)
    return read_servers(client, Place(path, client.table), GATEWAY)


def test_a_plain_program_comes_over_as_it_is(tmp_path: Path) -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}, "cwd": "/w"}
    assert read_one(tmp_path, "claude-desktop", {"type": "stdio", **entry}) == Found("one", entry)


def test_the_ways_to_write_one_url_become_one_so_that_it_is_imported_once(tmp_path: Path) -> None:
    url = "https://x.example/mcp"
    expected = {"type": "http", "url": url}
    assert read_one(tmp_path, "cursor", {"url": url}).entry == expected
    assert read_one(tmp_path, "claude-code", {"type": "http", "url": url, "headers": {}}).entry == expected
    assert read_one(tmp_path, "vscode", {"type": "streamable-http", "url": url}).entry == expected
    assert read_one(tmp_path, "gemini", {"httpUrl": url}).entry == expected
    assert read_codex(tmp_path, f'[mcp_servers.one]\nurl = "{url}"\n').servers[0].entry == expected


def test_an_sse_address_stays_one_however_it_is_told(tmp_path: Path) -> None:
    assert read_one(tmp_path, "cursor", {"url": "https://x.example/sse"}).entry["type"] == "sse"
    assert read_one(tmp_path, "vscode", {"type": "sse", "url": "https://x.example/events"}).entry["type"] == "sse"
    assert read_one(tmp_path, "gemini", {"httpUrl": "https://x.example/sse"}).entry["type"] == "http"


def test_codex_variables_become_references(tmp_path: Path) -> None:
    reading = read_codex(
        tmp_path,
        """
        [mcp_servers.web]
        url = "https://web.example/mcp"
        bearer_token_env_var = "WEB"
        http_headers = { X-Plain = "1" }
        env_http_headers = { X-Key = "XK" }
        headers = { Ignored = "by codex" }
        startup_timeout_sec = 20
        tool_timeout_sec = 90.5
        enabled = false
        enabled_tools = ["a", "b"]
        disabled_tools = ["b"]

        [mcp_servers.local]
        command = "x"
        env_vars = ["PLAIN", { name = "TABLE" }]
        env = { OWN = "v" }
        startup_timeout_ms = 1500
        """,
    )
    assert [found.entry for found in reading.servers] == [
        {
            "type": "http",
            "url": "https://web.example/mcp",
            "headers": {"X-Plain": "1", "Authorization": "Bearer ${WEB}", "X-Key": "${XK}"},
            "tools": {"allow": ["a", "b"], "deny": ["b"]},
            "enabled": False,
            "timeout_s": 90.5,
            "start_timeout_s": 20,
        },
        {
            "command": "x",
            "env": {"PLAIN": "${PLAIN:-}", "TABLE": "${TABLE:-}", "OWN": "v"},
            "start_timeout_s": 1.5,
        },
    ]


def test_gemini_variables_tools_and_milliseconds_come_over(tmp_path: Path) -> None:
    given = {
        "command": "x",
        "args": ["$HOME/x", "${BRACED}"],
        "env": {"K": "$KEY"},
        "timeout": 30000,
        "includeTools": ["a"],
        "excludeTools": ["b"],
    }
    assert read_one(tmp_path, "gemini", given) == Found(
        "one",
        {
            "command": "x",
            "args": ["${HOME}/x", "${BRACED}"],
            "env": {"K": "${KEY}"},
            "tools": {"allow": ["a"], "deny": ["b"]},
            "timeout_s": 30,
        },
    )


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("gemini", {"command": "x", "includeTools": ["a"], "timeout": 5000}),
        ("vscode", {"type": "sse", "url": "https://x.example/e", "headers": {"K": "${env:K}"}}),
        ("cursor", {"command": "x", "disabled": True}),
    ],
)
def test_what_comes_over_is_understood_without_a_warning(tmp_path: Path, key: str, entry: Entry) -> None:
    configuration = parse({"mcpServers": {"one": read_one(tmp_path, key, entry).entry}}, {"K": "v"})
    assert configuration.warnings == ()
    assert configuration.servers[0].disabled_reason is None
    assert configuration.servers[0].enabled is ("disabled" not in entry)


def test_what_only_the_client_can_fill_in_is_kept_and_warned_of(tmp_path: Path) -> None:
    entry = {"command": "${workspaceFolder}/x", "env": {"A": "${input:key}", "B": "${env:B}", "C": "${C:-d}"}}
    found = read_one(tmp_path, "vscode", entry)
    assert found.entry == entry
    assert found.foreign == ("${workspaceFolder}", "${input:key}")
    assert "${workspaceFolder}, ${input:key}" in found.warnings[0]


def test_keys_that_are_left_behind_are_named_without_their_values(tmp_path: Path) -> None:
    found = read_one(tmp_path, "cursor", {"command": "x", "envFile": "/home/ann/.env", "oauth": {"secret": "s3cret"}})
    assert found.entry == {"command": "x"}
    assert found.warnings == ("not taken over, as the gateway has nothing like it: envFile, oauth",)


def test_a_program_named_relative_to_its_project_keeps_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "app"

    def cwd(entry: Entry, within: Path | None) -> object:
        return read_one(tmp_path, "vscode", entry, within).entry.get("cwd")

    assert cwd({"command": "./run.sh"}, folder) == str(folder)
    assert cwd({"command": "node", "args": ["../x.js"]}, folder) == str(folder)
    assert cwd({"command": "node", "cwd": "tools"}, folder) == str(folder / "tools")
    assert cwd({"command": "node", "cwd": "/abs"}, folder) == "/abs"
    assert cwd({"command": "npx", "args": ["x"]}, folder) is None
    assert cwd({"command": "./run.sh"}, None) is None


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("toolatlas", {"url": "https://anywhere.example/mcp"}),
        ("gw", {"command": "toolatlas", "args": ["stdio"]}),
        ("gw", {"command": "/home/ann/.local/bin/toolatlas"}),
        ("gw", {"command": "C:\\bin\\toolatlas.exe"}),
        ("gw", {"command": "uvx", "args": ["toolatlas@latest", "stdio"]}),
        ("gw", {"url": "http://localhost:8765/mcp/"}),
        ("gw", {"command": "npx", "args": ["mcp-remote", "http://127.0.0.1:8765/mcp"]}),
    ],
)
def test_an_entry_that_leads_back_to_the_gateway_is_skipped(tmp_path: Path, name: str, entry: Entry) -> None:
    reading = read_json(tmp_path, "cursor", {name: entry, "other": {"command": "uvx", "args": ["atlas"]}})
    assert [found.name for found in reading.servers] == ["other"]
    assert reading.skipped == ((name, "it is this gateway"),)


def test_an_entry_that_is_no_server_is_skipped_with_the_reason(tmp_path: Path) -> None:
    reading = read_json(tmp_path, "cursor", {"a": {"env": {"K": "v"}}, "b": "text"})
    assert reading.servers == ()
    assert reading.skipped == tuple((name, "it has neither a command nor a url") for name in "ab")


def test_comments_in_a_clients_file_do_not_hinder_reading(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{// mine\n"servers": {"a": {"command": "x"},},}')
    assert [
        found.name for found in read_servers(find_client("vscode"), Place(path, ("servers",)), GATEWAY).servers
    ] == ["a"]


def test_local_servers_of_other_projects_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    projects = {
        "/src/app": {"mcpServers": {"mine": {"command": "x"}}},
        "/src/b": {"mcpServers": {"b": {"command": "x"}}},
    }
    path.write_text(json.dumps({"mcpServers": {"user": {"command": "x"}}, "projects": projects}))
    places = [Place(path, ("mcpServers",)), Place(path, ("projects", "/src/app", "mcpServers"))]
    readings = read_existing(find_client("claude-code"), [*places, Place(tmp_path / "none", ("mcpServers",))], GATEWAY)
    assert [[found.name for found in reading.servers] for reading in readings] == [["user"], ["mine"]]


@pytest.mark.parametrize("text", ['{"mcpServers": {', '{"mcpServers": []}', "[]"])
def test_a_file_that_cannot_be_understood_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"mcp\.json"):
        read_servers(find_client("cursor"), Place(path, ("mcpServers",)), GATEWAY)


def test_bad_toml_is_named_by_line_and_never_quoted(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"config\.toml, line 2, column \d+: not valid TOML") as caught:
        read_codex(tmp_path, "[mcp_servers.a]\ncommand = s3cret\n")
    assert "s3cret" not in str(caught.value)
