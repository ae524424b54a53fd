"""`toolatlas label`: a person says what they think of an episode, criterion by criterion.

Above: judge/cli.py. Below: finding.py, keeping.py. What judges said is not shown: it would be repeated. Labels are only
added; of several by one person on one criterion, the last counts.
"""

from __future__ import annotations

import getpass
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from judge.commands.options import JsonOption
from judge.commands.show import known
from judge.commands.texts import line
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.commands.timeline import timeline
from proxy.errors import InvalidArguments, UnknownName
from proxy.store.database import Database
from proxy.store.judgements import judgements
from proxy.store.rubrics import rubric_for
from proxy.store.trajectories import load

if TYPE_CHECKING:
    from judge.rubric import Rubric
    from proxy.store.trajectory import Trajectory

SHOWN_CHARS = 2_000
OVERALL = "overall"
"""Stands for the episode as a whole."""
ANSWERS: Mapping[str, float | None] = {"y": 1.0, "p": 0.5, "n": 0.0, "?": None}
_PROMPT = "  met (y), partly (p), not met (n), cannot tell (?), 0 to 1, or Enter to pass over"

Labels = dict[str | None, tuple[float | None, str | None]]


def register(app: typer.Typer) -> None:
    app.command("label")(label)


def label(
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="Its id.")],
    criterion: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help=f"Only this criterion, or `{OVERALL}`; with --value nothing is asked in the terminal."
        ),
    ] = None,
    value: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="0 to 1: as far as the criterion's text holds.")
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    rubric: Annotated[
        str | None, typer.Option(metavar="HASH", help="By this rubric; the one that judged it, or would, without.")
    ] = None,
    labeller: Annotated[
        str | None, typer.Option("--labeller", metavar="NAME", help="Who says so; your login without.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say of an episode how far each criterion of its rubric is met: by dialogue, or by --criterion and --value."""
    if value is not None and (criterion is None or math.isnan(value)):
        raise InvalidArguments(f"--value is between 0 and 1 and goes with --criterion ID, or --criterion {OVERALL}")
    who = labeller or getpass.getuser()

    async def read(log: Database) -> tuple[Trajectory | None, str, Rubric]:
        await known(log, episode)
        hash_, criteria = await _rubric(log, episode, rubric)
        return await load(log, episode), hash_, criteria

    trajectory, hash_, criteria = with_database(database, read)
    wanted = _wanted(criteria, criterion)
    if value is not None:
        given: Labels = {wanted[0]: (value, note)}
    elif trajectory is None:
        raise UnknownName(f"episode {episode} was deleted just now")
    else:
        given = _ask(trajectory, criteria, wanted, note)

    async def write(log: Database) -> int:
        from judge.keeping import keep_labels

        return await keep_labels(log, episode, who, given, rubric_hash=hash_)

    kept = with_database(database, write) if given else 0
    emit({"episode": episode, "labeller": who, "rubric": hash_, "labels": kept}, as_json,
         lambda: typer.echo(f"{kept} labels kept, by {line(who, 80)}."))  # fmt: skip
    if not kept:
        raise typer.Exit(3)


async def _rubric(log: Database, episode: str, said: str | None) -> tuple[str, Rubric]:
    from judge.finding import DEFAULT, find_rubric
    from judge.rubric import Rubric

    if said is None:
        judged = (await judgements(log, [episode])).get(episode)
        would = await rubric_for(log, episode)
        said = judged[-1].rubric_hash if judged else would.hash if would is not None else DEFAULT
    found = await find_rubric(log, said)
    return found.hash, Rubric.of_content(found.content)


def _wanted(criteria: Rubric, criterion: str | None) -> list[str | None]:
    """Ids, of which None is the episode as a whole."""
    ids = [each.id for each in criteria.criteria]
    if criterion is None:
        return [*ids, None]
    if criterion != OVERALL and criterion not in ids:
        raise UnknownName(
            f"its rubric has no criterion {line(criterion, 80)!r}; there are {', '.join(ids)}, and {OVERALL}"
        )
    return [None if criterion == OVERALL else criterion]


def _ask(trajectory: Trajectory, criteria: Rubric, wanted: list[str | None], note: str | None) -> Labels:
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    for each in timeline(trajectory, SHOWN_CHARS):
        console.print(each)
    texts = {each.id: each.text for each in criteria.criteria}
    pitfalls = {each.id for each in criteria.criteria if each.pitfall}
    given: Labels = {}
    for place, criterion in enumerate(wanted, 1):
        text = "How good is it as a whole?" if criterion is None else texts[criterion]
        mistake = " (a mistake: met means that it was made)" if criterion in pitfalls else ""
        typer.echo(f"\n{place}/{len(wanted)} {criterion or OVERALL}{mistake}\n  {line(text, 1_000)}", err=True)
        answer = typer.prompt(_PROMPT, default="", show_default=False, value_proc=_read, err=True)
        if answer == "":
            continue
        said = note if note is not None else typer.prompt("  why", default="", show_default=False, err=True)
        given[criterion] = (answer, said or None)
    return given


def _read(answer: str) -> float | str | None:
    """Raises BadParameter, upon which it is asked again."""
    answer = answer.strip().lower()
    if answer == "" or answer in ANSWERS:
        return "" if answer == "" else ANSWERS[answer]
    try:
        value = float(answer)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise typer.BadParameter("y, p, n, ? or a number from 0 to 1")
    return value
