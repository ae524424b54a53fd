"""The pages of training: over both databases, and in a real browser, on a desk, in the dark and on a phone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.async_api import Browser
from sqlalchemy import update

from proxy.dashboard.ways import place_of
from proxy.endpoint.tokens import Scope
from proxy.store.deletions import Selection, delete
from proxy.store.tables import TrainingReportRow
from proxy.store.training_runs import save
from tests.fixtures import logged
from tests.fixtures.training_reports import EPISODE, RUN, off_policy, report
from tests.proxy.dashboard.conftest import Site, bearer
from tests.proxy.dashboard.test_browser import FAINT, UNNAMED, browser, chromium, serving, watching
from tests.proxy.dashboard.test_pages import text_of

__all__ = ["browser", "chromium"]

pytestmark = pytest.mark.anyio


async def test_runs_are_listed_and_lead_to_their_reports(each_site: Site) -> None:
    assert "No run was evaluated yet." in await text_of(each_site, "/ui/training")
    await save(each_site.database, report())
    later = replace(report(), run="another-run", made_at=report().made_at + timedelta(days=1), slices=())
    await save(each_site.database, later)
    text = await text_of(each_site, "/ui/training")
    assert "another-run 2026-12-01 10:22:00 abababababab head 412 77 not measured" in text
    assert f"{RUN} 2026-11-30 10:22:00 abababababab head 412 77 0.700 → 0.790 +0.090" in text
    assert text.index("another-run") < text.index(RUN)


async def test_a_report_says_all_of_it(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    await save(each_site.database, report(from_log=off_policy()))
    text = await text_of(each_site, f"/ui/training/{RUN}")
    for said in (
        "It finds more: tools found among the first 10 went from 0.700 to 0.790 on 77 held-out tasks",
        "It is compared with the router without an adapter.",
        "toolatlas train run --since 2026-11-01 --seed 3",
        "95 of 100 rankings within 31 ms",
        "which pull requests wait for a review",
        "Hash of the data dadadadadadadada",
        "laptop 60.0 % 50.0 %",
        "calls + task + answer 75.0 %",
        "doubly robust 0.410",
        "Learning curves",
    ):
        assert said in text


async def test_words_of_a_deleted_episode_are_gone_from_the_report(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    await save(each_site.database, report())
    await delete(each_site.database, Selection(episodes=(EPISODE,)))
    text = await text_of(each_site, f"/ui/training/{RUN}")
    assert "which pull requests wait" not in text
    assert "rows of the table of orders" in text


async def test_what_is_not_there_or_of_another_version_is_said(site: Site) -> None:
    assert f"There is no report of a run {RUN}." in await text_of(site, f"/ui/training/{RUN}", 404)
    assert "There is no report of a run" in await text_of(site, "/ui/training/..%2F..%2Fmcp%3F%3Cb%3E", 404)
    await save(site.database, report())
    async with site.database.writing() as connection:
        await connection.execute(update(TrainingReportRow).values(report={"run": RUN}))
    assert "does not fit this version" in await text_of(site, f"/ui/training/{RUN}", 409)
    assert "No run was evaluated yet." in await text_of(site, "/ui/training")


async def test_only_viewers_see_it(site: Site) -> None:
    await save(site.database, report())
    agent, viewer = site.tokens.create("ann", None, [Scope.AGENT]), site.tokens.create("eve", None, [Scope.VIEW])
    async with site.client() as http:
        for place in ("/ui/training", f"/ui/training/{RUN}"):
            assert (await http.get(place)).status_code == 303
            assert (await http.get(place, headers=bearer(agent))).status_code == 403
            assert (await http.get(place, headers=bearer(viewer))).status_code == 200
    assert place_of(f"training/{RUN}") == f"training/{RUN}"


@pytest.mark.parametrize(
    ("kind", "width", "dark"), [("desk", 1280, False), ("dark", 1280, True), ("phone", 390, False)]
)
async def test_pages_fit_their_window_and_can_be_read(
    site: Site, browser: Browser, kind: str, width: int, dark: bool
) -> None:
    await logged.write(site.database, *logged.sample())
    await save(site.database, report(from_log=off_policy()))
    async with serving(site) as base, watching(browser, base, width=width, dark=dark) as watched:
        page = watched.page
        await page.emulate_media(reduced_motion="reduce")
        await watched.open("training")
        assert await page.evaluate(FAINT) == []
        await watched.shot(f"{kind}-training")
        await page.get_by_role("link", name=RUN).click()
        await page.wait_for_url(f"**/training/{RUN}")
        root = "document.documentElement"
        assert await page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
        assert await page.locator("h1").count() == 1
        # As a person with a screen reader finds them.
        await page.get_by_role("img", name="Tools found among the first 10, by router").wait_for()
        assert await page.get_by_role("img").count() >= 8
        await page.get_by_text("The same as a table").click()
        assert await page.evaluate(UNNAMED) == []
        assert await page.evaluate(FAINT) == []
        assert await page.evaluate(_UNSEEN) == []
        await watched.shot(f"{kind}-training-run")


# Of what is drawn: text against the card that it stands on, and lines that have no colour.
_UNSEEN = """
() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map(part => part / 255)
      .map(part => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const found = [];
  for (const one of document.querySelectorAll('.plot text, .plot .line, .plot .dot, .plot .whisker, .plot .mark')) {
    const style = getComputedStyle(one);
    const colour = one.matches('text, .dot') ? style.fill : style.stroke;
    const ground = getComputedStyle(one.closest('.scroll')).backgroundColor;
    if (colour === 'none') { found.push(one.outerHTML); continue; }
    const [a, b] = [light(colour), light(ground)].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < (one.matches('text') ? 4.5 : 3)) found.push(`${contrast.toFixed(2)} ${one.outerHTML}`);
  }
  return found;
}
"""
