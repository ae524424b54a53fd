"""`toolatlas judge run`: judges whatever has ended and is not judged yet, here beside others.

Above: judge/cli.py. Below: filing.py, admission.py, running.py, processes.py. Exit codes: 0 all is judged, 1 refused or
stopped before that (the message says why), 3 there was nothing to judge.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.commands.options import (
    AgentOption,
    AtOnceOption,
    BeforeOption,
    JsonOption,
    ModelOption,
    SendServerOption,
    ServerOption,
    SinceOption,
    UrlOption,
    WeightsOption,
    endpoint_settings,
    filters_of,
    judge_of,
    reward_settings,
)
from judge.commands.progress import Reporter, reporting
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.settings import Folders
from proxy.store.database import Database
from proxy.store.filters import Filters

if TYPE_CHECKING:
    from judge.claims import Wanted
    from judge.judging import Judge
    from judge.rubric import Rubric
    from judge.running import Pace
    from judge.tally import Tally

EACH_PROCESS = 500
"""Episodes that are worth a further process: each takes a second to start."""
CHECKS_BATCH, MODEL_BATCH = 100, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What is known before judging begins."""

    wanted: Wanted
    default: Rubric
    waiting: int


def register(family: typer.Typer) -> None:
    family.command("run")(run)


def run(
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Episodes to judge at most.")] = None,
    rubric: Annotated[
        str | None, typer.Option(metavar="HASH", help="By this rubric, whatever is attached to the episodes.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=0, metavar="N", help="Judge once more: 0 the first time, 1 the second, and so on.")
    ] = 0,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=256, metavar="N", help="Without a model: processes; as many as are worth it without."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, max=500, metavar="N", help="Episodes that are written together.")
    ] = None,
    lease: Annotated[
        float,
        typer.Option(min=1, metavar="S", help="Seconds after which others take over what a killed run had begun."),
    ] = 300.0,
    url: UrlOption = None,
    model: ModelOption = None,
    send_server: SendServerOption = None,
    at_once: AtOnceOption = 4,
    repeats: Annotated[
        int, typer.Option(min=1, max=20, metavar="K", help="How often the model is asked about each criterion.")
    ] = 3,
    prices: Annotated[
        tuple[float, float],
        typer.Option(min=0.0, metavar="IN OUT", help="What the endpoint takes for a million tokens read, and written."),
    ] = (0.0, 0.0),
    weights: WeightsOption = None,
    gold: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gold set for the model, in place of the package's own.")
    ] = None,
    agent: AgentOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: ServerOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge what has ended and has no judgement yet. Several runs, on any machines, share the work.

    Checks judge alone where no model is named. A model first judges the gold set, and each batch with canaries in it.
    """
    from judge.running import Pace
    from judge.settings import ModelSettings

    endpoint = endpoint_settings(url, model, send_server, at_once, prices)
    if endpoint is not None and processes is not None:
        raise typer.BadParameter("processes help where checks judge alone; with a model, say --at-once")
    rewards, asked = reward_settings(weights), ModelSettings(repeats=repeats)
    pace = Pace(
        batch=batch or (CHECKS_BATCH if endpoint is None else MODEL_BATCH),
        at_once=1 if endpoint is None else at_once,
        lease_s=lease,
        limit=limit,
    )
    log_url = database or Folders.from_environment(os.environ).database

    async def prepare(log: Database) -> _Prepared:
        judge = judge_of(rewards, endpoint, asked)
        try:
            if endpoint is not None:
                await _admitted(log, judge, gold)
            return await _prepared(log, judge, rubric, repeat, filters_of(agent, since, before, server))
        finally:
            await judge.close()

    prepared = with_database(log_url, prepare)
    if not prepared.waiting:
        typer.echo("Nothing is left to judge.", err=True)
        raise typer.Exit(3)
    count = processes or (1 if endpoint is not None else _worthwhile(prepared.waiting, limit))
    with reporting(min(prepared.waiting, limit or prepared.waiting), _nothing()) as reporter:
        if count == 1:

            async def work(log: Database) -> bool:
                judge = judge_of(rewards, endpoint, asked)
                try:
                    return await _here(log, judge, prepared, pace, reporter)
                finally:
                    await judge.close()

            stopped = with_database(log_url, work)
        else:
            from judge.processes import Job, run_processes

            job = Job(url=log_url, reward=rewards, wanted=prepared.wanted, pace=pace, canaries=prepared.default)
            stopped = run_processes(job, count, reporter.add)
    _say(prepared.wanted.judge, reporter, stopped=stopped, as_json=as_json)
    if stopped:
        typer.echo("Stopped before all was judged; the next run goes on from here.", err=True)
        raise typer.Exit(1)


async def _admitted(log: Database, judge: Judge, gold: Path | None) -> None:
    from judge.admission import admit
    from judge.default import default_rubric
    from judge.trust.gold_files import own_gold, read_gold

    frozen = own_gold(default_rubric()) if gold is None else read_gold(gold, default_rubric())
    if why := await admit(log, judge, frozen):
        typer.echo(f"Accepted on the gold set. {why}", err=True)


async def _prepared(log: Database, judge: Judge, rubric: str | None, repeat: int, filters: Filters) -> _Prepared:
    from judge.claims import Claims, Wanted
    from judge.default import default_rubric
    from judge.filing import file_episodes
    from judge.finding import find_rubric
    from judge.keeping import keep_default

    default = default_rubric()
    hash_ = await keep_default(log, default)
    await file_episodes(log)
    wanted = Wanted(
        judge=judge.name,
        repeat=repeat,
        filters=filters,
        default=hash_,
        rubric=None if rubric is None else (await find_rubric(log, rubric)).hash,
    )
    waiting = await Claims(log, wanted, worker="", lease_s=1.0).waiting()
    return _Prepared(wanted=wanted, default=default, waiting=waiting)


async def _here(log: Database, judge: Judge, prepared: _Prepared, pace: Pace, reporter: Reporter) -> bool:
    import signal

    from judge.processes import until_told
    from judge.running import Worker

    worker = Worker(log, judge, prepared.wanted, pace, canaries=prepared.default, told=reporter.add)
    return await until_told(worker, signal.SIGINT, signal.SIGTERM)


def _worthwhile(waiting: int, limit: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, min(waiting, limit or waiting) // EACH_PROCESS))


def _nothing() -> Tally:
    from judge.tally import Tally

    return Tally()


def _say(judge: str, reporter: Reporter, *, stopped: bool, as_json: bool) -> None:
    sums, took_s = reporter.sums, reporter.took_s
    rate = sums.judged / took_s if took_s else 0.0
    answer: dict[str, Any] = {
        "judge": judge,
        **sums.content(),
        "seconds": round(took_s, 3),
        "per_second": round(rate, 1),
        "stopped": stopped,
    }

    def text() -> None:
        mean = "" if sums.mean_reward is None else f", on average {sums.mean_reward:.2f}"
        typer.echo(f"{sums.judged:,} episodes judged by {judge} in {took_s:.1f} s, {rate:,.0f} a second.")
        typer.echo(f"{sums.rewarded:,} have a reward{mean}; {sums.judged - sums.rewarded:,} have none.")
        for reason, count in sums.unrewarded.most_common():
            typer.echo(f"  {count:,} without a reward: {reason}")
        for scope, count in sums.scopes.most_common():
            typer.echo(f"  {count:,} ({count / sums.judged:.0%}) seen as {scope}")
        for hash_, count in sums.rubrics.most_common():
            typer.echo(f"  {count:,} by rubric {hash_[:12]}")
        if sums.broken:
            typer.echo(f"  {sums.broken:,} could not be judged by a mistake of ours; the messages above say more")
        if sums.cost.questions:
            cost = sums.cost
            typer.echo(
                f"  {cost.questions:,} questions, {cost.retries:,} retries, {cost.input_tokens:,} tokens in, "
                f"{cost.output_tokens:,} out" + (f", {cost.money:.2f} of money" if cost.money else "")
            )

    emit(answer, as_json, text)
