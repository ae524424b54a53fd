"""The keys of an authorization server, over real sockets: where they are looked for, how long kept, how often asked."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from proxy.endpoint.issuer import FRESH_S, KEPT_S, MAX_BYTES, RETRY_S, Issuer, IssuerUnreachable, metadata_urls
from tests.fixtures.issuer import METADATA_PATH, LoopbackIssuer, SigningKey

pytestmark = pytest.mark.anyio
OIDC_PATH = "/.well-known/openid-configuration"


@dataclass
class Clock:
    """Goes only when it is told to."""

    now: float = field(default_factory=time.monotonic)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[LoopbackIssuer]:
    async with LoopbackIssuer() as running:
        yield running


@pytest.fixture
def server(running: LoopbackIssuer) -> LoopbackIssuer:
    running.reset()
    return running


@pytest.mark.parametrize(
    ("path", "metadata_path"),
    [
        ("", METADATA_PATH),
        ("", OIDC_PATH),
        ("/", METADATA_PATH),
        ("/realms/a", f"{METADATA_PATH}/realms/a"),
        ("/realms/a", f"/realms/a{OIDC_PATH}"),
        ("/realms/a", f"{OIDC_PATH}/realms/a"),
    ],
)
async def test_keys_are_found_wherever_an_issuer_may_publish_its_metadata(path: str, metadata_path: str) -> None:
    server = LoopbackIssuer(path)
    server.metadata_path = metadata_path
    async with server:
        assert await Issuer(server.url).key(server.key.kid, "ES256") is not None
    assert metadata_path in server.asked


def test_every_place_is_asked_once() -> None:
    assert metadata_urls("https://as.example") == [
        f"https://as.example{METADATA_PATH}",
        f"https://as.example{OIDC_PATH}",
    ]


async def test_configured_keys_are_read_without_metadata(server: LoopbackIssuer) -> None:
    issuer = Issuer("https://elsewhere.example", f"{server.url}/keys")
    assert await issuer.key(server.key.kid, "ES256") is not None
    assert server.asked == ["/keys"]


@pytest.mark.parametrize("known", [True, False])
async def test_many_that_need_the_keys_at_once_share_one_fetch(server: LoopbackIssuer, known: bool) -> None:
    issuer = Issuer(server.url)
    found: list[object] = []

    async def ask() -> None:
        found.append(await issuer.key(server.key.kid if known else "unknown", "ES256"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask)
    assert len(found) == 50
    assert (None in found) is not known
    assert server.times_keys_were_read == 1


async def test_an_unknown_key_is_asked_for_but_not_again_and_again(server: LoopbackIssuer, clock: Clock) -> None:
    issuer = Issuer(server.url, clock=clock)
    for number in range(20):
        assert await issuer.key(f"unknown-{number}", "ES256") is None
        clock.now += RETRY_S / 100
    assert server.times_keys_were_read == 2
    clock.now += RETRY_S
    assert await issuer.key("unknown", "ES256") is None
    assert server.times_keys_were_read == 3


async def test_a_new_key_is_found_at_once_and_the_old_one_ends(server: LoopbackIssuer, clock: Clock) -> None:
    issuer = Issuer(server.url, clock=clock)
    old = server.key.kid
    assert await issuer.key(old, "ES256") is not None
    server.rotate()
    clock.now += 1
    assert await issuer.key(server.key.kid, "ES256") is not None
    assert await issuer.key(old, "ES256") is None


async def test_a_withdrawn_key_ends_although_nobody_shows_a_new_one(server: LoopbackIssuer, clock: Clock) -> None:
    issuer = Issuer(server.url, clock=clock)
    old = server.key.kid
    assert await issuer.key(old, "ES256") is not None
    server.rotate()
    clock.now += FRESH_S - 1
    assert await issuer.key(old, "ES256") is not None
    clock.now += 1
    assert await issuer.key(old, "ES256") is None


async def test_known_keys_serve_on_for_a_while_when_the_issuer_is_away(clock: Clock) -> None:
    server = LoopbackIssuer()
    issuer = Issuer(server.url, clock=clock)
    async with server:
        assert await issuer.key(server.key.kid, "ES256") is not None
    clock.now += FRESH_S
    assert await issuer.key(server.key.kid, "ES256") is not None
    with pytest.raises(IssuerUnreachable):
        await issuer.key("unknown", "ES256")
    clock.now += KEPT_S
    with pytest.raises(IssuerUnreachable):
        await issuer.key(server.key.kid, "ES256")
    async with server:
        clock.now += RETRY_S
        assert await issuer.key(server.key.kid, "ES256") is not None


async def test_an_issuer_that_failed_is_left_alone_for_a_moment(server: LoopbackIssuer, clock: Clock) -> None:
    server.metadata_path = "/nowhere"
    issuer = Issuer(server.url, clock=clock)
    for _ in range(5):
        with pytest.raises(IssuerUnreachable, match="answered 404"):
            await issuer.key(server.key.kid, "ES256")
    assert server.asked == [METADATA_PATH, OIDC_PATH]
    server.metadata_path = METADATA_PATH
    clock.now += RETRY_S
    assert await issuer.key(server.key.kid, "ES256") is not None


async def test_a_known_key_does_not_wait_for_an_issuer_that_hangs(server: LoopbackIssuer, clock: Clock) -> None:
    issuer = Issuer(server.url, clock=clock)
    assert await issuer.key(server.key.kid, "ES256") is not None
    server.holding = anyio.Event()
    clock.now += FRESH_S
    waited: list[object] = []

    async def wait() -> None:
        waited.append(await issuer.key("unknown", "ES256"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while server.times_keys_were_read < 2:
                await anyio.sleep(0.01)
            assert await issuer.key(server.key.kid, "ES256") is not None
            assert waited == []
            server.holding.set()
    assert waited == [None]


async def test_keys_on_another_origin_are_not_fetched_unless_configured(server: LoopbackIssuer) -> None:
    async with LoopbackIssuer() as other:
        server.metadata["jwks_uri"] = f"{other.url}/keys"
        with pytest.raises(IssuerUnreachable, match="set --oauth-jwks-url"):
            await Issuer(server.url).key(other.key.kid, "ES256")
        assert other.asked == []
        assert await Issuer(server.url, f"{other.url}/keys").key(other.key.kid, "ES256") is not None


async def test_redirects_are_not_followed(server: LoopbackIssuer) -> None:
    async with LoopbackIssuer() as other:
        server.redirect_keys_to = f"{other.url}/keys"
        with pytest.raises(IssuerUnreachable, match="answered 307"):
            await Issuer(server.url).key(other.key.kid, "ES256")
        assert other.asked == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"issuer": "https://evil.example"}, "is the metadata of 'https://evil.example'"),
        ({"issuer": None}, "is the metadata of None"),
        ({"jwks_uri": None}, "names no jwks_uri"),
        ({"jwks_uri": "http://[bad"}, "on another host"),
        ({"jwks_uri": "file:///etc/passwd"}, "on another host"),
    ],
)
async def test_metadata_that_cannot_be_trusted_is_said(
    server: LoopbackIssuer, changed: dict[str, Any], said: str
) -> None:
    server.metadata |= changed
    with pytest.raises(IssuerUnreachable, match="cannot be read") as raised:
        await Issuer(server.url).check()
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("[]", "is not a JSON object"),
        ('{"keys": 1}', "is no key set"),
        ("no JSON", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"keys": [], "more": "' + "x" * MAX_BYTES + '"}', "is larger than"),
    ],
    ids=["list", "number", "text", "deep", "large"],
)
async def test_what_is_no_key_set_is_said(server: LoopbackIssuer, body: str, said: str) -> None:
    server.keys_body = body
    with pytest.raises(IssuerUnreachable, match=said):
        await Issuer(server.url).check()


async def test_keys_of_other_kinds_and_broken_ones_are_passed_over(server: LoopbackIssuer) -> None:
    good = server.key.public
    other_use = {**good, "kid": "encrypt", "use": "enc"}
    other_algorithm = {**good, "kid": "other", "alg": "ES384"}
    symmetric = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}
    broken = {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"}
    unnamed = {"kty": "EC", "crv": "P-256", "x": 1, "y": None, "kid": "unnamed"}
    server.published = [other_use, other_algorithm, symmetric, broken, unnamed, {}, 7, good]  # type: ignore[list-item]
    issuer = Issuer(server.url)
    assert await issuer.key(server.key.kid, "ES256") is not None
    for kid, algorithm in [("encrypt", "ES256"), ("other", "ES256"), ("oct", "RS256"), ("oct", "ES256")]:
        assert await issuer.key(kid, algorithm) is None
    assert await issuer.key("broken", "RS256") is None
    assert await issuer.key("unnamed", "ES256") is None


async def test_a_token_that_names_no_key_gets_one_only_where_there_is_no_choice(server: LoopbackIssuer) -> None:
    assert await Issuer(server.url).key(None, "ES256") is not None
    server.published = [server.key.public, SigningKey.make().public]
    assert await Issuer(server.url).key(None, "ES256") is None
