"""What can be set from outside: values that cannot be meant are refused at the start, by the name of their flag."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigurationError
from proxy.settings import OAuth, Settings, check_explore, check_public_url, check_router, check_sure


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"issuers": ("as.example",)}, "--oauth-issuer"),
        ({"issuers": ("ftp://as.example",)}, "--oauth-issuer"),
        ({"issuers": ("https://",)}, "--oauth-issuer"),
        ({"issuers": ("https://user:secret@as.example",)}, "--oauth-issuer"),
        ({"issuers": ("https://as.example?tenant=1",)}, "--oauth-issuer"),
        ({"issuers": ("https://as.example#x",)}, "--oauth-issuer"),
        ({"issuers": ("https://as.example:port",)}, "--oauth-issuer"),
        ({"issuers": ("https://[as",)}, "--oauth-issuer"),
        ({"issuers": ('https://as.example/"',)}, "--oauth-issuer"),
        ({"issuers": ("https://as.example/ x",)}, "--oauth-issuer"),
        ({"issuers": ("http://as.example",)}, "begins with https"),
        ({"issuers": ("https://a.example", "https://b.example"), "jwks_url": "https://a.example/keys"}, "exactly one"),
        ({"jwks_url": "keys"}, "--oauth-jwks-url"),
        ({"scopes": ("a b",)}, "'a b'"),
        ({"scopes": ('a"',)}, 'a"'),
        ({"scopes": ("",)}, "''"),
        ({"audience": "a\nb"}, "audience"),
    ],
)
def test_what_cannot_be_an_issuer_or_a_scope_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        OAuth(**{"issuers": ("https://as.example",), **changed})
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"issuers": ("http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost")},
        {"issuers": ("https://as.example/realms/a/",)},
        {"jwks_url": "http://keycloak:8080/keys?use=sig"},
        {"scopes": ("mcp:use", "https://api.example/read"), "audience": "api://tools"},
    ],
)
def test_what_owners_do_have_is_taken(changed: dict[str, Any]) -> None:
    OAuth(**{"issuers": ("https://as.example",), **changed})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("https://tools.example.com/", "https://tools.example.com"),
        ("http://gateway:8765/tools", "http://gateway:8765/tools"),
    ],
)
def test_the_public_address_is_kept_without_a_slash(given: str | None, kept: str | None) -> None:
    assert check_public_url(given) == kept


@pytest.mark.parametrize("given", ["tools.example.com", "https://tools.example.com/?a=1", "https://x.example/mcp", ""])
def test_what_cannot_be_the_public_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="--public-url"):
        check_public_url(given)


@pytest.mark.parametrize(
    ("changed", "guarded"),
    [
        ({}, False),
        ({"public_url": "http://127.0.0.1:8765"}, False),
        ({"public_url": "https://tools.example.com"}, True),
        ({"host": "0.0.0.0"}, True),
        ({"oauth": OAuth(issuers=("https://as.example",))}, True),
    ],
)
def test_a_token_is_needed_wherever_others_may_come_from(changed: dict[str, Any], guarded: bool) -> None:
    folder = Path("/nowhere")
    assert Settings(config=folder, state_dir=folder, cache_dir=folder, **changed).guarded is guarded


@pytest.mark.parametrize("share", [-0.01, 0.51, float("nan")])
def test_most_orders_cannot_be_left_to_chance(share: float) -> None:
    with pytest.raises(ConfigurationError, match="--explore is a share between 0 and"):
        check_explore(share)
    assert [check_explore(good) for good in (0.0, 0.02, 0.5)] == [0.0, 0.02, 0.5]


def test_two_tools_are_not_surer_than_one() -> None:
    assert check_sure(0.4, 0.4) == 0.4
    for two in (0.3, float("nan")):
        with pytest.raises(ConfigurationError, match="--sure-two is at least --sure-one"):
            check_sure(0.4, two)


@pytest.mark.parametrize(
    ("router", "second"),
    [
        ("auto", None),
        ("lexical", None),
        ("fused", None),
        ("slm:/models/small", "slm:/models/small"),
        ("endpoint:http://127.0.0.1:8000/v1#qwen", "endpoint:http://127.0.0.1:8000/v1#qwen"),
    ],
)
def test_a_router_may_name_what_reorders(tmp_path: Path, router: str, second: str | None) -> None:
    folders = {"config": tmp_path, "state_dir": tmp_path, "cache_dir": tmp_path}
    assert Settings(**folders, router=check_router(router)).router_second == second


@pytest.mark.parametrize(
    ("router", "said"),
    [
        ("slm", "slm:MODEL, endpoint:URL#MODEL, not 'slm'"),
        ("slm:", "not 'slm:'"),
        ("magic:x", "not 'magic:x'"),
        ("endpoint:http://127.0.0.1/v1", "endpoint:URL#MODEL"),
        ("endpoint:#qwen", "--router endpoint: is a web address"),
        ("endpoint:http://user:secret@host/v1#qwen", "--router endpoint: is a web address"),
    ],
)
def test_a_router_that_cannot_be_meant_is_refused(router: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        check_router(router)
