"""Signing in and out: cookies, forms of other sites, failures in a row, and where one goes on to."""

from __future__ import annotations

from http.cookies import SimpleCookie

import httpx2
import pytest

from proxy.dashboard.sessions import SESSION_S, Attempts, Sessions
from proxy.dashboard.ways import place_of, way_to_login, way_up
from proxy.endpoint.tokens import Scope, TokenStore
from tests.proxy.dashboard.conftest import FORM_TOKEN, KEY, Site, request_of, sign_in

pytestmark = pytest.mark.anyio


@pytest.fixture
def viewer(tokens: TokenStore) -> str:
    return tokens.create("eve", None, [Scope.VIEW])


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def cookie_of(answer: httpx2.Response, name: str) -> dict[str, str]:
    """The attributes of a cookie that an answer sets."""
    for header in answer.headers.get_list("set-cookie"):
        found = SimpleCookie(header)
        if name in found:
            return {key: value for key, value in found[name].items() if value}
    raise AssertionError(f"no cookie {name}")


def form_token(page: str) -> str:
    found = FORM_TOKEN.search(page)
    assert found is not None
    return found[1]


async def test_the_cookie_is_kept_from_scripts_and_other_sites(site: Site, viewer: str) -> None:
    async with site.client() as http:
        cookie = cookie_of(await sign_in(http, viewer), "toolatlas")
        assert viewer not in str(http.cookies)
    assert cookie == {"httponly": True, "samesite": "strict", "path": "/", "max-age": str(SESSION_S)}


async def test_behind_https_the_cookie_is_held_to_it(site: Site, viewer: str) -> None:
    site.public_url = "https://tools.example.com"
    async with site.client() as http:
        http.base_url = httpx2.URL("https://tools.example.com")
        cookie = cookie_of(await sign_in(http, viewer), "__Host-toolatlas")
        assert cookie["secure"] is True
        assert "domain" not in cookie
        assert (await http.get("/ui/episodes")).status_code == 200


async def test_one_goes_on_to_the_page_that_was_asked_for(site: Site, viewer: str) -> None:
    async with site.client() as http:
        sent = await http.get("/ui/episodes?agent=a%20b&failures=1")
        form = await http.get(
            sent.headers["location"] if sent.headers["location"][0] == "/" else f"/ui/{sent.headers['location']}"
        )
        place = "episodes?agent=a%20b&amp;failures=1"
        assert f'name="next" value="{place}"' in form.text
        answer = await sign_in(http, viewer, next=place.replace("&amp;", "&"))
        assert answer.headers["location"] == "episodes?agent=a%20b&failures=1"


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "https://evil.example",
        "/evil",
        "javascript:alert(1)",
        "episodes/../../mcp",
        "\\evil",
        "login",
        "",
    ],
)
def test_nobody_is_sent_to_another_site(wanted: str) -> None:
    assert place_of(wanted) == "episodes"


@pytest.mark.parametrize(
    ("path", "up", "login"),
    [
        ("/ui/tools", "", "login?next=tools"),
        ("/ui/episodes?agent=a", "", "login?next=episodes%3Fagent%3Da"),
        ("/ui/episodes/e_1", "../", "../login?next=episodes%2Fe_1"),
        ("/ui/a/b/c", "../../", "../../login?next=a%2Fb%2Fc"),
    ],
)
def test_ways_are_relative(path: str, up: str, login: str) -> None:
    assert way_up(request_of(path)) == up
    assert way_to_login(request_of(path)) == login


@pytest.mark.parametrize("sent", ["", "0" * 64, "\u00e9"])
async def test_a_form_of_another_site_signs_nobody_in(site: Site, viewer: str, sent: str) -> None:
    async with site.client() as http:
        await http.get("/ui/login")
        answer = await http.post("/ui/login", data={"token": viewer, "form_token": sent})
        assert answer.status_code == 403
        assert "toolatlas" not in http.cookies


async def test_a_form_without_its_cookie_signs_nobody_in(site: Site, viewer: str) -> None:
    async with site.client() as http:
        token = form_token((await http.get("/ui/login")).text)
        http.cookies.clear()
        assert (await http.post("/ui/login", data={"token": viewer, "form_token": token})).status_code == 403


async def test_signing_out_needs_the_form_of_the_session(site: Site, viewer: str) -> None:
    async with site.client() as http:
        await sign_in(http, viewer)
        for sent in ("", "0" * 64, form_token((await http.get("/ui/login")).text)):
            assert (await http.post("/ui/logout", data={"form_token": sent})).status_code == 403
        page = await http.get("/ui/episodes")
        kept = http.cookies["toolatlas"]
        answer = await http.post("/ui/logout", data={"form_token": form_token(page.text)})
        assert (answer.status_code, answer.headers["location"]) == (303, "login")
        assert "toolatlas" not in http.cookies
        http.cookies.set("toolatlas", kept)
        assert (await http.get("/ui/episodes")).status_code == 303, "a copy of the cookie outlived the session"


async def test_a_session_ends_with_its_token(site: Site, tokens: TokenStore, viewer: str) -> None:
    async with site.client() as http:
        await sign_in(http, viewer)
        assert (await http.get("/ui/episodes")).status_code == 200
        tokens.revoke("eve")
        tokens.create("other", None, [Scope.ADMIN])
        assert (await http.get("/ui/episodes")).status_code == 303
        tokens.create("eve", None, [Scope.VIEW])
        assert (await http.get("/ui/episodes")).status_code == 303, "a new token of that label is another one"


async def test_a_session_is_known_to_every_replica_and_after_a_restart(site: Site, viewer: str) -> None:
    async with site.client() as one, site.client() as two:
        await sign_in(one, viewer)
        two.cookies.set("toolatlas", one.cookies["toolatlas"])
        assert (await two.get("/ui/episodes")).status_code == 200
    site.key = b"another key of thirty-two bytes.."
    async with site.client() as stranger:
        stranger.cookies.set("toolatlas", two.cookies["toolatlas"])
        assert (await stranger.get("/ui/episodes")).status_code == 303


def test_a_session_ends_after_its_time(tokens: TokenStore, viewer: str) -> None:
    clock = Clock()
    sessions = Sessions(KEY, tokens, clock)
    info = tokens.verify(viewer)
    assert info is not None
    cookie = sessions.begin(info)
    clock.now += SESSION_S - 1
    assert sessions.read(cookie) is not None
    clock.now += 1
    assert sessions.read(cookie) is None


def test_no_letter_of_a_cookie_can_be_changed(tokens: TokenStore, viewer: str) -> None:
    sessions = Sessions(KEY, tokens)
    info = tokens.verify(viewer)
    assert info is not None
    cookie = sessions.begin(info)
    assert sessions.read(cookie) is not None
    for place, letter in enumerate(cookie):
        changed = cookie[:place] + ("A" if letter != "A" else "B") + cookie[place + 1 :]
        assert sessions.read(changed) is None
    for other in ("", "x", "é", cookie + "=", cookie[:-1], cookie * 2):
        assert sessions.read(other) is None


async def test_many_failures_make_one_wait_and_leave_whoever_has_a_token_alone(site: Site, viewer: str) -> None:
    app = site.app()

    def browser(address: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app, client=(address, 4711))
        return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765")

    async with browser("192.0.2.1") as guessing, browser("192.0.2.2") as honest:
        for _ in range(10):
            assert (await sign_in(guessing, "ta_guess")).status_code == 403
        answer = await sign_in(guessing, "ta_guess")
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert (await sign_in(honest, "ta_slip")).status_code == 403
        # Behind a reverse proxy all have one address: one of them must not lock out the others.
        assert (await sign_in(guessing, viewer)).status_code == 303


def test_attempts_are_forgotten_with_time_and_bounded_in_number() -> None:
    clock = Clock()
    attempts = Attempts(limit=2, window_s=60, addresses=3, clock=clock)
    attempts.failed("a")
    assert attempts.wait_s("a") == 0
    attempts.failed("a")
    assert attempts.wait_s("a") == 60
    clock.now += 61
    assert attempts.wait_s("a") == 0
    for address in "abbccdd":
        attempts.failed(address)
    assert attempts.wait_s("d") > 0
    assert attempts.wait_s("c") > 0
    assert attempts.wait_s("b") > 0
    for address in "eeff":
        attempts.failed(address)
    assert attempts.wait_s("b") == 0


async def test_what_is_no_form_is_refused(site: Site) -> None:
    async with site.client() as http:
        assert (await http.post("/ui/login", json={"token": "x"})).status_code == 415
        kind = {"content-type": "application/x-www-form-urlencoded"}
        assert (await http.post("/ui/login", content=b"a" * 9_000, headers=kind)).status_code == 413
        many = "&".join(f"f{number}=1" for number in range(30))
        assert (await http.post("/ui/login", content=many, headers=kind)).status_code == 400
        assert (await http.post("/ui/login", content=b"\xff", headers=kind)).status_code == 400


async def test_the_secret_stands_in_no_page_and_no_log(
    site: Site, viewer: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with site.client() as http:
        pages = [await sign_in(http, "ta_not-quite-a-secret"), await sign_in(http, viewer)]
        pages.append(await http.get("/ui/episodes"))
    for page in pages:
        assert "ta_not-quite-a-secret" not in page.text
        assert viewer not in page.text
    assert "refused" in caplog.text
    assert "ta_not-quite-a-secret" not in caplog.text


async def test_who_follows_a_link_from_another_site_is_shown_the_way_back(site: Site, viewer: str) -> None:
    async with site.client() as http:
        await sign_in(http, viewer)
        page = await http.get("/ui/login?next=tools", headers={"sec-fetch-site": "cross-site"})
        assert '<a href="tools">' in page.text


@pytest.mark.parametrize("value", ['"\\001\\015\\012x"', "x" * 3_000, "\u00e9", "a=b"])
async def test_a_form_is_not_bound_to_what_this_gateway_never_gave(site: Site, viewer: str, value: str) -> None:
    async with site.client() as http:
        answer = await http.get("/ui/login", headers={"cookie": f"toolatlas-form={value}".encode("latin-1")})
        assert answer.status_code == 200
        # It comes in a new cookie, and only with that one it can be sent.
        assert 30 < len(http.cookies["toolatlas-form"]) < 50
        answer = await http.post("/ui/login", data={"token": viewer, "form_token": form_token(answer.text)})
        assert answer.status_code == 303
