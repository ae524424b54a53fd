"""What a client of a model's server accepts, and what it sends; each of its users has tests of its own over HTTP."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("openai", reason="a light installation asks no model")

from proxy.errors import ConfigurationError
from proxy.openai_client import is_loopback, openai_client
from tests.fixtures.openai_server import completion, openai_server

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:8.8.8.8", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_only_loopback_is_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        (URL, "two words\n", "the key of our endpoint has characters that a header cannot carry"),
        (URL, "", "the key of our endpoint"),
        (URL, "schlüssel", "the key of our endpoint"),
        ("http://somebody:s3cret@host/v1", None, "the URL of our endpoint has a user or password in it"),
        ("ftp://host/v1", None, "the URL of our endpoint is http://… or https://…, with a host"),
        ("/v1", None, "the URL of our endpoint is http"),
        ("http://", None, "the URL of our endpoint is http"),
        ("http://[::1", None, "the URL of our endpoint cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said_without_the_secret(url: str, key: str | None, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        openai_client(url, key, timeout_s=1.0, whose="our endpoint")
    assert "s3cret" not in str(refused.value)
    assert not key or key not in str(refused.value)


def test_without_the_package_it_is_said_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigurationError, match="our endpoint is asked with the openai package"):
        openai_client(URL, None, timeout_s=1.0, whose="our endpoint")


@pytest.mark.anyio
async def test_the_server_gets_the_key_that_was_set_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1" if name.endswith("PROXY") else "of-the-environment")
    async with openai_server(lambda asked: completion("fine")) as served:
        for key in ("ours", None):
            async with openai_client(served.url, key, timeout_s=10.0, whose="our endpoint") as client:
                await client.post("/chat/completions", cast_to=object, body={"model": "m", "messages": []})
    first, second = (asked.headers for asked in served.asked)
    assert (first.get("authorization"), second.get("authorization")) == ("Bearer ours", None)
    assert "of-the-environment" not in str([first, second])
    assert not [name for name in first if name.startswith(("openai-", "x-stainless"))]
