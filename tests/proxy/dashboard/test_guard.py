"""Who may see what: every route with every kind of token, and where a request says it comes from."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from proxy.dashboard.guard import HEADERS
from proxy.endpoint.tokens import Scope, TokenStore
from tests.fixtures import logged
from tests.proxy.dashboard.conftest import Site, bearer, sign_in

pytestmark = pytest.mark.anyio

EPISODE = f"e_{1:024x}"
ROUTES = (
    "/ui/episodes",
    f"/ui/episodes/{EPISODE}",
    "/ui/tools",
    "/ui/servers",
    "/ui/nowhere",
    "/api/episodes",
    f"/api/episodes/{EPISODE}",
    "/api/stats",
    "/api/servers",
    "/api/nowhere",
    "/api",
    "/metrics",
)
OPEN = ("/ui", "/ui/", "/ui/login", "/ui/static/style.css", "/ui/static/icon.svg")


@pytest.fixture
def secrets(tokens: TokenStore, tmp_path: Path) -> dict[str, str]:
    """A token of every kind."""
    made = {scope.value: tokens.create(scope.value, None, [scope]) for scope in Scope}
    made["held"] = tokens.create("held", None, servers=["github"])
    made["both"] = tokens.create("both", None, [Scope.VIEW, Scope.LABEL])
    for label in ("revoked", "expired"):
        made[label] = tokens.create(label, None, [Scope.ADMIN])
    tokens.revoke("revoked")
    path = tmp_path / "state" / "tokens.json"
    entries = json.loads(path.read_text())
    for entry in entries.values():
        if entry["label"] == "expired":
            entry["expires_at"] = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    path.write_text(json.dumps(entries))
    made["unknown"] = "ta_" + "x" * 43
    made["jwt"] = "eyJhbGciOiJub25lIn0.e30."
    return made


@pytest.mark.parametrize("route", ROUTES)
async def test_only_tokens_of_scope_view_and_admin_open_a_route(
    site: Site, secrets: dict[str, str], route: str
) -> None:
    await logged.write(site.database, *logged.sample())
    expected = 404 if route in ("/ui/nowhere", "/api/nowhere", "/api") else 200
    seen: dict[str, int] = {}
    async with site.client() as http:
        for kind, secret in secrets.items():
            seen[kind] = (await http.get(route, headers=bearer(secret))).status_code
        unnamed = await http.get(route)
    assert seen == {
        **dict.fromkeys(("view", "admin", "both"), expected),
        **dict.fromkeys(("agent", "held", "label"), 403),
        **dict.fromkeys(("revoked", "expired", "unknown", "jwt"), 401),
    }
    if route.startswith("/ui"):
        assert unnamed.status_code == 303
        assert "login?next=" in unnamed.headers["location"]
    else:
        assert unnamed.status_code == 401
        assert unnamed.headers["www-authenticate"] == "Bearer"
        assert "--scope view" in unnamed.json()["error"]


@pytest.mark.parametrize("kind", ["agent", "held", "label", "revoked", "expired", "unknown", "jwt", ""])
async def test_no_other_token_signs_in(site: Site, secrets: dict[str, str], kind: str) -> None:
    async with site.client() as http:
        answer = await sign_in(http, secrets.get(kind, ""))
        assert answer.status_code == 403
        assert site_cookie(http) is None
        assert (await http.get("/ui/episodes")).status_code == 303


@pytest.mark.parametrize("kind", ["view", "admin", "both"])
async def test_a_session_opens_every_route(site: Site, secrets: dict[str, str], kind: str) -> None:
    await logged.write(site.database, *logged.sample())
    async with site.client() as http:
        assert (await sign_in(http, secrets[kind])).status_code == 303
        for route in ROUTES:
            assert (await http.get(route)).status_code in (200, 404), route


async def test_a_bad_token_is_not_made_good_by_a_session(site: Site, secrets: dict[str, str]) -> None:
    async with site.client() as http:
        await sign_in(http, secrets["view"])
        assert (await http.get("/api/episodes", headers=bearer(secrets["agent"]))).status_code == 403


async def test_on_loopback_without_any_token_pages_are_open(site: Site) -> None:
    async with site.client() as http:
        for route in ROUTES:
            assert (await http.get(route)).status_code in (200, 404), route
        assert "Sign out" not in (await http.get("/ui/episodes")).text


async def test_servers_with_a_user_of_their_own_read_no_log_over_loopback(site: Site, tmp_path: Path) -> None:
    site.servers_host = tmp_path / "servers.sock"
    async with site.client() as http:
        assert (await http.get("/ui/episodes")).status_code == 303
        assert (await http.get("/api/episodes")).status_code == 401
        assert (await http.get("/metrics")).status_code == 401


async def test_the_first_token_of_any_kind_closes_them(site: Site, tokens: TokenStore) -> None:
    async with site.client() as http:
        assert (await http.get("/api/servers")).status_code == 200
        tokens.create("laptop", None)
        assert (await http.get("/api/servers")).status_code == 401


@pytest.mark.parametrize("where", [{"host": "0.0.0.0"}, {"public_url": "https://tools.example.com"}])
async def test_where_agents_need_tokens_pages_are_never_open(site: Site, where: dict[str, str]) -> None:
    for name, value in where.items():
        setattr(site, name, value)
    async with site.client() as http:
        for route in ROUTES:
            assert (await http.get(route)).status_code in (303, 401), route


@pytest.mark.parametrize("route", [*ROUTES, "/ui/login"])
async def test_a_page_of_another_name_that_was_made_to_lead_here_gets_nothing(site: Site, route: str) -> None:
    async with site.client() as http:
        answer = await http.get(route, headers={"host": "evil.example:8765"})
        assert answer.status_code == 421
        assert "--allowed-host" in answer.text
        answer = await http.get(route, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403


async def test_a_program_with_a_token_may_use_any_name(site: Site, tokens: TokenStore) -> None:
    secret = tokens.create("prometheus", None, [Scope.VIEW])
    async with site.client() as http:
        answer = await http.get("/metrics", headers={**bearer(secret), "host": "gateway:8765"})
    assert (answer.status_code, answer.text) == (200, "calls_total 7")


async def test_two_tokens_and_other_schemes_are_refused(site: Site, tokens: TokenStore) -> None:
    secret = tokens.create("eve", None, [Scope.VIEW])
    async with site.client() as http:
        twice = [("authorization", f"Bearer {secret}")] * 2
        assert (await http.get("/api/servers", headers=twice)).status_code == 400
        assert (await http.get("/api/servers", headers={"authorization": f"Basic {secret}"})).status_code == 401


async def test_a_damaged_token_file_admits_nobody(site: Site, tokens: TokenStore, tmp_path: Path) -> None:
    secret = tokens.create("eve", None, [Scope.VIEW])
    async with site.client() as http:
        await sign_in(http, secret)
        (tmp_path / "state" / "tokens.json").write_text("{")
        for headers in ({}, bearer(secret)):
            for route in ("/ui/episodes", "/api/episodes", "/metrics"):
                answer = await http.get(route, headers=headers)
                assert answer.status_code == 503
                assert str(tmp_path) not in answer.text


async def test_every_answer_bears_the_headers(site: Site, secrets: dict[str, str]) -> None:
    await logged.write(site.database, *logged.sample())
    async with site.client() as http:
        answers = [await http.get(route) for route in (*ROUTES, *OPEN)]
        answers += [await http.get(route, headers=bearer(secrets["view"])) for route in (*ROUTES, *OPEN)]
        answers += [await http.get(route, headers=bearer(secrets["agent"])) for route in ROUTES]
        answers += [await http.post(route) for route in (*ROUTES, *OPEN)]
        answers += [await http.get(route, headers={"host": "evil.example"}) for route in ROUTES]
        answers += [await http.get("/ui/episodes?outcome=x", headers=bearer(secrets["view"]))]
        answers += [await sign_in(http, "wrong"), await sign_in(http, secrets["view"])]
    assert {answer.status_code for answer in answers} == {200, 303, 400, 401, 403, 404, 405, 415, 421}
    for answer in answers:
        missing = {name: answer.headers.get(name) for name in HEADERS if answer.headers.get(name) != HEADERS[name]}
        if answer.request.url.path.startswith("/ui/static/") and answer.status_code == 200:
            missing.pop("cache-control")
        assert missing == {}, answer.request.url
    assert "default-src 'none'" in HEADERS["content-security-policy"]
    assert "script-src" not in HEADERS["content-security-policy"]
    assert HEADERS["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(site: Site, secrets: dict[str, str], method: str) -> None:
    async with site.client() as http:
        for route in ROUTES:
            answer = await http.request(method, route, headers=bearer(secrets["admin"]))
            assert answer.status_code == 405 or route == "/metrics", route


def site_cookie(http: httpx2.AsyncClient) -> str | None:
    return http.cookies.get("toolatlas")
