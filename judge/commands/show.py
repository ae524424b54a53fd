"""`toolatlas judge show` and `judge shares`: what judges said of an episode, and what they could see of all episodes.

Above: judge/cli.py. Below: proxy.store's readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from judge.commands.options import AgentOption, BeforeOption, JsonOption, ServerOption, SinceOption, filters_of
from judge.commands.texts import SHORT_HASH, line, number, shares
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.errors import UnknownName
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.judgements import Judgement, judgements
from proxy.store.rewards import scopes
from proxy.store.rubrics import Rubric, rubrics
from proxy.store.trajectories import heads


def register(family: typer.Typer) -> None:
    family.command("show")(show)
    family.command("shares")(show_shares)


def show(
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="Its id.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """The judgements of an episode: reward, verdicts with their evidence, credits of steps. Exit code 3 without any."""

    async def work(log: Database) -> tuple[Sequence[Judgement], Mapping[str, Rubric]]:
        await known(log, episode)
        found = (await judgements(log, [episode])).get(episode, ())
        return found, await rubrics(log, {each.rubric_hash for each in found})

    found, by_hash = with_database(database, work)
    answer = [{**asdict(each), "created_at": each.created_at.isoformat()} for each in found]

    def text() -> None:
        console = wide_console()
        for each in found:
            for said in _lines(each, by_hash.get(each.rubric_hash)):
                console.print(said, soft_wrap=True)

    emit(answer, as_json, text)
    if not found:
        typer.echo("This episode has no judgement; `toolatlas judge run` judges what has ended.", err=True)
        raise typer.Exit(3)


def show_shares(
    judge: Annotated[str | None, typer.Option("--judge", metavar="NAME", help="Only what this judge judged.")] = None,
    agent: AgentOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: ServerOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """How many episodes were judged within which scope: rewards of different scopes are not compared."""
    filters = filters_of(agent, since, before, server)
    found = with_database(database, lambda log: scopes(log, filters, judge=judge))
    emit(found, as_json, lambda: _print(shares(found)))
    if not found:
        typer.echo("No such episode is judged.", err=True)
        raise typer.Exit(3)


async def known(log: Database, episode: str) -> None:
    """Raises UnknownName where there is no such episode."""
    if not await heads(log, Filters(ids=(episode,)), 1):
        raise UnknownName(f"there is no episode {line(episode, 80)!r} in the log; `toolatlas episodes list` shows them")


def _print(lines: Sequence[str]) -> None:
    for each in lines:
        typer.echo(each)


def _lines(judgement: Judgement, rubric: Rubric | None) -> Iterator[str]:
    repeat = f", time {judgement.repeat + 1}" if judgement.repeat else ""
    by = f"{judgement.judge} by rubric {judgement.rubric_hash[:SHORT_HASH]}{repeat}"
    yield f"{by}, {judgement.created_at:%Y-%m-%d %H:%M} UTC"
    missing = f": {line(judgement.unrewarded)}" if judgement.unrewarded else ""
    yield f"  reward {number(judgement.reward)}{missing}  (seen: {judgement.scope})"
    for category, subtotal in judgement.subtotals.items():
        yield f"    {category:<22} {number(subtotal)}"
    texts = _texts(rubric)
    for verdict in judgement.verdicts:
        yield from _verdict(verdict, texts.get(verdict["criterion"], ""))
    for step, credit in (judgement.credits or {}).items():
        yield f"  {step}  {credit:+.2f}"
    yield ""


def _verdict(verdict: Mapping[str, Any], text: str) -> Iterator[str]:
    said = number(verdict["score"]) if verdict["why"] is None else verdict["why"]
    spread = "" if verdict.get("disagreement") is None else f" ±{verdict['disagreement']:.2f}"
    yield f"  {said:>14}{spread}  {verdict['criterion']}: {line(text)}"
    if verdict["note"]:
        yield f"                  {line(verdict['note'])}"
    if verdict["steps"]:
        yield f"                  steps {', '.join(verdict['steps'])}"
    for step, quoted in verdict["quotes"]:
        yield f"                  {step}: “{line(quoted)}”"


def _texts(rubric: Rubric | None) -> dict[str, str]:
    if rubric is None:
        return {}
    from judge.rubric import Rubric as Criteria

    return {each.id: each.text for each in Criteria.of_content(rubric.content).criteria}
