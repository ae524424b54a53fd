"""A report of training for the eye: what a page shows of it, and the same as a file of its own.

Above: training.py; the trainer, which writes the file. Below: plots.py, templating.py and store/training_report.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from proxy.dashboard.plots import Line, Row, intervals, lines, reliability
from proxy.dashboard.templating import Templates
from proxy.store.training_report import ALL, Curve, Estimated, OfRouter, Report, Slice

PLOTTED = ("server_recall@5", "tool_recall@10")
"""Figures with a plot of their own; all are in the tables."""
MARGIN = 0.02
"""What the gates take for no loss, by default."""
MAX_CURVES = 4
_TITLES = {
    "server_recall": "Servers found",
    "tool_recall": "Tools found",
    "all_needed": "All servers found",
    "mrr": "Reciprocal rank of the first right tool",
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot with the words above it."""

    title: str
    plot: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the template prints of a report."""

    report: Report
    against: str
    """What the adapter is compared with, in words."""
    verdict: str
    """One sentence: what all held-out tasks together say."""
    better: bool | None
    """None where the interval holds 0."""
    figures: tuple[tuple[str, tuple[Estimated | None, ...]], ...]
    """Name -> of each router."""
    slices: tuple[Slice, ...]
    curves: tuple[Drawn, ...]
    comparisons: tuple[Drawn, ...]
    differences: tuple[Drawn, ...]
    calibration: tuple[Drawn, ...]


def shown(report: Report) -> Shown:
    """Whatever a reader needs of it, plots drawn."""
    better, verdict = _verdict(report)
    names = list(dict.fromkeys(name for router in report.routers for name in router.figures))
    return Shown(
        report=report,
        against=_against(report),
        verdict=verdict,
        better=better,
        figures=tuple((name, tuple(router.figures.get(name) for router in report.routers)) for name in names),
        slices=tuple(each for each in report.slices if each.figure in PLOTTED),
        curves=tuple(_curves(report.curves)),
        comparisons=tuple(_comparisons(report.routers)),
        differences=tuple(_differences(report)),
        calibration=tuple(_calibration(report)),
    )


def report_file(report: Report) -> str:
    """A page of HTML that needs nothing else, to be kept or sent."""
    style = files("proxy.dashboard").joinpath("static", "style.css").read_text("utf-8")
    return Templates().text("report_file.html", shown=shown(report), style=Markup(style))


def headline(report: Report, figure: str = PLOTTED[1]) -> Slice | None:
    """All tasks in one figure; None where it was not measured."""
    return next((each for each in report.whole if each.figure == figure), None)


def figure_title(figure: str) -> str:
    """`tool_recall@10` -> `Tools found among the first 10`."""
    name, _, count = figure.partition("@")
    title = _TITLES.get(name, name.replace("_", " "))
    return f"{title} among the first {count}" if count else title


def _against(report: Report) -> str:
    return "the router without an adapter" if report.against is None else f"the adapter {report.against[:12]}"


def _verdict(report: Report) -> tuple[bool | None, str]:
    found = headline(report)
    if found is None:
        return None, "Nothing was measured."
    its = found.difference
    better = None if its.low <= 0 <= its.high else its.low > 0
    said = {
        None: "No difference can be told from chance",
        True: "It finds more",
        False: "It finds less",
    }[better]
    return better, (
        f"{said}: {figure_title(found.figure).lower()} went from {found.before:.3f} to {found.after:.3f} on "
        f"{found.tasks} held-out tasks, by {its.value:+.3f}, between {its.low:+.3f} and {its.high:+.3f}."
    )


def _curves(curves: Sequence[Curve]) -> Iterator[Drawn]:
    names = list(dict.fromkeys(each.name for each in curves))
    # What says when to stop stands first.
    for number, name in enumerate(sorted(names, key=lambda each: each != "loss")[:MAX_CURVES]):
        series = [
            Line(label=each.kind, xs=each.steps, ys=each.values) for each in curves if each.name == name and each.steps
        ]
        title = f"{name.replace('_', ' ').capitalize()}, by updates"
        yield Drawn(title, lines(f"curve-{number}", title, series, across="updates"))


def _comparisons(routers: Sequence[OfRouter]) -> Iterator[Drawn]:
    for number, figure in enumerate(PLOTTED):
        rows = [
            Row(
                label=each.router,
                value=its.value,
                low=its.low,
                high=its.high,
                said=f"{its.value:.3f} ({its.low:.3f} to {its.high:.3f})",
                strong=each.router == "adapter",
            )
            for each in routers
            if (its := each.figures.get(figure)) is not None
        ]
        if rows:
            title = f"{figure_title(figure)}, by router"
            yield Drawn(title, intervals(f"routers-{number}", title, rows, bars=True))


def _differences(report: Report) -> Iterator[Drawn]:
    marks = ((0.0, "no change"), (-MARGIN, ""))
    for number, figure in enumerate(PLOTTED):
        rows = [
            Row(
                label=f"{each.name} ({each.tasks})",
                value=each.difference.value,
                low=each.difference.low,
                high=each.difference.high,
                said=f"{each.difference.value:+.3f}",
                strong=each.name == ALL,
            )
            for each in report.slices
            if each.figure == figure
        ]
        if rows:
            title = f"{figure_title(figure)}: change by slice, with the number of its tasks"
            yield Drawn(title, intervals(f"slices-{number}", title, rows, marks=marks))


def _calibration(report: Report) -> Iterator[Drawn]:
    for each in report.routers:
        if each.router in ("adapter", report.against_router) and each.decisions is not None:
            points = [(bin.confidence, bin.accuracy, bin.count) for bin in each.decisions.bins if bin.count]
            title = f"How sure the router {each.router} was of its first tool, and how often that was right"
            yield Drawn(title, reliability(f"reliability-{each.router}", title, points))
