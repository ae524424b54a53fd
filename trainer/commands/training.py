"""`toolatlas train run` and `list`: one training, from the log to a candidate; `report` is in report.py.

Above: trainer/cli.py. Below: trainer/loop/. Exit codes of `run` beside the usual: 1 where it was stopped, which a
checkpoint is written for; 3 where the log has too little.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.commands.options import AgentOption, BeforeOption, ServerOption, SinceOption, filters_of
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.store.database import Database
from proxy.store.registry import SHORT
from trainer.commands.adapters import FolderOption, JsonOption
from trainer.commands.options import (
    ENCODER,
    AccumulationOption,
    AlgorithmOption,
    BatchOption,
    BoardOption,
    Chosen,
    EncoderOption,
    EpochsOption,
    GoodOption,
    HoldOutOption,
    KindOption,
    LanguageOption,
    LeastOption,
    NearOption,
    PatienceOption,
    RateOption,
    RunsOption,
    SeedOption,
    ShareOption,
    SplitOption,
    place_of,
    runs_of,
    training_settings,
)
from trainer.commands.progress import reporting
from trainer.commands.report import report
from trainer.commands.stopping import stoppable

if TYPE_CHECKING:
    from trainer.loop.runs import Run


def register(family: typer.Typer) -> None:
    family.command("run")(run)
    family.command("list")(list_runs)
    family.command("report")(report)


def run(
    algorithm: AlgorithmOption = None,
    kind: KindOption = None,
    model: LanguageOption = None,
    seed: SeedOption = 0,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with this one, or with the `last`; settings are its own."),
    ] = None,
    split: SplitOption = None,
    hold_out: HoldOutOption = None,
    near: NearOption = None,
    least: LeastOption = 200,
    epochs: EpochsOption = None,
    learning_rate: RateOption = None,
    batch: BatchOption = None,
    accumulation: AccumulationOption = None,
    patience: PatienceOption = None,
    agent_share: ShareOption = None,
    good_episodes: GoodOption = None,
    tensorboard: BoardOption = None,
    judge: Annotated[
        str | None, typer.Option("--judge", metavar="NAME", help="Rewards of this judge; the latest of any without.")
    ] = None,
    agent: AgentOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: ServerOption = None,
    router_model: EncoderOption = ENCODER,
    runs: RunsOption = None,
    adapters: FolderOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a ranker on what was judged, compare it with what is in force, and register it as a candidate.

    Ctrl-C writes a checkpoint. Exit code 1 where it was stopped or failed, 3 where the log has too little.
    """
    from trainer.loop.preparing import TooLittle, freeze, gather
    from trainer.loop.running import run_through
    from trainer.loop.training import Interrupted

    settings = training_settings(
        Chosen(
            algorithm=algorithm,
            kind=kind,
            language_model=model,
            seed=seed,
            epochs=epochs,
            learning_rate=learning_rate,
            batch=batch,
            accumulation=accumulation,
            patience=patience,
            tensorboard=tensorboard,
            split=split,
            hold_out=hold_out,
            near=near,
            agent_share=agent_share,
            least=least,
            good_episodes=good_episodes,
        )
    )
    known = runs_of(runs)
    begun: list[Run] = []

    with stoppable() as wanted, reporting() as reporter:

        async def work(log: Database) -> Mapping[str, Any]:
            if resume is not None:
                begun.append(known.named(resume))
            with place_of(adapters, router_model, "train") as place:
                if not begun:
                    reporter.say("reading the log")
                    filters = filters_of(agent, since, before, server)
                    collected = await gather(log, settings, filters=filters, judge=judge)
                    begun.append(
                        await freeze(
                            log,
                            collected,
                            settings,
                            known,
                            command=["toolatlas", *sys.argv[1:]],
                            encoder=place.encoder,
                            say=reporter.say,
                        )
                    )
                    reporter.say(f"the run {begun[0].id}: {collected.tally}")
                return await run_through(
                    log,
                    begun[0],
                    place,
                    tell=reporter.updated,
                    wanted=wanted,
                    say=reporter.say,
                    steps=reporter.steps,
                )

        try:
            result = with_database(database, work)
        except TooLittle as error:
            reporter.say(str(error))
            raise typer.Exit(3) from error
        except Interrupted as error:
            reporter.say(f"Stopped; `toolatlas train run --resume {begun[0].id}` goes on from there.")
            raise typer.Exit(1) from error
    emit({"run": begun[0].id, **result}, as_json, lambda: _say(begun[0]))


def list_runs(runs: RunsOption = None, as_json: JsonOption = False) -> None:
    """All runs, the newest first. Exit code 3 without any."""
    found = runs_of(runs).all()

    def text() -> None:
        from rich.table import Table

        table = Table("run", "algorithm", "kind", "seed", "episodes", "ended", "adapter")
        for each in found:
            facts, result = each.facts, each.result
            # As it is written, so that runs of another version are listed, too.
            policy, ranking = facts["settings"].get("policy"), facts["settings"]["ranking"]
            table.add_row(
                each.id,
                (policy or ranking)["algorithm"],
                "policy" if policy else ranking["kind"],
                str(facts["seed"]),
                f"{facts['data']['episodes']:,}",
                "no" if result is None else "failed" if "failed" in result else "yes",
                str((result or {}).get("adapter", ""))[:SHORT],
            )
        wide_console().print(table)

    emit([{**each.facts, "result": each.result} for each in found], as_json, text)
    if not found:
        typer.echo("There is no run yet; `toolatlas train run` begins one.", err=True)
        raise typer.Exit(3)


def _say(run: Run) -> None:
    result = run.result or {}
    training, hashed = result["training"], result["adapter"][:SHORT]
    early = ", early" if training["stopped_early"] else ""
    typer.echo(
        f"Ended after {training['steps']:,} updates{early}; the best were the first {training['best_step']:,}, with a "
        f"validation loss of {training['best_loss']:.4f}."
    )
    if run.settings.policy is None:
        typer.echo(f"The adapter {hashed} is a candidate; `toolatlas adapters promote {hashed}` asks its gates.")
    else:
        typer.echo(f"`toolatlas agent --adapter {hashed}` works tasks with it.")
