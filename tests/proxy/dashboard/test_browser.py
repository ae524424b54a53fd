"""The pages in a real browser: signing in, filtering, reading an episode, on a desk and on a phone.

Pictures of all pages are kept in the folder that TOOLATLAS_SCREENSHOTS names, `bench/out/screenshots` without it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
import uvicorn
from playwright.async_api import Browser, Page, Request, async_playwright

from proxy.endpoint.tokens import Scope
from proxy.store.judgements import labels
from tests.fixtures import judged, logged
from tests.fixtures.running import InProcessUvicorn
from tests.proxy.dashboard.conftest import Site
from tests.proxy.dashboard.test_hostile import EPISODE as HOSTILE_EPISODE
from tests.proxy.dashboard.test_hostile import write_hostile

pytestmark = pytest.mark.anyio

CHROMIUM = Path(os.environ.get("TOOLATLAS_CHROMIUM", "/usr/bin/chromium"))
SHOTS = Path(os.environ.get("TOOLATLAS_SCREENSHOTS", Path(__file__).parents[3] / "bench" / "out" / "screenshots"))
WAIT_MS = 20_000
EPISODE = f"e_{1:024x}"
PLACES = ("episodes", f"episodes/{EPISODE}", f"label/{EPISODE}", "tools?window=all", "servers?window=all")


@dataclass
class Watched:
    """A page, with everything that must not happen in it."""

    page: Page
    base: str
    problems: list[str] = field(default_factory=list)

    async def open(self, place: str) -> None:
        await self.page.goto(f"{self.base}/ui/{place}")

    async def shot(self, name: str) -> None:
        await self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def left(self, request: Request) -> None:
        """Note a request that goes anywhere else."""
        if not request.url.startswith(f"{self.base}/"):
            self.problems.append(f"a request to {request.url}")


@pytest.fixture(scope="module")
def chromium() -> Path:
    if not CHROMIUM.exists():
        problem = f"the browser cannot be tried: there is no {CHROMIUM}; apt install chromium"
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)
    SHOTS.mkdir(parents=True, exist_ok=True)
    return CHROMIUM


@pytest.fixture
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=sandbox, timeout=60_000)
        yield browser
        await browser.close()


@asynccontextmanager
async def serving(site: Site) -> AsyncGenerator[str]:
    """The dashboard on a loopback port; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = InProcessUvicorn(uvicorn.Config(site.app(), log_config=None, lifespan="off"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        with anyio.fail_after(20):
            await server.ready.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True


@asynccontextmanager
async def watching(
    browser: Browser, base: str, *, width: int = 1280, dark: bool = False, scripts: bool = True
) -> AsyncGenerator[Watched]:
    """A new browser window of its own; fails if its console has a word to say or a request leaves."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
    )
    context.set_default_timeout(WAIT_MS)
    watched = Watched(await context.new_page(), base)
    watched.page.on("console", lambda message: watched.problems.append(f"{message.type}: {message.text}"))
    watched.page.on("pageerror", lambda error: watched.problems.append(str(error)))
    watched.page.on("dialog", lambda dialog: watched.problems.append(f"a dialog: {dialog.message}"))
    watched.page.on("request", watched.left)
    yield watched
    await context.close()
    assert watched.problems == []


async def test_a_person_signs_in_filters_reads_an_episode_and_signs_out(site: Site, browser: Browser) -> None:
    await logged.write(site.database, *logged.sample())
    secret = site.tokens.create("eve", None, [Scope.VIEW])
    async with serving(site) as base, watching(browser, base) as watched:
        page = watched.page
        await watched.open("episodes?agent=laptop")
        assert urlsplit(page.url).path == "/ui/login"
        await watched.shot("login")
        await page.get_by_label("Token of scope view or admin").fill(secret)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/ui/episodes?agent=laptop")
        assert await page.locator(".episodes li").count() == 3
        await watched.shot("episodes-filtered")
        await page.get_by_label("Text in the task").fill("PULL REQUESTS")
        await page.get_by_label("Outcome").select_option("done")
        await page.get_by_role("button", name="Filter").click()
        await page.wait_for_url("**text=PULL+REQUESTS**")
        await page.get_by_role("link", name="Which pull requests wait").click()
        await page.wait_for_url(f"**/episodes/{EPISODE}")
        assert await page.get_by_role("heading", name="github.get_checks").count() == 2
        folded = page.locator("details.passage", has_text="60 lines")
        assert not await folded.locator("pre").is_visible()
        await folded.locator("summary").click()
        assert await folded.get_by_text("change number 59 of many").is_visible()
        await page.get_by_text("Ranking by lexical").click()
        assert await page.get_by_role("cell", name="14.200").is_visible()
        cookies = {cookie["name"]: cookie for cookie in await page.context.cookies()}
        assert cookies["toolatlas"]["httpOnly"]
        assert cookies["toolatlas"]["sameSite"] == "Strict"
        assert await page.evaluate("document.cookie") == ""
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url("**/ui/login")
        await watched.open("tools")
        assert urlsplit(page.url).path == "/ui/login"


async def test_a_person_labels_the_next_episode_and_then_reads_what_the_judge_said(
    site: Site, browser: Browser
) -> None:
    await logged.write(site.database, *logged.sample())
    await judged.write_sample(site.database)
    secret = site.tokens.create("ann", None, [Scope.VIEW, Scope.LABEL])
    async with serving(site) as base, watching(browser, base) as watched:
        page = watched.page
        await watched.open("label")
        await page.get_by_label("Token of scope view or admin").fill(secret)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(f"**/ui/label/{EPISODE}")
        assert await page.get_by_text("It leaves out one of them.").count() == 0
        # By keyboard alone: to the first group, its second answer, and on to its note.
        await page.locator('input[name="value."]').first.focus()
        await page.keyboard.press("ArrowDown")
        assert await page.locator('input[name="value."][value="partly"]').is_checked()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.type("44 is missing")
        repeats = page.get_by_role("group", name=judged.CRITERIA[2]["text"])
        await repeats.get_by_label("not made").check()
        grounded = page.get_by_role("group", name=judged.CRITERIA[3]["text"])
        await grounded.get_by_label("not met").check()
        await watched.shot("label-filled")
        await page.get_by_role("button", name="Save").click()
        await page.wait_for_url(f"**/ui/label/{EPISODE}?rubric={judged.RUBRIC}")
        await page.get_by_role("heading", name="Saved").wait_for()
        row = page.get_by_role("row", name=judged.CRITERIA[3]["text"])
        assert (await row.get_by_role("cell").all_inner_texts()) == ["not met", "not met"]
        assert await page.get_by_text("44 is missing").is_visible()
        await watched.shot("label-compared")
        await page.get_by_role("link", name="Change what you said").click()
        assert await page.locator('input[name="value."][value="partly"]').is_checked()
        assert await page.get_by_text("It leaves out one of them.").count() == 0
        await page.go_back()
        await page.get_by_role("link", name="Next episode").click()
        await page.wait_for_url(f"**/ui/label/e_{2:024x}")
    found = (await labels(site.database, [EPISODE]))[EPISODE]
    assert {each.criterion: each.value for each in found} == {None: 0.5, "no-repeats": 0.0, "grounded": 0.0}


async def test_labelling_works_without_scripts(site: Site, browser: Browser) -> None:
    await logged.write(site.database, *logged.sample())
    await judged.write_sample(site.database)
    async with serving(site) as base, watching(browser, base, scripts=False) as watched:
        page = watched.page
        await watched.open(f"episodes/{EPISODE}")
        await page.get_by_role("link", name="Label this episode").click()
        await page.get_by_role("group", name=judged.CRITERIA[0]["text"]).get_by_label("cannot tell").check()
        await page.get_by_role("button", name="Save").click()
        await page.get_by_role("heading", name="Saved").wait_for()
        await page.get_by_role("link", name="The whole judgement").click()
        verdict = page.locator(".verdicts li", has_text=judged.CRITERIA[0]["text"])
        await verdict.get_by_role("link", name="step 4").click()
        await page.wait_for_url(f"**#s_{2_007:016x}")


@pytest.mark.parametrize(
    ("kind", "width", "dark"), [("desk", 1280, False), ("dark", 1280, True), ("phone", 390, False)]
)
async def test_every_page_fits_its_window(site: Site, browser: Browser, kind: str, width: int, dark: bool) -> None:
    await logged.write(site.database, *logged.sample())
    await judged.write_sample(site.database)
    async with serving(site) as base, watching(browser, base, width=width, dark=dark) as watched:
        for place in PLACES:
            await watched.open(place)
            assert await watched.page.locator("h1").count() == 1
            root = "document.documentElement"
            assert await watched.page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), place
            await watched.shot(f"{kind}-{place.partition('?')[0].replace('/', '-')}")


async def test_hostile_text_runs_nothing_and_loads_nothing(site: Site, browser: Browser) -> None:
    await write_hostile(site.database)
    async with serving(site) as base, watching(browser, base) as watched:
        query = "%22%3E%3Cscript%3Ewindow.planted=1%3C/script%3E"
        episode = f"{HOSTILE_EPISODE}?"
        places = (
            "episodes",
            f"episodes/{episode}",
            f"label/{episode}",
            f"label/..%2F..%2Fmcp%3F%3Cb%3E?rubric={judged.RUBRIC}",
            "tools?window=all",
            "servers?window=all",
        )
        for place in (*places, f"episodes?text={query}", f"episodes?agent={query}", f"tools?server={query}"):
            await watched.open(place)
            assert "window.planted" in await watched.page.content()
            for folded in await watched.page.locator("summary").all():
                await folded.click()
            assert await watched.page.evaluate("window.planted === undefined"), place
            assert await watched.page.locator("script, img[src=x], [onerror], [onmouseover]").count() == 0
        await watched.open(f"episodes/{HOSTILE_EPISODE}")
        await watched.shot("hostile")


async def test_even_a_planted_script_would_not_run(site: Site, browser: Browser) -> None:
    async with serving(site) as base:
        context = await browser.new_context()
        page = await context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        await page.goto(f"{base}/ui/episodes")
        # As if escaping had failed.
        await page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=/ui/static/none onerror=\"window.planted=1\">');"
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.planted=2'}))"
        )
        await page.wait_for_load_state("networkidle")
        assert await page.evaluate("window.planted === undefined")
        assert any("Content Security Policy" in text for text in said)
        await context.close()


async def test_pages_work_without_scripts_and_by_keyboard(site: Site, browser: Browser) -> None:
    await logged.write(site.database, *logged.sample())
    async with serving(site) as base, watching(browser, base, scripts=False) as watched:
        page = watched.page
        await watched.open("episodes")
        await page.keyboard.press("Tab")
        assert await page.locator(":focus").inner_text() == "Skip to the content"
        for _ in range(8):
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_label("Agent").press_sequentially("ci-runner")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**agent=ci-runner**")
        assert await page.locator(".episodes li").count() == 1


async def test_every_field_has_a_name_and_every_text_its_contrast(site: Site, browser: Browser) -> None:
    await logged.write(site.database, *logged.sample())
    await judged.write_sample(site.database)
    site.tokens.create("eve", None, [Scope.VIEW])
    async with serving(site) as base:
        for dark in (False, True):
            async with watching(browser, base, dark=dark) as watched:
                await watched.open("login")
                assert await watched.page.evaluate(UNNAMED) == []
                assert await watched.page.evaluate(FAINT) == []
        site.tokens.revoke("eve")
        for dark in (False, True):
            async with watching(browser, base, dark=dark) as watched:
                # Colours on their way to others are none of a design.
                await watched.page.emulate_media(reduced_motion="reduce")
                for place in PLACES:
                    await watched.open(place)
                    for folded in await watched.page.locator("main summary").all():
                        await folded.click()
                    assert [place, *await watched.page.evaluate(UNNAMED)] == [place]
                    assert [place, *await watched.page.evaluate(FAINT)] == [place]


UNNAMED = """
() => [...document.querySelectorAll('input:not([type=hidden]):not([hidden]), select, textarea, button, a')]
  .filter(one => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
  .map(one => one.outerHTML)
"""

# Contrast of WCAG 2: 4.5 for text, against the nearest background that is not transparent.
FAINT = """
() => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
   .getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => [r, g, b]
    .map(part => part / 255).map(part => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [.2126, .7152, .0722][place], 0);
  const ground = one => {
    for (; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const one of document.querySelectorAll('body *')) {
    if (![...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
    if (!one.checkVisibility() || one.closest('datalist')) continue;
    const [a, b] = [light(rgba(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${one.className} ${one.textContent.slice(0, 40)}`);
  }
  return faint;
}
"""
