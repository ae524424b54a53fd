"""`toolatlas train export`: rows of the log for trainers of others.

Above: trainer/cli.py. Below: trainer/online/verl.py. What comes out is as private as the log.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from judge.commands.options import AgentOption, BeforeOption, ServerOption, SinceOption, filters_of
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.errors import ConfigurationError
from proxy.store.database import Database
from trainer.commands.adapters import JsonOption

FORMATS = ("verl",)


def register(family: typer.Typer) -> None:
    family.command("export")(export)


def export(
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where the files go.")],
    format: Annotated[str, typer.Option("--format", help="verl: Parquet for its agent loop and its SFT.")] = "verl",
    least_reward: Annotated[
        float, typer.Option("--least-reward", min=0.0, max=1.0, help="Of episodes that are to be imitated.")
    ] = 0.7,
    variant: Annotated[
        str, typer.Option("--variant", help="How the policy gets to see tools: tools or code.")
    ] = "tools",
    agent: AgentOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: ServerOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write judged tasks and good episodes of the log for another trainer."""
    from proxy.policy.making import variant_of
    from trainer.data.policy_rows import Unfit
    from trainer.online.verl import export_verl

    if format not in FORMATS:
        raise ConfigurationError(f"--format is one of {', '.join(FORMATS)}, not {format!r}")
    chosen, unfit = variant_of(variant), Counter[Unfit]()

    async def work(log: Database) -> dict[str, int]:
        filters = filters_of(agent, since, before, server)
        return await export_verl(log, to, filters=filters, least_reward=least_reward, variant=chosen, unfit=unfit)

    written = with_database(database, work)

    def text() -> None:
        for name, count in written.items():
            typer.echo(f"{to / name}: {count:,} rows")
        for why, count in unfit.items():
            typer.echo(f"{count:,} episodes left out: {why}")

    emit({"files": written, "left_out": dict(unfit)}, as_json, text)
