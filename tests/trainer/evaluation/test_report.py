"""The report of a run as text and as a file: all that was found is said, and nothing that an agent said can do harm."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from proxy.dashboard.plots import Line, Row, intervals, lines, reliability
from proxy.dashboard.run_report import figure_title, shown
from proxy.store.training_report import ALL, Changed, Report
from tests.fixtures.training_reports import estimated, off_policy, report
from trainer.evaluation.page import render_html
from trainer.evaluation.text import render_text

HOSTILE = '"><script>window.planted=1</script>\u202e\x1b[31m'


def plots_of(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def test_text_says_what_was_found_and_what_was_used() -> None:
    text = render_text(report())
    assert "It finds more: tools found among the first 10 went from 0.700 to 0.790 on 77 held-out tasks" in text
    assert "Run 20261130-101500-abcdef: adapter abababababab (head), evaluated 2026-11-30 10:22 UTC" in text
    assert "Command: toolatlas train run --since 2026-11-01 --seed 3" in text
    assert re.search(r"server recall@5 .*0\.790 \(\.76–\.82\)", text)
    assert re.search(r"servers: some not seen in training .* -0\.030 \(-0\.130 to \+0\.070\)", text)
    assert "no estimate: places 1 and 2 were swapped 4 times" in text
    assert "Data dadadadadadadada: 412 episodes, 930 rankings; training 290, validation 41, test 81" in text
    assert "agents as capped: laptop 50%, ci-runner 50%" in text
    assert "which pull requests wait for a review" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_long_command_stays_in_one_line() -> None:
    command = "toolatlas train run " + " ".join(f"--option-{number} value" for number in range(40))
    assert f"Command: {command}\n" in render_text(report(command=command))


def test_text_gives_the_estimates_where_there_are_some() -> None:
    text = render_text(report(from_log=off_policy()))
    assert "doubly robust: right uses per ranking from 0.410 to 0.460 (.43–.49), effective sample size 512" in text
    assert "no estimate" not in text


@pytest.mark.parametrize(
    ("value", "half", "better", "words"),
    [(0.05, 0.02, True, "It finds more"), (-0.05, 0.02, False, "It finds less"), (0.05, 0.06, None, "No difference")],
)
def test_the_verdict_is_what_the_interval_allows(value: float, half: float, better: bool | None, words: str) -> None:
    made = report()
    slices = tuple(
        replace(each, difference=estimated(value, half)) if each.name == ALL else each for each in made.slices
    )
    found = shown(replace(made, slices=slices))
    assert found.better is better
    assert found.verdict.startswith(words)


def test_the_file_has_every_plot_with_its_words_and_needs_nothing_else() -> None:
    html = render_html(report(from_log=off_policy()))
    plots = plots_of(html)
    # Two curves, two figures of routers, two of slices, two of calibration.
    assert len(plots) == 8
    names: set[str] = set()
    for plot in plots:
        assert plot.get("role") == "img"
        title, said = (next(each for each in plot if each.tag == tag) for tag in ("title", "desc"))
        assert title.text
        assert said.text
        names |= {title.get("id", ""), said.get("id", "")}
        assert (plot.get("aria-labelledby") or "").split() == [title.get("id"), said.get("id")]
    assert len(names) == 16
    assert not re.search(r'(src|href)="|url\(|@import|<script', html)
    assert "512" in html
    assert "examination estimated from 140 swapped neighbours (1.00, 0.70, 0.50, 0.40, 0.30)" in html


def test_a_report_of_nothing_is_a_page_too() -> None:
    empty = report(routers=(), slices=(), changed=(), curves=(), latency_p95_ms=None, notes=("Nothing was measured.",))
    html = render_html(empty)
    assert "No task was held out that could be measured." in html
    assert plots_of(html) == []
    assert "Nothing was measured." in render_text(empty)


def hostile() -> Report:
    made = report()
    changed = (
        Changed(episode_id=None, query=HOSTILE, before=(HOSTILE,), after=(HOSTILE, "b"), right=(HOSTILE,), gain=0.1),
    )
    slices = tuple(replace(each, name=f"agent: {HOSTILE}") if each.name != ALL else each for each in made.slices)
    routers = tuple(replace(each, router=f"{each.router}{HOSTILE}") for each in made.routers)
    data = replace(made.data, agents={HOSTILE: 1.0}, scopes={HOSTILE: 1.0}, judges=(HOSTILE,), left_out={HOSTILE: 1})
    values: dict[str, Any] = {"changed": changed, "slices": slices, "data": data, "routers": routers}
    return replace(made, command=HOSTILE, notes=(HOSTILE,), **values)


def test_words_of_agents_do_no_harm() -> None:
    html = render_html(hostile())
    assert "<script" not in html
    assert "window.planted" in html
    assert len(plots_of(html)) == 6
    assert "\u202e" not in html
    assert "\x1b" not in html
    text = render_text(hostile())
    assert "window.planted" in text
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_plots_hold_their_values() -> None:
    plot = ElementTree.fromstring(
        intervals(
            "p",
            "t",
            [Row(label="a", value=0.5, low=0.4, high=0.6, said="0.500")],
            marks=((0.0, "no change"),),
            bars=True,
        )
    )
    (bar,) = [each for each in plot if each.tag == "rect"]
    # Half of the span from 0 to 1, which is 320 wide.
    assert float(bar.get("width", "0")) == pytest.approx(160)
    assert "a: 0.500" in (next(each.text for each in plot if each.tag == "desc") or "")
    band = [(0.5, 1.5), (1.0, 3.0)]
    drawn = ElementTree.fromstring(
        lines("l", "t", [Line(label="x", xs=(0, 10), ys=(1.0, 2.0), band=band)], across="updates")
    )
    assert [each.get("class") for each in drawn if each.tag == "path" and "band" in each.get("class", "")] == [
        "band s0"
    ]


@pytest.mark.parametrize("values", [(0.0, 0.0), (5.0, 5.0), (1e-9, 2e-9), (-3.0, 1e6)])
def test_any_values_have_an_axis(values: tuple[float, float]) -> None:
    drawn = lines("l", "t", [Line(label="x", xs=(1, 2), ys=values)], across="updates")
    ticks = [each.text for each in ElementTree.fromstring(drawn) if each.tag == "text"]
    assert len(ticks) > 5
    alone = lines("l", "t", [Line(label="x", xs=(1,), ys=values[:1])], across="updates")
    assert [each.tag for each in ElementTree.fromstring(alone)].count("circle") == 1


def test_nothing_to_draw_is_drawn_as_nothing() -> None:
    assert lines("l", "t", [], across="x") == ""
    assert intervals("i", "t", []) == ""
    assert reliability("r", "t", [(0.5, 0.5, 0)]) == ""


def test_figures_have_titles_for_people() -> None:
    assert figure_title("tool_recall@10") == "Tools found among the first 10"
    assert figure_title("mrr") == "Reciprocal rank of the first right tool"
    assert figure_title("own_figure@3") == "own figure among the first 3"
