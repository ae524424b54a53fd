"""The page of adapters: states, reasons, what this gateway serves with; hostile words stay words."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest
from starlette.applications import Starlette

from proxy.dashboard.adapters import MOST_CHANGES
from proxy.dashboard.application import build_dashboard
from proxy.endpoint.tokens import Scope
from proxy.settings import Settings
from proxy.store.registry import Followed, InForce, State, approve, register, roll_back, set_state
from tests.fixtures.registered import adapter, at, named
from tests.proxy.dashboard.conftest import BASE, KEY, Site, bearer
from tests.proxy.dashboard.test_hostile import Structure
from tests.proxy.dashboard.test_pages import text_of

pytestmark = pytest.mark.anyio
OLD, NEW = named("old"), named("new")


def following(site: Site, followed: Callable[[], Followed]) -> Starlette:
    """The pages of a gateway that follows the registry."""
    settings = Settings(config=site.folder / "mcp.json", state_dir=site.folder, cache_dir=site.folder)
    security = site.security()
    pages = build_dashboard(site.database, site.tokens, lambda: (), settings, security, KEY, followed)
    return Starlette(routes=pages.routes)


async def words_of(app: Starlette) -> str:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE) as http:
        answer = await http.get("/ui/adapters")
    assert answer.status_code == 200
    structure = Structure()
    structure.feed(answer.text)
    return " ".join(" ".join(structure.text).split())


async def test_states_and_reasons_are_shown_the_newest_first(each_site: Site) -> None:
    await at(each_site.database, OLD, State.ACTIVE, number=0)
    figures = {"tool_recall@10": 0.8125, "slices": {"unseen": {"mean": -0.01}}, "list": [1, 2]}
    await at(each_site.database, NEW, State.CANARY, number=1, share=0.25, metrics=figures)
    await approve(each_site.database, NEW, by="ben", note="looks well")
    text = await text_of(each_site, "/ui/adapters")
    assert "2 adapters, the newest first" in text
    assert text.index(NEW[:12]) < text.index(OLD[:12])
    assert f"{NEW[:12]} canary 25.0 %" in text
    assert f"{OLD[:12]} active" in text
    assert "tool_recall@10 0.8125 slices, unseen, mean -0.01" in text
    assert "approved by ben: looks well" in text
    await roll_back(each_site.database, "reward: -0.300 to the others: it is worse", by="watch")
    text = await text_of(each_site, "/ui/adapters")
    assert f"{NEW[:12]} retired" in text
    assert "UTC, by watch reward: -0.300 to the others: it is worse canary since" in text


async def test_what_this_gateway_serves_with_is_said_and_what_it_refuses(site: Site) -> None:
    await at(site.database, OLD, State.ACTIVE)
    refused = Followed(
        wanted=InForce(active=OLD), serving=InForce(canary=NEW, share=0.1), refused={OLD: "its files are damaged"}
    )
    text = await words_of(following(site, lambda: refused))
    assert f"active none canary {NEW[:12]} of tasks 10.0 % shadow none" in text
    assert "This gateway does not serve with it: its files are damaged" in text
    away = Followed(problem="the disk is full")
    assert "what was in force stays: the disk is full" in await words_of(following(site, lambda: away))


async def test_without_a_registry_the_page_says_so(site: Site) -> None:
    text = await text_of(site, "/ui/adapters")
    assert "This gateway follows no registry" in text
    assert "Nothing was trained yet" in text


async def test_long_histories_are_cut_and_say_so(site: Site) -> None:
    await register(site.database, adapter(OLD), by="learn")
    for _ in range(MOST_CHANGES):
        await set_state(site.database, OLD, State.RETIRED, "no", by="ann")
        await set_state(site.database, OLD, State.CANDIDATE, "again", by="ann")
    assert f"{2 * MOST_CHANGES + 1 - MOST_CHANGES} earlier changes not shown" in await text_of(site, "/ui/adapters")


async def test_words_of_the_registry_are_never_markup(site: Site) -> None:
    words = '<script>alert(1)</script>"\u202e'
    await register(site.database, adapter(OLD, kind=words, run=words, metrics={words: words}), by=words, reason=words)
    await approve(site.database, OLD, by=words, note=words)
    async with site.client() as http:
        page = (await http.get("/ui/adapters")).text
    assert "<script" not in page
    assert "\u202e" not in page


async def test_it_is_for_those_who_may_see_the_log(site: Site) -> None:
    agent, person = site.tokens.create("agent", None), site.tokens.create("person", None, [Scope.VIEW])
    async with site.client() as http:
        assert (await http.get("/ui/adapters")).status_code == 303
        assert (await http.get("/ui/adapters", headers=bearer(agent))).status_code == 403
        page = await http.get("/ui/adapters", headers=bearer(person))
    assert page.status_code == 200
    assert "script-src" not in page.headers["content-security-policy"]
