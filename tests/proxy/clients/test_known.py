from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy.clients.base import Place, Surroundings
from proxy.clients.known import CLIENTS, find_client
from proxy.errors import ConfigurationError

HOME = Path("/home/ann")
PROJECT = Path("/src/app")


def around(platform: str = "linux", environ: Mapping[str, str] | None = None, project: Path = PROJECT) -> Surroundings:
    return Surroundings(HOME, environ or {}, platform, project)


def paths(key: str, surroundings: Surroundings) -> list[Path]:
    return [place.path for place in find_client(key).places(surroundings)]


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("darwin", {}, HOME / "Library/Application Support"),
        ("linux", {}, HOME / ".config"),
        ("linux", {"XDG_CONFIG_HOME": "/xdg"}, Path("/xdg")),
        ("win32", {"APPDATA": "/roaming"}, Path("/roaming")),
        ("win32", {}, HOME / "AppData/Roaming"),
    ],
)
def test_desktop_programs_keep_their_settings_where_the_platform_says(
    platform: str, environ: Mapping[str, str], folder: Path
) -> None:
    here = around(platform, environ)
    assert paths("claude-desktop", here) == [folder / "Claude" / "claude_desktop_config.json"]
    assert paths("vscode", here) == [folder / "Code" / "User" / "mcp.json", PROJECT / ".vscode" / "mcp.json"]


def test_claude_code_has_user_local_and_project_servers() -> None:
    assert list(find_client("claude-code").places(around())) == [
        Place(HOME / ".claude.json", ("mcpServers",)),
        Place(HOME / ".claude.json", ("projects", "/src/app", "mcpServers"), PROJECT),
        Place(PROJECT / ".mcp.json", ("mcpServers",), PROJECT),
    ]


@pytest.mark.parametrize(
    ("key", "variable", "file"),
    [("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"), ("codex", "CODEX_HOME", "config.toml")],
)
def test_a_variable_moves_the_folder_of_a_client(key: str, variable: str, file: str) -> None:
    assert paths(key, around(environ={variable: "/elsewhere"}))[0] == Path("/elsewhere") / file


@pytest.mark.parametrize(
    ("key", "own"),
    [("cursor", ".cursor/mcp.json"), ("codex", ".codex/config.toml"), ("gemini", ".gemini/settings.json")],
)
def test_user_comes_before_project_and_in_the_home_folder_both_are_one(key: str, own: str) -> None:
    assert paths(key, around()) == [HOME / own, PROJECT / own]
    assert paths(key, around(project=HOME)) == [HOME / own]


def test_a_named_file_is_read_like_the_known_place_it_is_or_else_by_the_usual_table(tmp_path: Path) -> None:
    client = find_client("claude-code")
    assert [place.table for place in client.at(HOME / ".claude.json", around())] == [
        ("mcpServers",),
        ("projects", "/src/app", "mcpServers"),
    ]
    assert client.at(tmp_path / "x.json", around()) == (Place(tmp_path / "x.json", ("mcpServers",)),)


def test_each_client_is_given_the_token_by_the_name_of_a_variable_in_its_own_way() -> None:
    url = "https://gw.example/mcp"
    entries = {client.key: client.http(url, "TOK") if client.http else None for client in CLIENTS}
    assert entries == {
        "claude-desktop": None,
        "claude-code": {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TOK}"}},
        "cursor": {"url": url, "headers": {"Authorization": "Bearer ${env:TOK}"}},
        "vscode": {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${env:TOK}"}},
        "codex": {"url": url, "bearer_token_env_var": "TOK", "tool_timeout_sec": 300},
        "gemini": {"httpUrl": url, "headers": {"Authorization": "Bearer ${TOK}"}},
    }


def test_without_a_token_no_client_is_given_a_header() -> None:
    entries = [client.http("https://gw.example/mcp", None) for client in CLIENTS if client.http]
    assert not any("headers" in entry or "bearer_token_env_var" in entry for entry in entries)


def test_an_unknown_client_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="claude-desktop, claude-code, cursor, vscode, codex, gemini"):
        find_client("emacs")
