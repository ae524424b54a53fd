"""`toolatlas adapters promote` and `adapters watch`: one step forward where the gates let it pass, once or for ever.

Above: trainer/cli.py. Below: promotion/. Exit codes of `promote` beside the usual: 3 where a gate holds the adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from proxy.catalog.text import one_line
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.registry import SHORT, Entry, State, entry, set_state
from trainer.commands.adapters import (
    REASON_CHARS,
    AdapterArgument,
    ByOption,
    FolderOption,
    JsonOption,
    described,
    usable,
    user,
)
from trainer.commands.options import given

if TYPE_CHECKING:
    from trainer.promotion.advancing import Look
    from trainer.promotion.settings import PromotionSettings

_MARKS: Mapping[str, str] = {"passed": "ok  ", "held": "wait", "refused": "no  "}

ShareOption = Annotated[
    float | None,
    typer.Option(
        "--share", envvar="TOOLATLAS_CANARY_SHARE", help="Of tasks that a canary answers, between 0 and 1 (0.1)."
    ),
]
ApprovalOption = Annotated[
    bool,
    typer.Option(
        "--require-approval",
        envvar="TOOLATLAS_REQUIRE_APPROVAL",
        help="Nobody is served by an adapter that no person has approved.",
    ),
]
BudgetOption = Annotated[
    int | None,
    typer.Option("--router-budget-ms", min=1, envvar="TOOLATLAS_ROUTER_BUDGET_MS", help="As for `serve` (150)."),
]
ShadowedOption = Annotated[
    int | None,
    typer.Option("--shadowed", min=0, help="Searches that a shadow has to have ranked before it is a canary (50)."),
]
EnoughOption = Annotated[
    int | None,
    typer.Option("--enough", min=1, help="Searches of a canary's tasks before it can become active (200)."),
]
LeastTasksOption = Annotated[
    int | None,
    typer.Option("--least-tasks", min=1, help="Held-out tasks that it takes to say that nothing is lost (200)."),
]
LeastClustersOption = Annotated[
    int | None,
    typer.Option("--least-clusters", min=2, help="Different combinations of servers among them (10)."),
]
MarginOption = Annotated[
    float | None,
    typer.Option("--margin", min=0.0, help="The loss on what was held out that is taken for none (0.02)."),
]
AmountOption = Annotated[
    float | None,
    typer.Option(
        "--amount", help="The loss in share of successful searches that a canary must be shown not to have (0.2)."
    ),
]


def register(family: typer.Typer) -> None:
    family.command("promote")(promote)
    family.command("watch")(watch_adapters)


def promote(
    adapter: AdapterArgument,
    share: ShareOption = None,
    require_approval: ApprovalOption = False,
    router_budget_ms: BudgetOption = None,
    shadowed: ShadowedOption = None,
    enough: EnoughOption = None,
    amount: AmountOption = None,
    least_tasks: LeastTasksOption = None,
    least_clusters: LeastClustersOption = None,
    margin: MarginOption = None,
    folder: FolderOption = None,
    by: ByOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """One step forward, if its gates let it pass: candidate, shadow, canary, active. A retired one becomes a candidate
    again. Exit code 1 where a gate refuses it, 3 where one holds it."""
    settings = promotion_settings(
        share=share,
        approval=require_approval,
        budget_ms=router_budget_ms,
        shadowed=shadowed,
        enough=enough,
        amount=amount,
        least_tasks=least_tasks,
        least_clusters=least_clusters,
        margin=margin,
    )
    name, loadable = by or user(), usable(folder)

    async def work(log: Database) -> tuple[Entry, list[Look]]:
        from trainer.promotion.advancing import advance

        found = await entry(log, adapter)
        hashed = found.adapter.hash
        if found.state is State.RETIRED:
            await set_state(log, hashed, State.CANDIDATE, "to be tried again", by=name, expected=State.RETIRED)
            return await entry(log, hashed), []
        if found.state is State.ACTIVE:
            return found, []
        looks = await advance(log, settings, by=name, only=hashed, usable=loadable)
        return await entry(log, hashed), looks

    found, looks = with_database(database, work)
    emit(
        {"adapter": described(found), "looks": [asdict(each) for each in looks]},
        as_json,
        lambda: _print(found, looks),
    )
    if found.state is State.RETIRED:
        raise typer.Exit(1)
    if all(each.before is each.after for each in looks) and (looks or found.state is State.ACTIVE):
        raise typer.Exit(3)


def watch_adapters(
    share: ShareOption = None,
    require_approval: ApprovalOption = False,
    router_budget_ms: BudgetOption = None,
    shadowed: ShadowedOption = None,
    enough: EnoughOption = None,
    amount: AmountOption = None,
    least_tasks: LeastTasksOption = None,
    least_clusters: LeastClustersOption = None,
    margin: MarginOption = None,
    every: Annotated[float, typer.Option("--every", min=1.0, metavar="SECONDS", help="Between two looks.")] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    folder: FolderOption = None,
    by: ByOption = None,
    database: DatabaseOption = None,
) -> None:
    """Look at canaries, shadows and candidates again and again: forward where the log shows enough, back at once where
    it shows that agents are served worse. Runs until it is stopped."""
    from trainer.promotion.watching import watch

    settings = promotion_settings(
        share=share,
        approval=require_approval,
        budget_ms=router_budget_ms,
        shadowed=shadowed,
        enough=enough,
        amount=amount,
        least_tasks=least_tasks,
        least_clusters=least_clusters,
        margin=margin,
    )
    loadable = usable(folder)
    with_database(
        database,
        lambda log: watch(
            log, settings, by=by or "watch", usable=loadable, told=tell, every_s=every, until=lambda: once
        ),
    )


def promotion_settings(
    *,
    share: float | None,
    approval: bool,
    budget_ms: int | None,
    shadowed: int | None,
    enough: int | None,
    amount: float | None,
    least_tasks: int | None,
    least_clusters: int | None,
    margin: float | None,
) -> PromotionSettings:
    """What was said on the command line; None is the default of the part.

    Raises:
        ConfigurationError: A value cannot be meant.
    """
    from trainer.promotion.gates import GateSettings
    from trainer.promotion.sequential import SequentialSettings
    from trainer.promotion.settings import PromotionSettings

    gates = given(budget_ms=budget_ms, least_tasks=least_tasks, least_clusters=least_clusters, margin=margin)
    try:
        return PromotionSettings(
            gates=GateSettings(approval=approval, **gates),
            sequential=SequentialSettings(**given(amount=amount, enough=enough)),
            **given(shadowed=shadowed, share=share),
        )
    except ValueError as error:
        raise ConfigurationError(f"a setting of promotion cannot be meant: {error}") from error


def tell(look: Look, *, deciding: bool = False) -> None:
    """On standard error; `deciding` leaves out the gates that let it pass."""
    typer.echo(f"{look.hash[:SHORT]} {look.before}{'' if look.before is look.after else f' -> {look.after}'}", err=True)
    for line in _gates(look):
        if not deciding or not line.startswith(f"  {_MARKS['passed']}"):
            typer.echo(line, err=True)


def _print(found: Entry, looks: list[Look]) -> None:
    for look in looks:
        for line in _gates(look):
            typer.echo(line)
    typer.echo(f"{found.adapter.hash[:SHORT]} is {found.state}")


def _gates(look: Look) -> Iterator[str]:
    for gate in look.gates:
        yield f"  {_MARKS[gate.result]} {gate.name}: {one_line(gate.said, 2 * REASON_CHARS)}"
