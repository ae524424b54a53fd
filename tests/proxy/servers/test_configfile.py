"""Reading the configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.servers.config import Approve, Isolation, ServerConfig, TransportKind
from proxy.servers.configfile import Configuration, load, parse
from proxy.servers.entry import KNOWN_KEYS

SECRET = "s3cret-value"
ENVIRON = {"TOKEN": SECRET, "HOST": "example.org"}


def one(entry: object) -> ServerConfig:
    """The entry between two sound ones, which must never notice it."""
    sound = {"command": "true"}
    before, server, after = parse({"mcpServers": {"a": sound, "it": entry, "z": sound}}, ENVIRON).servers
    assert before.usable
    assert after.usable
    return server


def warned(entry: object) -> list[str]:
    return list(parse({"mcpServers": {"it": entry}}, ENVIRON).warnings)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(text, "utf-8")
    return path


def test_a_stdio_entry_is_read_whole() -> None:
    server = one(
        {
            "command": "uvx",
            "args": ["mcp-server", "--token=${TOKEN}", 8080],
            "env": {"TOKEN": "${env:TOKEN}", "PORT": 80, "DEBUG": True, "RATE": 0.5},
            "cwd": "/srv/${HOST}",
            "description": "Does things",
            "tools": {"allow": ["read_*", "list"], "deny": "delete_*"},
            "approve": "always",
            "isolation": "session",
            "timeout_s": 20,
            "start_timeout_s": 5.5,
            "idle_s": 60,
        }
    )
    assert server == ServerConfig(
        name="it",
        transport=TransportKind.STDIO,
        command="uvx",
        args=("mcp-server", f"--token={SECRET}", "8080"),
        env={"TOKEN": SECRET, "PORT": "80", "DEBUG": "true", "RATE": "0.5"},
        cwd="/srv/example.org",
        description="Does things",
        allow=("read_*", "list"),
        deny=("delete_*",),
        approve=Approve.ALWAYS,
        isolation=Isolation.SESSION,
        timeout_s=20.0,
        start_timeout_s=5.5,
        idle_s=60.0,
    )


def test_an_http_entry_is_read_whole() -> None:
    server = one({"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}", "X-Try": 1}})
    assert server == ServerConfig(
        name="it",
        transport=TransportKind.HTTP,
        url="https://example.org/mcp",
        headers={"Authorization": f"Bearer {SECRET}", "X-Try": "1"},
    )


def test_the_defaults_are_those_of_server_config() -> None:
    assert one({"command": "uvx"}) == ServerConfig(name="it", transport=TransportKind.STDIO, command="uvx")


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, TransportKind.STDIO),
        ({"command": "x", "type": "stdio"}, TransportKind.STDIO),
        ({"command": "x", "transport": "local"}, TransportKind.STDIO),
        ({"url": "http://h/mcp"}, TransportKind.HTTP),
        ({"url": "http://h/sse"}, TransportKind.SSE),
        ({"url": "http://h/sse/?key=1"}, TransportKind.SSE),
        ({"url": "http://h/mcp?next=/sse"}, TransportKind.HTTP),
        ({"url": "${SET:-http://h/sse}"}, TransportKind.SSE),
        ({"serverUrl": "http://h/sse"}, TransportKind.SSE),
        ({"serverUrl": "http://h/mcp"}, TransportKind.HTTP),
        ({"httpUrl": "http://h/sse"}, TransportKind.HTTP),
        ({"url": "http://h/sse", "type": "http"}, TransportKind.HTTP),
        ({"url": "http://h/mcp", "type": "sse"}, TransportKind.SSE),
        ({"url": "http://h/mcp", "type": "streamable-http"}, TransportKind.HTTP),
        ({"url": "http://h/mcp", "type": "streamable_http"}, TransportKind.HTTP),
        ({"url": "http://h/mcp", "transport": "streamableHttp"}, TransportKind.HTTP),
        ({"url": "http://h/mcp", "type": "http", "transport": "streamable-http"}, TransportKind.HTTP),
        ({"url": "http://h/mcp", "command": "x", "type": "http"}, TransportKind.HTTP),
    ],
)
def test_the_transport_is_taken_or_inferred(entry: dict[str, object], transport: TransportKind) -> None:
    server = one(entry)
    assert server.usable
    assert server.transport is transport
    assert bool(server.url) is (transport is not TransportKind.STDIO)
    assert bool(server.command) is (transport is TransportKind.STDIO)


def test_the_command_may_be_a_list() -> None:
    server = one({"command": ["npx", "-y", "pkg"], "args": ["--flag"]})
    assert (server.command, server.args) == ("npx", ("-y", "pkg", "--flag"))


@pytest.mark.parametrize(
    ("entry", "enabled"),
    [
        ({}, True),
        ({"enabled": True}, True),
        ({"enabled": False}, False),
        ({"disabled": True}, False),
        ({"disabled": False}, True),
        ({"enabled": True, "disabled": True}, False),
    ],
)
def test_a_server_can_be_turned_off(entry: dict[str, object], enabled: bool) -> None:
    server = one({"command": "x", **entry})
    assert server.enabled is enabled
    assert server.disabled_reason is None


@pytest.mark.parametrize(
    ("entry", "seconds"),
    [
        ({"timeout": 60}, 60.0),
        ({"timeout": 1000}, 1000.0),
        ({"timeout": 30000}, 30.0),
        ({"timeout_s": 3000}, 3000.0),
        ({"timeout_s": 5, "timeout": 9}, 5.0),
    ],
)
def test_a_timeout_above_1000_is_in_milliseconds(entry: dict[str, object], seconds: float) -> None:
    assert one({"command": "x", **entry}).timeout_s == seconds
    assert warned({"command": "x", **entry}) == []


def test_null_means_not_given() -> None:
    entry = {"command": "x", "args": None, "env": None, "cwd": None, "url": None, "tools": {"allow": None}}
    assert one(entry) == ServerConfig(name="it", transport=TransportKind.STDIO, command="x")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "the entry has neither 'command' (to start a server) nor 'url' (to connect to one)"),
        ([SECRET], "the entry has to be an object, but is an array"),
        (SECRET, "the entry has to be an object, but is a string"),
        (None, "the entry has to be an object, but is null"),
        ({"command": ""}, "'command' has to name a program, but is empty"),
        ({"command": []}, "'command' has to name a program, but is empty"),
        ({"command": "${NONE:-}"}, "'command' has to name a program, but is empty"),
        ({"command": 5}, "'command' has to be an array of strings, but is a number"),
        ({"command": "x", "args": SECRET}, "'args' has to be an array of strings, but is a string"),
        ({"command": "x", "args": ["a", {"b": 1}]}, "'args[1]' has to be a string, but is an object"),
        ({"command": "x", "env": [SECRET]}, "'env' has to be an object, but is an array"),
        ({"command": "x", "env": {"KEY": [SECRET]}}, "'env.KEY' has to be a string, but is an array"),
        ({"command": "x", "env": {"KEY": None}}, "'env.KEY' has to be a string, but is null"),
        ({"command": "x", "cwd": 1}, "'cwd' has to be a string, but is a number"),
        ({"command": "x", "type": SECRET}, "'type' has to be 'stdio', 'http' or 'sse', but is another string"),
        ({"command": "x", "transport": 1}, "'transport' has to be 'stdio', 'http' or 'sse', but is a number"),
        ({"type": "http", "command": "x"}, "a server of type http needs 'url', which the entry does not have"),
        ({"type": "stdio", "url": "http://h"}, "a server of type stdio needs 'command', which the entry does not have"),
        (
            {"url": "http://h", "type": "http", "transport": "sse"},
            "'type' and 'transport' name different transports; remove one of them",
        ),
        ({"url": f"ftp://{SECRET}"}, "'url' has to begin with http:// or https:// and name a host, but does not"),
        ({"url": f"http:{SECRET}"}, "'url' has to begin with http:// or https:// and name a host, but does not"),
        ({"url": "http://[::1"}, "'url' has to begin with http:// or https:// and name a host, but does not"),
        ({"url": ""}, "'url' has to begin with http:// or https:// and name a host, but does not"),
        ({"httpUrl": SECRET}, "'httpUrl' has to begin with http:// or https:// and name a host, but does not"),
        ({"url": 5}, "'url' has to be a string, but is a number"),
        ({"url": "http://h", "headers": SECRET}, "'headers' has to be an object, but is a string"),
        ({"url": "http://h", "headers": {"A": {}}}, "'headers.A' has to be a string, but is an object"),
        ({"command": "x", "approve": SECRET},
         "'approve' has to be 'never' or 'destructive' or 'always', but is another string"),
        ({"command": "x", "approve": True},
         "'approve' has to be 'never' or 'destructive' or 'always', but is true or false"),
        ({"command": "x", "isolation": "none"},
         "'isolation' has to be 'auto' or 'shared' or 'session', but is another string"),
        ({"command": "x", "enabled": "no"}, "'enabled' has to be true or false, but is a string"),
        ({"command": "x", "disabled": 0}, "'disabled' has to be true or false, but is a number"),
        ({"command": "x", "description": 1}, "'description' has to be a string, but is a number"),
        ({"command": "x", "tools": ["a"]}, "'tools' has to be an object, but is an array"),
        ({"command": "x", "tools": {"allow": 1}}, "'tools.allow' has to be an array of strings, but is a number"),
        ({"command": "x", "tools": {"deny": [None]}}, "'tools.deny[0]' has to be a string, but is null"),
        ({"command": "x", "tools": {"denied": "a"}}, "'tools' may have 'allow' and 'deny', but has 'denied'"),
        ({"command": "x", "timeout_s": 0}, "'timeout_s' has to be a number of seconds above 0, but is a number"),
        ({"command": "x", "timeout": True}, "'timeout' has to be a number of seconds above 0, but is true or false"),
        ({"command": "x", "idle_s": "9"}, "'idle_s' has to be a number of seconds above 0, but is a string"),
        ({"command": "x", "idle_s": float("inf")}, "'idle_s' has to be a number of seconds above 0, but is a number"),
        ({"command": "x", "start_timeout_s": float("nan")},
         "'start_timeout_s' has to be a number of seconds above 0, but is a number"),
        ({"command": "x", "idle_s": 10**400}, "'idle_s' has to be a number of seconds above 0, but is a number"),
    ],
)  # fmt: skip
def test_an_entry_that_does_not_fit_is_disabled_with_its_reason(entry: object, reason: str) -> None:
    server = one(entry)
    assert not server.usable
    assert server.disabled_reason == reason


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"command": "${NONE}"}, "command"),
        ({"command": "x", "args": ["a", "${NONE}"]}, "args[1]"),
        ({"command": "x", "env": {"A": "${NONE}"}}, "env.A"),
        ({"command": "x", "cwd": "${NONE}"}, "cwd"),
        ({"url": "https://${NONE}/mcp"}, "url"),
        ({"url": "https://h", "headers": {"A": "${NONE}"}}, "headers.A"),
    ],
)
def test_a_missing_variable_disables_only_its_server(entry: dict[str, object], key: str) -> None:
    reason = one(entry).disabled_reason or ""
    assert reason.startswith(f"'{key}': the environment variable NONE is not set")
    assert reason.count("NONE is not set") == 1


def test_all_problems_of_an_entry_are_told_at_once() -> None:
    reason = one({"command": "x", "env": {"A": "${ONE}", "B": "${input:b}"}, "approve": 1}).disabled_reason or ""
    assert "'env.A'" in reason
    assert "${input:b} is not supported here" in reason
    assert "'approve'" in reason


def test_a_server_without_a_name_is_disabled() -> None:
    (server,) = parse({"mcpServers": {"": {"command": "x"}}}, {}).servers
    assert server.disabled_reason == "the name of the server is empty"


def test_an_unknown_key_is_warned_of_with_the_nearest_known_one() -> None:
    assert warned({"command": "x", "aprove": SECRET, "colour": 1}) == [
        "server 'it': unknown key 'aprove' is ignored; did you mean 'approve'?",
        "server 'it': unknown key 'colour' is ignored",
    ]


def test_a_key_of_the_other_transport_is_warned_of() -> None:
    assert warned({"command": "x", "url": "http://h"}) == [
        "server 'it': 'url' is not used: this is a server of type stdio with 'command'"
    ]
    assert warned({"httpUrl": "http://h", "url": "http://i", "env": {}}) == [
        "server 'it': 'env' is not used: this is a server of type http with 'httpUrl'",
        "server 'it': 'url' is not used: this is a server of type http with 'httpUrl'",
    ]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda servers: {"mcpServers": servers},
        lambda servers: {"servers": servers, "inputs": []},
        lambda servers: {"mcp": {"mcpServers": servers}, "editor.fontSize": 12},
        lambda servers: {"mcp": {"servers": servers}},
        lambda servers: {"mcpServers": servers, "mcp": "something else"},
    ],
)
def test_the_servers_are_found_where_clients_write_them(wrap: Any) -> None:
    found = parse(wrap({"b": {"command": "x"}, "a": {"command": "y"}}), {})
    assert [server.name for server in found.servers] == ["b", "a"]
    assert found.warnings == ()


def test_of_two_places_the_first_counts_and_the_other_is_warned_of() -> None:
    found = parse({"servers": {"b": {"command": "x"}}, "mcpServers": {"a": {"command": "x"}}}, {})
    assert [server.name for server in found.servers] == ["a"]
    assert found.warnings == ("'servers' is not read, because there is also 'mcpServers'",)


def test_no_servers_are_fine_with_a_warning() -> None:
    assert parse({"mcpServers": {}}, {}) == Configuration(None, (), ("'mcpServers' is empty: there are no servers",))


def test_comments_and_trailing_commas_are_understood(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """\ufeff{
          // the "first" one
          "mcpServers": {
            "files": {"command": "uvx", "args": ["a//b", "/* c */"],}, /* "x": {} */
          },
        }""",
    )
    found = load(path, {})
    assert found == Configuration(
        path,
        (ServerConfig(name="files", transport=TransportKind.STDIO, command="uvx", args=("a//b", "/* c */")),),
        (),
    )


@pytest.mark.parametrize("comma", ["", ","])
def test_a_name_or_key_written_twice_is_warned_of(tmp_path: Path, comma: str) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y", "command": "z"}COMMA}}'.replace("COMMA", comma)
    found = load(written(tmp_path, text), {})
    assert [server.command for server in found.servers] == ["z"]
    assert found.warnings == (
        "'mcpServers.a' is written twice; only the last one counts",
        "'mcpServers.a.command' is written twice; only the last one counts",
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"mcpServers": {\n  "a" {"command": "s3cret-value"}\n}}', "line 2, column 7"),
        ('{// c\n"mcpServers": {\n  "a": {"env": {"T": "s3cret-value" "U": 1}}\n}}', "line 3, column 37"),
        ('{"mcpServers": {"a": {"command": "s3cret-value"', "ends too early"),
        ('{"mcpServers": {}} s3cret-value', "line 1, column 20"),
        ('{"mcpServers": {"a": {\n"command": "C:\\Program Files\\x"}}}', "line 2, column 15: not valid JSON, write"),
        ('{"a": %s}' % ("1" * 5000), "not valid JSON"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_json_says_where(tmp_path: Path, text: str, place: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        load(path, {})
    assert str(caught.value).startswith(str(path))
    assert place in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", [r"C:\Program Files", r"C:\users", r"C:\x.exe", r"a\\b\n\u00e4\q"])
def test_a_lost_backslash_is_explained(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write \\\\ for one backslash"):
        load(written(tmp_path, '{"mcpServers": {"a": {"command": "VALUE"}}}'.replace("VALUE", value)), {})


def test_escapes_that_json_has_are_left_alone_beside_comments(tmp_path: Path) -> None:
    text = r'{"mcpServers": {"a": {"command": "C:\\Program\u0020Files\/x\"\t"}}} // C:\Program'
    assert load(written(tmp_path, text), {}).servers[0].command == 'C:\\Program Files/x"\t'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("[1]", "has to be a JSON object like .* but is an array"),
        ("null", "but is null"),
        ("{}", 'has no "mcpServers". Write the servers like'),
        ('{"mcp_servers": {}}', "It has the key 'mcp_servers': was that meant?"),
        ('{"mcpServers": []}', "'mcpServers' of .* has to be an object .* but is an array"),
        ('{"mcp": {"servers": 1}}', "'mcp.servers' of .* but is a number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_of_another_shape_says_what_is_needed(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError, match=says) as caught:
        load(path, {})
    assert str(path) in str(caught.value)


def test_a_missing_or_unreadable_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no configuration file .*none\.json\. Create it"):
        load(tmp_path / "none.json", {})
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load(tmp_path, {})
    latin = tmp_path / "latin.json"
    latin.write_bytes('{"ä": 1}'.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"not UTF-8 text \(byte 2\)"):
        load(latin, {})


def test_no_value_reaches_a_text_or_a_repr() -> None:
    entry = {
        "command": ["x"], "url": SECRET, "type": "http", "headers": {"A": [SECRET], "B": SECRET}, "approve": SECRET,
        "tools": SECRET, "timeout_s": SECRET, "enabled": SECRET, "surprise": SECRET, "cwd": SECRET,
    }  # fmt: skip
    found = parse({"mcpServers": {"it": entry, "ok": {"command": "x", "env": {"A": SECRET}}}}, ENVIRON)
    assert SECRET not in repr(found)


TEXT = st.sampled_from(["", "x", SECRET, "http://h/", "ftp://h", "${TOKEN}", "${NONE}", "sse", "never", "session"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["allow", "deny", "A"]), inner),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(KNOWN_KEYS)), JSON, max_size=8))
def test_no_entry_whatever_breaks_reading(entry: dict[str, object]) -> None:
    server = one(entry)
    assert server.disabled_reason or server.command or server.url
    assert server.timeout_s > 0
    assert all(isinstance(text, str) for text in [*server.args, *server.env.values(), *server.headers.values()])
    assert SECRET not in (server.disabled_reason or "")
