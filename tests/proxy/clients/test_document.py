from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from proxy.clients.base import Format
from proxy.clients.document import Change, Document
from proxy.errors import ConfigurationError

OURS = {"toolatlas": {"url": "http://gw/mcp"}}
JSON_TABLE = ("mcpServers",)
TOML_TABLE = ("mcp_servers",)


def change(path: Path, format: Format, *changes: Change) -> str:
    return Document.open(path, format).changed(changes).decode()


def json_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mcp.json"
    path.write_bytes(text.encode())
    return path


def toml_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("text", [None, "", "\n", "{}"])
def test_a_missing_or_empty_file_becomes_one_with_our_entry(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "mcp.json" if text is None else json_file(tmp_path, text)
    written = change(path, Format.JSON, Change(JSON_TABLE, OURS))
    assert json.loads(written) == {"mcpServers": OURS}
    assert written.startswith('{\n  "mcpServers"')


@pytest.mark.parametrize(
    "text",
    [
        '{\n    "theme": "dark",\n    "mcpServers": {}\n}',
        '{\n\t"theme": "dark"\n}\n',
        '{"theme": "dark", "n": 1.0}',
        '\ufeff{\r\n  "theme": "dark"\r\n}\r\n',
        '{\n  "theme": "é \\ud83d"\n}\n',
    ],
)
def test_the_manner_of_a_json_file_is_kept(tmp_path: Path, text: str) -> None:
    written = change(json_file(tmp_path, text), Format.JSON, Change(JSON_TABLE, OURS))
    before, after = json.loads(text.removeprefix("\ufeff")), json.loads(written.removeprefix("\ufeff"))
    assert after == {**before, "mcpServers": OURS}
    assert written.startswith(text[:8])
    assert written.endswith("\n") == text.endswith("\n")
    assert ("\r\n" in written, "\n" in written) == ("\r\n" in text, "\n" in text)


def test_nothing_is_written_anew_when_nothing_changes(tmp_path: Path) -> None:
    text = '{ // kept\n "mcpServers":{"toolatlas":{"url":"http://gw/mcp"}} }'
    assert change(json_file(tmp_path, text), Format.JSON, Change(JSON_TABLE, OURS)) == text


def test_comments_are_not_lost_but_answered_with_what_to_paste(tmp_path: Path) -> None:
    path = json_file(tmp_path, '{"mcpServers": {"a": {"env": {"K": "s3cret"}}}} // mine')
    with pytest.raises(ConfigurationError, match="has comments") as caught:
        change(path, Format.JSON, Change(JSON_TABLE, OURS, ["a"]))
    text = str(caught.value)
    assert '"url": "http://gw/mcp"' in text
    assert text.endswith("take these servers out: a")
    assert "s3cret" not in text


def test_a_key_written_twice_is_not_silently_made_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'a' twice"):
        change(json_file(tmp_path, '{"a": 1, "a": 2}'), Format.JSON, Change(JSON_TABLE, OURS))


CODEX = """\
# top
model = "x"  # why

[mcp_servers.a]
command = "a"   # odd   spacing

[mcp_servers.a.env]
K = "v"

# about history
[history]
persistence = "none"

[mcp_servers."b.c"]
url = "u"
# the end
"""


def test_toml_keeps_every_comment_that_is_not_in_a_server_taken_out(tmp_path: Path) -> None:
    written = change(toml_file(tmp_path, CODEX), Format.TOML, Change(TOML_TABLE, OURS, ["a", "b.c"]))
    assert tomllib.loads(written) == {"model": "x", "history": {"persistence": "none"}, "mcp_servers": OURS}
    for kept in ('# top\nmodel = "x"  # why\n', "# about history\n[history]\n", "# the end"):
        assert kept in written


def test_toml_with_an_entry_put_in_is_otherwise_the_same_text(tmp_path: Path) -> None:
    written = change(toml_file(tmp_path, CODEX), Format.TOML, Change(TOML_TABLE, OURS))
    assert written.replace('\n[mcp_servers.toolatlas]\nurl = "http://gw/mcp"\n', "").split() == CODEX.split()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        'mcp_servers = {a = {command = "x"}}\n',
        '[mcp_servers]\na.command = "x"\n',
        '[mcp_servers]\na = {command = "x"}\n\n[z]\ny = 1\n',
        '[mcp_servers.a]\ncommand = "x"\nargs = [\n  "1",\n  ["2"],\n]\n[z]\ny = 1\n',
        '[mcp_servers.toolatlas]\nurl = "old"\n\n[mcp_servers.a]\ncommand = "x"\n',
    ],
)
def test_every_way_to_write_the_table_in_toml_can_be_changed(tmp_path: Path, text: str) -> None:
    before = tomllib.loads(text)
    drop = ["a"] if "a" in before.get("mcp_servers", {}) else []
    written = change(toml_file(tmp_path, text), Format.TOML, Change(TOML_TABLE, OURS, drop))
    assert tomllib.loads(written) == {**before, "mcp_servers": OURS}


def test_toml_that_the_change_would_damage_is_refused_with_what_to_paste(tmp_path: Path) -> None:
    text = '[mcp_servers.a]\ncommand = """\n[z]\n"""\n[z]\ny = 1\n'
    with pytest.raises(ConfigurationError, match="cannot be changed safely") as caught:
        change(toml_file(tmp_path, text), Format.TOML, Change(TOML_TABLE, OURS, ["a"]))
    assert '[mcp_servers.toolatlas]\nurl = "http://gw/mcp"' in str(caught.value)
