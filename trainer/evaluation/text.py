"""The report of a run for the terminal.

Above: the command `train report`. Below: rich, and proxy/dashboard/visible.py, since queries are words of agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

from rich.box import SIMPLE
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from proxy.dashboard.run_report import shown
from proxy.dashboard.templating import duration
from proxy.dashboard.visible import visible
from proxy.store.training_report import Estimated, Report

WIDTH = 120
COMMAND = "Command: "
EXAMPLES = 5
"""That are shown; the file has all of them."""


def render_text(report: Report, *, width: int = WIDTH) -> str:
    """What the page says, without plots; lines of at most `width` characters, but for the command."""
    console = Console(width=width, color_system=None, highlight=False, emoji=False)
    with console.capture() as captured:
        for part in _parts(report):
            # A command is to be copied: in one line, however long.
            console.print(part, soft_wrap=isinstance(part, Text) and part.plain.startswith(COMMAND))
    return captured.get()


def _parts(report: Report) -> Iterator[RenderableType]:
    said = shown(report)
    made = f"{report.made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    yield Text(visible(f"Run {report.run}: adapter {report.adapter[:12]} ({report.kind}), evaluated {made}"))
    yield Text(f"{said.verdict} It is compared with {said.against}.\n")
    yield Text(visible(f"{COMMAND}{report.command}"))
    yield Text(f"Version {report.version}, commit {(report.commit or 'not known')[:12]}, seed {report.seed}\n")
    if report.routers:
        yield _routers(report)
    if said.slices:
        yield _slices(report)
    yield from _from_log(report)
    yield from _examples(report)
    yield from _data(report)
    for note in report.notes:
        yield Text(visible(note))


def _routers(report: Report) -> Table:
    table = Table(title="Held-out tasks, with 95 % intervals", title_justify="left", box=SIMPLE)
    table.add_column("")
    for router in report.routers:
        table.add_column(visible(router.router), justify="right")
    for name, values in shown(report).figures:
        table.add_row(name.replace("_", " "), *["" if value is None else _unsigned(value) for value in values])
    found = [router.decisions for router in report.routers]
    table.add_row("NLL, nats", *["" if each is None else _unsigned(each.nll) for each in found])
    table.add_row("calibration error", *["" if each is None else f"{each.ece:.3f}" for each in found])
    times = [router.p95_ms for router in report.routers]
    table.add_row("95 of 100 within", *["" if each is None else duration(each) for each in times])
    return table


def _slices(report: Report) -> Table:
    table = Table(title=f"Adapter minus {report.against_router}, by slice", title_justify="left", box=SIMPLE)
    for column in ("slice", "figure"):
        table.add_column(column)
    for column in ("tasks", "before", "after", "change"):
        table.add_column(column, justify="right")
    for each in shown(report).slices:
        change = f"{each.difference.value:+.3f} ({each.difference.low:+.3f} to {each.difference.high:+.3f})"
        name, figure = Text(visible(each.name)), each.figure.replace("_", " ")
        table.add_row(name, figure, str(each.tasks), f"{each.before:.3f}", f"{each.after:.3f}", change)
    return table


def _from_log(report: Report) -> Iterator[Text]:
    found = report.from_log
    if found.none is not None:
        yield Text(f"From the log, of its order: {found.none.reason}\n")
        return
    yield Text(f"From {found.rankings:,} rankings of the log with {found.swaps:,} swaps; {found.position_model}.")
    for each in found.results:
        yield Text(
            f"  {each.name}: right uses per ranking from {each.logged:.3f} to {_unsigned(each.estimate)}, "
            f"effective sample size {each.effective:.0f}"
        )
    yield Text("")


def _examples(report: Report) -> Iterator[Text]:
    for each in report.changed[:EXAMPLES]:
        yield Text(visible(f"{each.gain:+.2f}  {each.query}"))
        yield Text(visible(f"       before: {', '.join(each.before)}"))
        yield Text(visible(f"       after:  {', '.join(each.after)}"))
        yield Text(visible(f"       right:  {', '.join(each.right)}"))
    if report.changed:
        yield Text(f"{len(report.changed)} examples in the file.\n")


def _data(report: Report) -> Iterator[Text]:
    data = report.data
    yield Text(
        f"Data {data.hash[:16]}: {data.episodes:,} episodes, {data.rankings:,} rankings; "
        + ", ".join(f"{side} {count:,}" for side, count in data.sides.items())
    )
    for name, shares in (("scopes", data.scopes), ("agents", data.agents), ("agents as capped", data.agents_capped)):
        if shares:
            yield Text(visible(f"  {name}: " + ", ".join(f"{each} {share:.0%}" for each, share in shares.items())))
    if data.left_out:
        yield Text(visible("  left out: " + ", ".join(f"{count:,} {why}" for why, count in data.left_out.items())))
    if data.judges:
        yield Text(visible(f"  judges: {', '.join(data.judges)}"))


def _unsigned(value: Estimated) -> str:
    # Five routers stand side by side.
    low, high = (f"{end:.2f}".removeprefix("0") for end in (value.low, value.high))
    return f"{value.value:.3f} ({low}–{high})"
