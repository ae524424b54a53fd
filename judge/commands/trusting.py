"""`toolatlas judge agreement`, `judge calibrate` and `judge gold freeze`: how far judges say what people say.

Above: judge/cli.py. Below: labelled.py, calibrating.py, trust/.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from judge.commands.options import JsonOption, WeightsOption, reward_settings
from judge.commands.texts import number
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.errors import ConfigurationError
from proxy.store.database import Database

if TYPE_CHECKING:
    from judge.trust.agreement import Agreement, Measures
    from judge.trust.gold import GoldCase


class By(StrEnum):
    """What agreement is shown by."""

    JUDGE = "judge"
    CRITERION = "criterion"


JudgeOption = Annotated[str | None, typer.Option("--judge", metavar="NAME", help="Only this judge; see `judge show`.")]


def register(family: typer.Typer) -> None:
    family.command("agreement")(agreement)
    family.command("calibrate")(calibrate_judge)
    gold = typer.Typer(help="Frozen sets that judges are measured on.", no_args_is_help=True)
    gold.command("freeze")(freeze_gold)
    family.add_typer(gold, name="gold")


def agreement(
    by: Annotated[By, typer.Option("--by", help="One line a judge, or one a judge and criterion.")] = By.JUDGE,
    judge: JudgeOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """How far judges agree with the labels that people gave. Exit code 3 without labels on judged episodes."""
    from judge.labelled import pairs
    from judge.trust.agreement import agreements

    found = with_database(database, lambda log: pairs(log, judge=judge))
    measured = agreements(found)
    emit([{key: value for key, value in each.content().items() if key != "pairs"} for each in measured], as_json,
         lambda: _print(measured, by))  # fmt: skip
    if not measured:
        typer.echo("No judged episode has a label; `toolatlas label EPISODE` adds one.", err=True)
        raise typer.Exit(3)


def calibrate_judge(
    judge: Annotated[str, typer.Argument(metavar="JUDGE", help="Name of a judge with a model; see `judge show`.")],
    weights: WeightsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the scores of a judge's model to people's labels, and make new judgements of its stored verdicts.

    Takes at least 50 labels; no model is asked. The judgements stand beside the others, under the name of the
    calibrated judge.
    """
    from judge.calibrating import calibrate

    settings = reward_settings(weights)
    done = with_database(database, lambda log: calibrate(log, judge, settings))
    calibration = done.calibration
    answer = {
        "judge": calibration.name,
        "labels": calibration.labels,
        "maps": calibration.content(),
        "judgements": done.judgements,
        "skipped": done.skipped,
    }

    def text() -> None:
        typer.echo(
            f"{calibration.name}: fitted to {calibration.labels:,} labels, {done.judgements:,} judgements are new."
        )
        if done.skipped:
            typer.echo(f"{done.skipped:,} were left out: their scope was not noted when they were judged.")

    emit(answer, as_json, text)


def freeze_gold(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="For its owner alone.")],
    database: DatabaseOption = None,
) -> None:
    """Write all labelled episodes as a gold set for `judge run --gold`. It holds what agents and servers said."""
    from judge.trust.gold_files import freeze

    cases = with_database(database, _gold_cases)
    _write(output, freeze(cases))
    typer.echo(f"{len(cases):,} labelled episodes are frozen in {output}.", err=True)


async def _gold_cases(log: Database) -> list[GoldCase]:
    """One a labelled episode, its criteria by the rubric that has the most labels there; of several people the mean."""
    from collections import Counter

    from judge.finding import DEFAULT, criteria_of
    from judge.labelled import labelled, mean_labels
    from judge.loading import Loader
    from judge.rubric import Rubric
    from judge.trust.gold import GoldCase

    loader, cases = Loader(log), list[GoldCase]()
    rubrics: dict[str, Rubric] = {}
    async for episode_id, said, _ in labelled(log):
        case = await loader.one(episode_id)
        if case is None:
            continue
        named = Counter(
            each.rubric_hash for each in said if each.criterion is not None and each.rubric_hash is not None
        )
        rubric = named.most_common(1)[0][0] if named else DEFAULT
        if rubric not in rubrics:
            rubrics[rubric] = await criteria_of(log, rubric)
        means = mean_labels(said, rubric)
        known = {criterion.id for criterion in rubrics[rubric].criteria}
        by_criterion = {criterion: value for criterion, value in means.items() if criterion in known}
        cases.append(
            GoldCase(
                name=episode_id,
                trajectory=case.trajectory,
                catalogue=case.catalogue,
                rubric=rubrics[rubric],
                labels={str(criterion): value for criterion, value in by_criterion.items()},
                overall=means.get(None),
            )
        )
    return cases


def _print(measured: Sequence[Agreement], by: By) -> None:
    table = Table("judge", "of", caption="kappa: 1 is agreement, 0 what chance gives; met means at least 0.5")
    for title in ("labels", "missing", "kappa", "95 %", "weighted", "rank", "calibration error"):
        table.add_column(title, justify="right")
    for each in measured:
        rows = each.by_criterion if by is By.CRITERION else {"criteria": each.criteria, "reward": each.overall}
        for of, measures in rows.items():
            if measures.pairs:
                table.add_row(each.judge, of, *_cells(measures))
    wide_console().print(table)


def _cells(measures: Measures) -> list[str]:
    low, high = measures.kappa_low, measures.kappa_high
    return [
        f"{measures.pairs:,}",
        "-" if measures.missing_share is None else f"{measures.missing_share:.0%}",
        number(measures.kappa),
        "-" if low is None or high is None else f"{low:.2f} to {high:.2f}",
        number(measures.weighted_kappa),
        number(measures.spearman),
        number(measures.ece),
    ]


def _write(path: Path, text: str) -> None:
    draft = None
    try:
        # Mode 0600, and it stays so.
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError as error:
        if draft is not None:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error
