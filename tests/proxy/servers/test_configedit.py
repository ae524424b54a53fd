"""Changing the configuration file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from proxy.errors import ConfigurationError
from proxy.servers.configedit import add_server, add_servers, remove_server

ENTRY = {"command": "uvx", "args": ["mcp-server"]}
OTHER = {"url": "https://example.org/mcp"}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(text, "utf-8")
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mcp.json"
    add_server(path, "files", ENTRY)
    assert json.loads(path.read_text("utf-8")) == {"mcpServers": {"files": ENTRY}}
    assert mode(path) == 0o600
    assert os.listdir(path.parent) == ["mcp.json"]


def test_everything_else_stays_in_its_order(tmp_path: Path) -> None:
    before = {
        "z": [1.5, 10**30, None],
        "mcpServers": {"b": {"unknown": "ü", "command": "x"}, "a": OTHER},
        "a": {"k": 1},
    }
    path = written(tmp_path, json.dumps(before, indent="\t"))
    add_server(path, "files", ENTRY)
    text = path.read_text("utf-8")
    before["mcpServers"]["files"] = ENTRY  # type: ignore[index]
    assert text == json.dumps(before, indent="\t", ensure_ascii=False) + "\n"


def test_adding_and_removing_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    add_servers(path, {"a": ENTRY, "b": {**OTHER, "note": "half a pair: \ud800"}})
    before = path.read_bytes()
    add_server(path, "c", ENTRY)
    remove_server(path, "c")
    assert path.read_bytes() == before


def test_the_mode_is_kept_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path = written(tmp_path, '{"mcpServers": {}}')
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    add_server(link, "files", ENTRY)
    assert link.is_symlink()
    assert "files" in path.read_text("utf-8")
    assert mode(path) == 0o640


def test_a_taken_name_is_refused_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    add_servers(path, {"files": ENTRY, "last": ENTRY})
    with pytest.raises(ConfigurationError, match="already has a server 'files'"):
        add_server(path, "files", OTHER)
    add_server(path, "files", OTHER, replace=True)
    assert list(json.loads(path.read_text("utf-8"))["mcpServers"].items()) == [("files", OTHER), ("last", ENTRY)]


def test_removing_what_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    with pytest.raises(ConfigurationError, match="has no servers"):
        remove_server(path, "files")
    assert not path.exists()
    add_server(path, "files", ENTRY)
    with pytest.raises(ConfigurationError, match=r"no server 'file'.*'files'"):
        remove_server(path, "file")


def test_conflicting_names_get_a_suffix_and_the_same_entry_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    add_servers(path, {"files": ENTRY, "files-2": OTHER})
    third = {"command": "third"}
    entries = {"files": third, "files-2": OTHER, "new": ENTRY}
    assert add_servers(path, entries) == {"files": "files-3", "files-2": "files-2", "new": "new"}
    before = path.read_bytes()
    inode = path.stat().st_ino
    assert add_servers(path, entries) == {"files": "files-3", "files-2": "files-2", "new": "new"}
    assert path.read_bytes() == before
    assert path.stat().st_ino == inode, "nothing changed, so nothing was written"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"servers": {"a": {}}}', ("servers",)),
        ('{"mcp": {"servers": {}}}', ("mcp", "servers")),
        ('{"mcp": {"mcpServers": {}}}', ("mcp", "mcpServers")),
        ('{"theme": "dark"}', ("mcpServers",)),
        ('{"mcpServers": {},}', ("mcpServers",)),
    ],
)
def test_a_server_is_added_where_the_file_has_its_servers(tmp_path: Path, text: str, place: tuple[str, ...]) -> None:
    path = written(tmp_path, text)
    add_server(path, "files", ENTRY)
    found = json.loads(path.read_text("utf-8"))
    for key in place:
        found = found[key]
    assert found["files"] == ENTRY


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"mcpServers": {} // mine\n}', "has comments, which a change would lose"),
        ('{/* "mine" */ "mcpServers": {}}', "has comments"),
        ('{"mcpServers": {"a": {}, "a": {}}}', "has 'mcpServers.a' twice"),
        ('{"mcpServers": {', "line 1, column 17"),
        ("", "is empty"),
        ("[]", "has to hold a JSON object"),
        ('{"mcpServers": []}', "'mcpServers' of .* has to be an object"),
    ],
)
def test_what_cannot_be_kept_is_not_touched(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError, match=says):
        add_server(path, "files", ENTRY)
    with pytest.raises(ConfigurationError, match=says):
        add_servers(path, {"files": ENTRY})
    with pytest.raises(ConfigurationError, match=says):
        remove_server(path, "a")
    assert path.read_text("utf-8") == text


def test_slashes_in_strings_are_no_comments(tmp_path: Path) -> None:
    path = written(tmp_path, '{"mcpServers": {"a": {"url": "http://h/*x*/", "b": "\\"//"}}}')
    add_server(path, "files", ENTRY)
    assert "http://h/*x*/" in path.read_text("utf-8")


def test_a_failed_write_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = written(tmp_path, '{"mcpServers": {}}')
    with pytest.raises(TypeError):
        add_server(path, "files", {"command": object()})
    blocked = path / "mcp.json"
    with pytest.raises(ConfigurationError, match="cannot be written"):
        add_server(blocked, "files", ENTRY)
    assert os.listdir(tmp_path) == ["mcp.json"]
    assert path.read_text("utf-8") == '{"mcpServers": {}}'
