"""Keys of an entry for servers reached over HTTP: headers that can be sent, headers passed on, and how to log in."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.servers.config import OAuthConfig, ServerConfig
from proxy.servers.configfile import parse
from proxy.servers.web import is_loopback, web_origin

URL = "https://mcp.example.com/mcp"
SECRET = "hunter2"


def read(**entry: Any) -> tuple[ServerConfig, tuple[str, ...]]:
    found = parse({"mcpServers": {"srv": {"url": URL} | entry}}, {"SECRET": SECRET, "ENDED": SECRET + "\n"})
    return found.servers[0], found.warnings


def test_forwarded_headers_are_read_in_lower_case_and_once() -> None:
    server, warnings = read(forward_headers=["X-User-Token", "x-user-token", " X-Forwarded-User "])
    assert server.forward_headers == ("x-user-token", "x-forwarded-user")
    assert (server.disabled_reason, warnings) == (None, ())
    assert read()[0].forward_headers == ()


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "proxy-authorization", "Cookie", "Host", "Content-Type", "content-length", "Connection"),
        *("Transfer-Encoding", "Upgrade", "TE", "Mcp-Session-Id", "mcp-protocol-version", "Origin", "Accept", "Sec-X"),
        *("Last-Event-ID", "Via", "Forwarded", "Set-Cookie", "Keep-Alive", "Trailer", "Expect", "Accept-Encoding"),
    ],
)
def test_headers_that_belong_to_somebody_else_are_never_forwarded(name: str) -> None:
    reason = read(forward_headers=[name])[0].disabled_reason
    assert reason is not None
    assert "forward_headers" in reason
    assert "never passed on" in reason
    assert repr(name.lower()) in reason


@pytest.mark.parametrize("given", ["X-User", [1.5, "a b"], ["x:y"], [""], ["é"], {"X-User": "y"}])
def test_what_is_no_list_of_header_names_disables_the_server(given: Any) -> None:
    assert "forward_headers" in (read(forward_headers=given)[0].disabled_reason or "")


def test_a_header_cannot_be_both_fixed_and_forwarded() -> None:
    reason = read(headers={"X-User": SECRET}, forward_headers=["x-user"])[0].disabled_reason or ""
    assert "also in 'headers'" in reason
    assert SECRET not in reason


def test_keys_of_remote_servers_are_not_used_for_programs_and_that_is_said() -> None:
    found = parse({"mcpServers": {"srv": {"command": "x", "forward_headers": ["X-User"], "oauth": {}}}}, {})
    (server,) = found.servers
    assert (server.disabled_reason, server.forward_headers) == (None, ())
    assert [
        any(f"'{key}' is not used" in warning for warning in found.warnings) for key in ("forward_headers", "oauth")
    ]
    assert len(found.warnings) == 2


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"X-Key": f"{SECRET}\r\nX-Admin: 1"}, "line break"),
        ({"X-Key": "${ENDED}"}, "line break"),
        ({"X-Key": f"{SECRET}\0"}, "control character"),
        ({"X-Key": f" {SECRET}"}, "blank"),
        ({f"X Key {SECRET}"[:5]: "x"}, "name"),
        ({"X-Key:": "x"}, "name"),
        ({"": "x"}, "name"),
    ],
)
def test_a_header_that_cannot_be_sent_disables_the_server_without_showing_its_value(
    headers: dict[str, str], why: str
) -> None:
    reason = read(headers=headers)[0].disabled_reason or ""
    assert "'headers." in reason
    assert why in reason
    assert SECRET not in reason


def test_how_to_log_in_is_read_with_variables_put_in() -> None:
    given = {
        "client_id": "toolatlas",
        "client_secret": "${SECRET}",
        "scopes": "read write",
        "redirect_port": 8123,
        "allowed_origins": ["https://Login.Example.com/", "http://127.0.0.1:9000"],
    }
    server, warnings = read(oauth=given)
    assert server.oauth == OAuthConfig(
        client_id="toolatlas",
        client_secret=SECRET,
        scopes=("read", "write"),
        redirect_port=8123,
        allowed_origins=frozenset({"https://login.example.com:443", "http://127.0.0.1:9000"}),
    )
    assert (server.disabled_reason, warnings) == (None, ())
    assert SECRET not in repr(server)
    assert read(oauth={"scopes": ["read"]})[0].oauth.scopes == ("read",)
    assert read()[0].oauth == OAuthConfig()


@pytest.mark.parametrize(
    ("oauth", "why"),
    [
        ({"client_secret": SECRET}, "needs 'oauth.client_id'"),
        ({"redirect_port": 0}, "'oauth.redirect_port'"),
        ({"redirect_port": "80"}, "'oauth.redirect_port'"),
        ({"scopes": 1}, "'oauth.scopes'"),
        ({"allowed_origins": ["login.example.com"]}, "'oauth.allowed_origins[0]'"),
        ({"allowed_origins": ["https://login.example.com/path"]}, "'oauth.allowed_origins[0]'"),
        ({"allowed_origins": "https://login.example.com"}, "'oauth.allowed_origins'"),
        ({"client_id": "${NOT_SET}"}, "'oauth.client_id'"),
        ("yes", "'oauth'"),
    ],
)
def test_a_login_that_cannot_be_understood_disables_the_server(oauth: Any, why: str) -> None:
    reason = read(oauth=oauth)[0].disabled_reason or ""
    assert why in reason
    assert SECRET not in reason


def test_an_unknown_key_of_the_login_is_warned_of() -> None:
    server, warnings = read(oauth={"client": "x"})
    assert server.usable
    assert "'oauth.client'" in warnings[0]


@pytest.mark.parametrize(
    "url", ["http://a\x01b/", "http://-é-.example/", "http://[::1/", "https:///mcp", "http://x:99999/"]
)
def test_a_url_that_cannot_be_sent_to_disables_the_server(url: str) -> None:
    assert "'url' has to begin" in (read(url=url)[0].disabled_reason or "")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTPS://Mcp.Example.com/x?y#z", "https://mcp.example.com:443"),
        ("http://user:pw@[::1]:8080/", "http://[::1]:8080"),
        ("http://bücher.example/", "http://xn--bcher-kva.example:80"),
    ],
)
def test_origins_are_compared_in_one_spelling(url: str, origin: str) -> None:
    assert web_origin(url) == origin


def test_loopback_is_what_a_url_says_by_itself() -> None:
    assert all(
        is_loopback(f"http://{host}/") for host in ("127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST:8")
    )
    assert not any(is_loopback(f"http://{host}/") for host in ("10.0.0.1", "localhost.example.com", "example.com"))
