"""Access tokens at the gate: whose are taken, what a refusal says, and what clients are told of where to get one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from proxy.endpoint.authentication import UNAUTHORIZED, BearerGate, agent_label
from proxy.endpoint.issuer import Issuer
from proxy.endpoint.resource_server import MAX_TOKEN_BYTES, ResourceServer
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.settings import OAuth, Settings
from tests.fixtures.issuer import RESOURCE, LoopbackIssuer, SigningKey

pytestmark = pytest.mark.anyio
BASE = RESOURCE.removesuffix("/mcp")
METADATA = f"{BASE}/.well-known/oauth-protected-resource/mcp"


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[LoopbackIssuer]:
    async with LoopbackIssuer() as running:
        yield running


@pytest.fixture
def issuer(running: LoopbackIssuer) -> LoopbackIssuer:
    running.reset()
    return running


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "tokens.json")


class _Who:
    """Tells who came, and which headers arrived."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = [name.decode() for name, _ in scope["headers"]]
        body = json.dumps({"agent": agent_label(scope), "headers": names, "seen": repr(vars(scope["user"]))}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


def client(tokens: TokenStore, resource_server: ResourceServer) -> httpx2.AsyncClient:
    """An agent before a gate with the routes of the gateway; behind it somebody tells who came."""
    gate = BearerGate(_Who(), tokens, True, resource_server)

    class _Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await gate(scope, receive, send)

    routes = [Route(path, _Endpoint()) for path in ("/mcp", "/mcp/{server}")]
    app = Starlette(routes=[*routes, *resource_server.routes()])
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def ask(tokens: TokenStore, resource_server: ResourceServer, token: str, path: str = "/mcp") -> httpx2.Response:
    async with client(tokens, resource_server) as http:
        return await http.get(path, headers=bearer(token))


def encoded(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def handmade(header: Mapping[str, Any], claims: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A JWT that no library would make."""
    signed = encoded(header) + b"." + encoded(claims)
    return (signed + b"." + base64.urlsafe_b64encode(sign(signed)).rstrip(b"=")).decode()


def claims_of(issuer: LoopbackIssuer) -> dict[str, Any]:
    return jwt.decode(issuer.token(), options={"verify_signature": False})


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "EdDSA", "RS256", "PS256"])
async def test_a_token_of_the_issuer_is_taken(issuer: LoopbackIssuer, tokens: TokenStore, algorithm: str) -> None:
    issuer.key = SigningKey.make(algorithm)
    issuer.published.append(issuer.key.public)
    answer = await ask(tokens, ResourceServer(BASE, [Issuer(issuer.url)]), issuer.token("alice"))
    assert answer.status_code == 200
    assert answer.json()["agent"] == f"{issuer.url} editor alice"


@pytest.mark.parametrize(
    ("claims", "header"),
    [
        ({"aud": ["https://other.example", RESOURCE]}, {}),
        ({"aud": RESOURCE + "/"}, {}),
        ({"scope": "mcp:use other"}, {}),
        ({"scope": None, "scp": ["other", "mcp:use"]}, {}),
        ({"scope": None, "scp": "mcp:use"}, {}),
        ({"iat": None}, {}),
        ({}, {"typ": "JWT"}),
        ({}, {"typ": None}),
        ({}, {"kid": None}),
    ],
)
async def test_what_issuers_write_differently_is_taken(
    issuer: LoopbackIssuer, tokens: TokenStore, claims: dict[str, Any], header: dict[str, Any]
) -> None:
    resource_server = ResourceServer(BASE, [Issuer(issuer.url)], scopes=("mcp:use",))
    token = issuer.token(**{"scope": "mcp:use", **claims}, header=header)
    assert (await ask(tokens, resource_server, token)).status_code == 200


async def test_clocks_may_differ_by_a_few_seconds(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    now = int(time.time())
    token = issuer.token(iat=now + 10, nbf=now + 10, exp=now - 10)
    assert (await ask(tokens, ResourceServer(BASE, [Issuer(issuer.url)]), token)).status_code == 200


def _unsigned(issuer: LoopbackIssuer) -> str:
    return handmade({"alg": "none", "kid": issuer.key.kid}, claims_of(issuer), lambda _: b"")


def _stripped(issuer: LoopbackIssuer) -> str:
    return issuer.token().rpartition(".")[0] + "."


def _hmac_with_public_pem(issuer: LoopbackIssuer) -> str:
    pem = issuer.key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256", "kid": issuer.key.kid}
    return handmade(header, claims_of(issuer), lambda signed: hmac.digest(pem, signed, "sha256"))


def _hmac_with_published_key(issuer: LoopbackIssuer) -> str:
    issuer.published.append({"kty": "oct", "kid": "shared", "k": encoded("secret").decode()})
    secret = json.dumps("secret").encode()
    header = {"alg": "HS256", "kid": "shared"}
    return handmade(header, claims_of(issuer), lambda signed: hmac.new(secret, signed, hashlib.sha256).digest())


def _other_key_of_that_name(issuer: LoopbackIssuer) -> str:
    return issuer.token(key=SigningKey(SigningKey.make().private, "ES256", issuer.key.kid))


def _key_in_the_token(issuer: LoopbackIssuer) -> str:
    own = SigningKey.make()
    return issuer.token(key=own, header={"kid": issuer.key.kid, "jwk": own.public})


def _other_algorithm_of_the_key(issuer: LoopbackIssuer) -> str:
    key = SigningKey.make("RS256")
    issuer.published.append({**key.public, "alg": "RS256"})
    return issuer.token(key=SigningKey(key.private, "PS256", key.kid))


def _changed_claims(issuer: LoopbackIssuer) -> str:
    header, _, signature = issuer.token().split(".")
    return f"{header}.{encoded({**claims_of(issuer), 'sub': 'admin'}).decode()}.{signature}"


def _deep(issuer: LoopbackIssuer) -> str:
    deep = base64.urlsafe_b64encode(b"[" * 5000).decode()
    return f"{deep}.{deep}."


REFUSED: dict[str, tuple[Callable[[LoopbackIssuer], str], str]] = {
    "for somebody else": (lambda it: it.token(aud="https://other.example/mcp"), "It is not made out to"),
    "for the client": (lambda it: it.token(aud="editor"), "It is not made out to"),
    "for one server": (lambda it: it.token(aud=f"{RESOURCE}/github"), "It is not made out to"),
    "for the host": (lambda it: it.token(aud=BASE), "It is not made out to"),
    "for a longer name": (lambda it: it.token(aud=f"{RESOURCE}.evil.example"), "It is not made out to"),
    "for nobody": (lambda it: it.token(aud=None), "It lacks one of the claims"),
    "for an empty list": (lambda it: it.token(aud=[]), "It lacks one of the claims"),
    "audience of a wrong kind": (lambda it: it.token(aud={"mcp": RESOURCE}), "It is not made out to"),
    "other issuer": (lambda it: it.token(iss="https://evil.example"), "Its issuer is not"),
    "issuer with a slash": (lambda it: it.token(iss=f"{it.url}/"), "Its issuer is not"),
    "no issuer": (lambda it: it.token(iss=None), "Its issuer is not"),
    "expired": (lambda it: it.token(exp=int(time.time()) - 60), "It has expired."),
    "never expires": (lambda it: it.token(exp=None), "It lacks one of the claims"),
    "expires at no time": (lambda it: it.token(exp="soon"), "One of its claims is malformed."),
    "not yet valid": (lambda it: it.token(nbf=int(time.time()) + 60), "It is not valid yet."),
    "from the future": (lambda it: it.token(iat=int(time.time()) + 60), "It is not valid yet."),
    "no subject": (lambda it: it.token(sub=None), "It lacks one of the claims"),
    "empty subject": (lambda it: it.token(sub=""), "It names nobody."),
    "number as subject": (lambda it: it.token(sub=7), "One of its claims is malformed."),
    "alg none": (_unsigned, "It is not signed in a way that this gateway takes."),
    "signature cut off": (_stripped, "Its signature is wrong."),
    "HMAC with the public key": (_hmac_with_public_pem, "It is not signed in a way"),
    "HMAC with a published key": (_hmac_with_published_key, "It is not signed in a way"),
    "other key of that name": (_other_key_of_that_name, "Its signature is wrong."),
    "key in the token": (_key_in_the_token, "Its signature is wrong."),
    "claims changed": (_changed_claims, "Its signature is wrong."),
    "unknown key": (lambda it: it.token(key=SigningKey.make()), "Its issuer has no such key."),
    "other algorithm of the key": (_other_algorithm_of_the_key, "Its issuer has no such key."),
    "logout token": (lambda it: it.token(header={"typ": "logout+jwt"}), "It is a JWT, but no access token."),
    "critical extension": (lambda it: it.token(header={"crit": ["x"], "x": 1}), "It is no JWT."),
    "no JWT": (lambda it: secrets.token_urlsafe(32), "It is no JWT."),
    "two dots": (lambda it: "..", "It is no JWT."),
    "deep": (_deep, "It is no JWT."),
    "long": (lambda it: it.token(sub="x" * MAX_TOKEN_BYTES), "It is longer than"),
}


@pytest.mark.parametrize(("make", "reason"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
async def test_any_other_token_is_refused_with_the_reason(
    issuer: LoopbackIssuer,
    tokens: TokenStore,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[LoopbackIssuer], str],
    reason: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    token = make(issuer)
    answer = await ask(tokens, ResourceServer(BASE, [Issuer(issuer.url)], scopes=("mcp:use",)), token)
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith(f'Bearer error="invalid_token", error_description="{reason}')
    assert challenge.endswith(f', scope="mcp:use", resource_metadata="{METADATA}"')
    error = answer.json()["error"]
    assert error["code"] == UNAUTHORIZED
    assert f"gets one for {RESOURCE} from {issuer.url}." in error["message"]
    if len(token) > 10:
        assert token not in answer.text + challenge + caplog.text


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_a_token_signed_with_a_short_key_is_refused(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    short = SigningKey(rsa.generate_private_key(65537, 1024), "RS256")
    issuer.published.append(short.public)
    answer = await ask(tokens, ResourceServer(BASE, [Issuer(issuer.url)]), issuer.token(key=short))
    assert answer.status_code == 401
    assert "The key of its issuer is too short." in answer.headers["www-authenticate"]


async def test_an_issuer_that_a_token_invents_is_not_asked(tokens: TokenStore, issuer: LoopbackIssuer) -> None:
    resource_server = ResourceServer(BASE, [Issuer("https://as.example")])
    header = {"jku": f"{issuer.url}/keys", "x5u": f"{issuer.url}/keys"}
    assert (await ask(tokens, resource_server, issuer.token(header=header))).status_code == 401
    assert issuer.asked == []


async def test_one_issuers_key_does_not_speak_for_another(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    async with LoopbackIssuer() as other:
        resource_server = ResourceServer(BASE, [Issuer(issuer.url), Issuer(other.url)])
        assert (await ask(tokens, resource_server, other.token())).json()["agent"].startswith(other.url)
        assert (await ask(tokens, resource_server, other.token(iss=issuer.url))).status_code == 401


async def test_without_a_token_one_is_told_where_to_get_it(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    async with client(tokens, ResourceServer(BASE, [Issuer(issuer.url)], scopes=("a", "b"))) as http:
        answer = await http.get("/mcp")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == f'Bearer scope="a b", resource_metadata="{METADATA}"'
        assert "toolatlas token create NAME" in answer.json()["error"]["message"]
        of_server = (await http.get("/mcp/github")).headers["www-authenticate"]
        assert of_server == f'Bearer scope="a b", resource_metadata="{METADATA}/github"'
    assert issuer.asked == []


@pytest.mark.parametrize("claims", [{}, {"scope": "a"}, {"scope": "ab"}, {"scope": ["a"]}, {"scp": {"a": 1, "b": 1}}])
async def test_a_missing_scope_is_named(issuer: LoopbackIssuer, tokens: TokenStore, claims: dict[str, Any]) -> None:
    resource_server = ResourceServer(BASE, [Issuer(issuer.url)], scopes=("a", "b"))
    answer = await ask(tokens, resource_server, issuer.token(**claims))
    assert answer.status_code == 403
    expected = (
        'Bearer error="insufficient_scope", error_description="It needs the scope a b.", scope="a b", '
        f'resource_metadata="{METADATA}"'
    )
    assert answer.headers["www-authenticate"] == expected


async def test_two_authorization_headers_are_refused(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    given = [("authorization", f"Bearer {token}") for token in (issuer.token(), tokens.create("alice", None))]
    async with client(tokens, ResourceServer(BASE, [Issuer(issuer.url)])) as http:
        answer = await http.get("/mcp", headers=given)
    assert answer.status_code == 400
    assert answer.headers["www-authenticate"] == f'Bearer error="invalid_request", resource_metadata="{METADATA}"'


async def test_a_token_for_one_server_opens_that_server_alone(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    resource_server = ResourceServer(BASE, [Issuer(issuer.url)])
    narrow, wide = issuer.token(aud=f"{RESOURCE}/git%20hub"), issuer.token()
    for path, token, status in [
        ("/mcp/git%20hub", narrow, 200),
        ("/mcp", narrow, 401),
        ("/mcp/other", narrow, 401),
        ("/mcp/git%20hub", wide, 200),
        ("/mcp", wide, 200),
    ]:
        answer = await ask(tokens, resource_server, token, path)
        assert answer.status_code == status, path
        if status == 401:
            assert f"It is not made out to {BASE}{path}." in answer.headers["www-authenticate"]


async def test_a_configured_audience_stands_in_place_of_the_address(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    resource_server = ResourceServer(BASE, [Issuer(issuer.url)], audience="api://tools")
    assert (await ask(tokens, resource_server, issuer.token(aud="api://tools"), "/mcp/github")).status_code == 200
    refused = await ask(tokens, resource_server, issuer.token())
    assert "not made out to api://tools" in refused.headers["www-authenticate"]
    assert resource_server.metadata(None)["resource"] == RESOURCE


async def test_static_tokens_go_on_beside(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    secret = tokens.create("alice", None)
    async with client(tokens, ResourceServer(BASE, [Issuer(issuer.url)], scopes=("a",))) as http:
        answer = await http.get("/mcp", headers=bearer(secret))
        assert (answer.status_code, answer.json()["agent"]) == (200, "alice")
        tokens.revoke("alice")
        assert (await http.get("/mcp", headers=bearer(secret))).status_code == 401
    assert issuer.asked == []


async def test_the_token_ends_at_the_gate(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    for token in (issuer.token(), tokens.create("bob", None)):
        behind = (await ask(tokens, ResourceServer(BASE, [Issuer(issuer.url)]), token)).json()
        assert "authorization" not in behind["headers"]
        assert token not in behind["seen"]


def refusing_port() -> Issuer:
    return Issuer("http://127.0.0.1:1")


async def test_an_issuer_that_is_away_is_said_and_static_tokens_go_on(tokens: TokenStore) -> None:
    secret = tokens.create("alice", None)
    away = refusing_port()
    token = jwt.encode({"iss": away.url}, SigningKey.make().private, "ES256", {"kid": "any"})
    async with client(tokens, ResourceServer(BASE, [away])) as http:
        answer = await http.get("/mcp", headers=bearer(token))
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "10"
        assert "www-authenticate" not in answer.headers
        assert "authorization server" in answer.json()["error"]["message"]
        assert (await http.get("/mcp", headers=bearer(secret))).status_code == 200


async def test_while_an_issuer_hangs_others_are_answered(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    secret = tokens.create("alice", None)
    issuer.holding = anyio.Event()
    answers: list[httpx2.Response] = []
    async with client(tokens, ResourceServer(BASE, [Issuer(issuer.url)])) as http:

        async def wait() -> None:
            answers.append(await http.get("/mcp", headers=bearer(issuer.token())))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                while not issuer.times_keys_were_read:
                    await anyio.sleep(0.01)
                assert (await http.get("/mcp", headers=bearer(secret))).status_code == 200
                assert answers == []
                issuer.holding.set()
        assert [answer.status_code for answer in answers] == [200]


async def test_a_damaged_token_file_does_not_lock_out_access_tokens(
    issuer: LoopbackIssuer, tokens: TokenStore, tmp_path: Path
) -> None:
    (tmp_path / "tokens.json").write_text("{")
    async with client(tokens, ResourceServer(BASE, [Issuer(issuer.url)])) as http:
        assert (await http.get("/mcp", headers=bearer(issuer.token()))).status_code == 200
        assert (await http.get("/mcp", headers=bearer("ta_any"))).status_code == 503


async def test_no_two_agents_have_the_same_name(issuer: LoopbackIssuer, tokens: TokenStore) -> None:
    wanted = [
        issuer.token("alice"),
        issuer.token("local", client_id=""),
        issuer.token("alice", client_id="other"),
        issuer.token("alice", client_id=None),
        issuer.token("alice", client_id=None, azp="another"),
        issuer.token("alice", client_id="editor alice"),
        issuer.token("editor alice", client_id=""),
        issuer.token("alice alice"),
        issuer.token("alice%20alice"),
        issuer.token("Alice"),
        issuer.token("ali\nce"),
        issuer.token("алиса"),
        tokens.create("alice", None),
        tokens.create("editor", None),
    ]
    async with client(tokens, ResourceServer(BASE, [Issuer(issuer.url)])) as http:
        names = [(await http.get("/mcp", headers=bearer(token))).json()["agent"] for token in wanted]
    assert len(set(names)) == len(wanted)
    assert "local" not in names
    assert all(name.isascii() and name.isprintable() for name in names)


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("", RESOURCE),
        ("/", RESOURCE),
        ("/mcp", RESOURCE),
        ("/mcp/", RESOURCE),
        ("/mcp/github", f"{RESOURCE}/github"),
        ("/mcp/my%20%22server%22", f"{RESOURCE}/my%20%22server%22"),
    ],
)
async def test_the_metadata_names_resource_issuer_and_scopes(tokens: TokenStore, path: str, resource: str) -> None:
    resource_server = ResourceServer(BASE, [refusing_port(), Issuer("https://as.example/")], scopes=("a", "b"))
    async with client(tokens, resource_server) as http:
        answer = await http.get(f"/.well-known/oauth-protected-resource{path}", headers={"host": "evil.example"})
    assert answer.status_code == 200
    assert answer.json() == {
        "resource": resource,
        "authorization_servers": ["http://127.0.0.1:1", "https://as.example/"],
        "scopes_supported": ["a", "b"],
        "bearer_methods_supported": ["header"],
        "resource_name": "toolatlas",
    }


async def test_behind_a_path_of_a_reverse_proxy_the_metadata_is_at_both_places(tokens: TokenStore) -> None:
    resource_server = ResourceServer("https://host.example/tools", [refusing_port()])
    assert b'"https://host.example/.well-known/oauth-protected-resource/tools/mcp"' in resource_server.challenge(None)
    async with client(tokens, resource_server) as http:
        for prefix in ("", "/tools"):
            document = (await http.get(f"/.well-known/oauth-protected-resource{prefix}/mcp/x")).json()
            assert document["resource"] == "https://host.example/tools/mcp/x"
            assert "scopes_supported" not in document


@pytest.mark.parametrize(
    ("changed", "resource"),
    [
        ({}, "http://127.0.0.1:8765/mcp"),
        ({"host": "::1", "port": 9}, "http://[::1]:9/mcp"),
        ({"host": "0.0.0.0", "public_url": "https://tools.example.com"}, "https://tools.example.com/mcp"),
    ],
)
def test_the_resource_is_the_address_that_agents_use(tmp_path: Path, changed: Any, resource: str) -> None:
    resource_server = ResourceServer.of(_settings(tmp_path, oauth=OAuth(issuers=("https://as.example",)), **changed))
    assert resource_server is not None
    assert resource_server.resource(None) == resource


@pytest.mark.parametrize("changed", [{"host": "0.0.0.0"}, {"port": 0}])
def test_an_address_that_is_not_known_has_to_be_named(tmp_path: Path, changed: Any) -> None:
    with pytest.raises(ConfigurationError, match="--public-url"):
        ResourceServer.of(_settings(tmp_path, oauth=OAuth(issuers=("https://as.example",)), **changed))


def _settings(folder: Path, **changed: Any) -> Settings:
    return Settings(config=folder / "mcp.json", state_dir=folder, cache_dir=folder, **changed)
