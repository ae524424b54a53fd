"""`toolatlas learn`: judge, write rubrics, train, evaluate, propose; once, or whenever there is enough that is new.

Above: trainer/cli.py. Below: trainer/loop/learning.py. Exit codes beside the usual: 1 where it was stopped or failed, 3
where the log has too little to train anything.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.commands.options import (
    ModelOption,
    SendServerOption,
    UrlOption,
    WeightsOption,
    endpoint_settings,
    judge_of,
    reward_settings,
)
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.store.database import Database
from proxy.store.registry import SHORT
from trainer.commands.adapters import FolderOption, JsonOption, usable
from trainer.commands.options import (
    ENCODER,
    AlgorithmOption,
    Chosen,
    EncoderOption,
    EpochsOption,
    GoodOption,
    KindOption,
    LeastOption,
    NearOption,
    RunsOption,
    SeedOption,
    SplitOption,
    place_of,
    runs_of,
    training_settings,
)
from trainer.commands.options import (
    ShareOption as AgentShareOption,
)
from trainer.commands.progress import Reporter, reporting
from trainer.commands.promoting import (
    AmountOption,
    ApprovalOption,
    BudgetOption,
    EnoughOption,
    LeastClustersOption,
    LeastTasksOption,
    MarginOption,
    ShadowedOption,
    ShareOption,
    promotion_settings,
    tell,
)
from trainer.commands.stopping import stoppable

if TYPE_CHECKING:
    from trainer.loop.learning import Turn

LOOK_S = 1.0
"""How soon it ends between two turns when it is asked to."""


def register(app: typer.Typer) -> None:
    app.command("learn")(learn)


def learn(
    watch: Annotated[bool, typer.Option("--watch", help="Go on, turn after turn, until it is stopped.")] = False,
    every: Annotated[
        float, typer.Option("--every", min=1.0, metavar="SECONDS", help="Between two turns, with --watch.")
    ] = 600.0,
    new: Annotated[
        int, typer.Option("--new", min=1, metavar="N", help="New episodes that it takes to train again.")
    ] = 50,
    least: LeastOption = 200,
    rubrics: Annotated[
        bool, typer.Option("--rubrics/--no-rubrics", help="Whether code writes rubrics for families of tasks.")
    ] = True,
    algorithm: AlgorithmOption = None,
    kind: KindOption = None,
    language_model: Annotated[
        str | None,
        typer.Option(
            "--language-model",
            metavar="NAME_OR_PATH",
            help="What a scorer is trained on; without it, that of TOOLATLAS_ROUTER.",
        ),
    ] = None,
    seed: SeedOption = 0,
    split: SplitOption = None,
    near: NearOption = None,
    epochs: EpochsOption = None,
    agent_share: AgentShareOption = None,
    good_episodes: GoodOption = None,
    share: ShareOption = None,
    require_approval: ApprovalOption = False,
    router_budget_ms: BudgetOption = None,
    shadowed: ShadowedOption = None,
    enough: EnoughOption = None,
    amount: AmountOption = None,
    least_tasks: LeastTasksOption = None,
    least_clusters: LeastClustersOption = None,
    margin: MarginOption = None,
    url: UrlOption = None,
    model: ModelOption = None,
    send_server: SendServerOption = None,
    weights: WeightsOption = None,
    router_model: EncoderOption = ENCODER,
    runs: RunsOption = None,
    adapters: FolderOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from the log: judge what has ended, write rubrics, train, evaluate, and propose what came out.

    What was done is not done again, and what was begun is gone on with. Exit code 3 where the log has too little.
    """
    from judge.settings import ModelSettings
    from trainer.loop.judging import RubricSettings
    from trainer.loop.learning import LearningSettings, Told, turn
    from trainer.loop.training import Interrupted

    endpoint = endpoint_settings(url, model, send_server)
    settings = LearningSettings(
        training=training_settings(
            Chosen(
                algorithm=algorithm,
                kind=kind,
                language_model=language_model,
                seed=seed,
                split=split,
                near=near,
                epochs=epochs,
                agent_share=agent_share,
                least=least,
                good_episodes=good_episodes,
            )
        ),
        rubrics=RubricSettings(derive=rubrics),
        promotion=promotion_settings(
            share=share,
            approval=require_approval,
            budget_ms=router_budget_ms,
            shadowed=shadowed,
            enough=enough,
            amount=amount,
            least_tasks=least_tasks,
            least_clusters=least_clusters,
            margin=margin,
        ),
        new_episodes=new,
    )
    known, loadable = runs_of(runs), usable(adapters)
    with stoppable() as wanted, place_of(adapters, router_model, "learn") as place:
        while True:
            with reporting() as reporter:

                async def work(log: Database, reporter: Reporter = reporter) -> Turn:
                    judge = judge_of(reward_settings(weights), endpoint, ModelSettings())
                    told = Told(
                        say=reporter.say, judged=reporter.judged, steps=reporter.steps, updated=reporter.updated
                    )
                    try:
                        return await turn(
                            log,
                            judge,
                            settings,
                            known,
                            place,
                            command=["toolatlas", *sys.argv[1:]],
                            usable=loadable,
                            wanted=wanted,
                            told=told,
                        )
                    finally:
                        await judge.close()

                try:
                    done = with_database(database, work)
                except Interrupted as error:
                    reporter.say("Stopped; `toolatlas learn` goes on from there.")
                    raise typer.Exit(1) from error
            emit(_answer(done), as_json, lambda done=done: _say(done))
            if not watch or not waited(every, wanted):
                break
    if done.too_little and not watch:
        raise typer.Exit(3)


def waited(seconds: float, wanted: Any) -> bool:
    """Whether the time is over, and nobody has asked to stop."""
    until = time.monotonic() + seconds
    while wanted() and time.monotonic() < until:
        time.sleep(min(LOOK_S, seconds))
    return bool(wanted())


def _answer(done: Turn) -> dict[str, Any]:
    return {
        "judged": done.judged,
        "rubrics": done.rubrics,
        "run": done.run,
        "adapter": done.adapter,
        "idle": done.idle,
        "looks": [
            {"adapter": look.hash, "before": look.before, "after": look.after, "reason": look.reason}
            for look in done.looks
        ],
    }


def _say(done: Turn) -> None:
    typer.echo(f"{done.judged:,} judgements, {done.rubrics} new rubrics.")
    if done.idle is not None:
        typer.echo(f"Nothing was trained: {done.idle}" if done.too_little else f"Nothing is trained yet: {done.idle}.")
    else:
        typer.echo(f"The run {done.run} made the adapter {(done.adapter or '')[:SHORT]}.")
    for look in done.looks:
        tell(look, deciding=True)
