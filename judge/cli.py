"""The commands `toolatlas judge`, `rubric` and `label`, which join by the entry point group `toolatlas.commands`.

Above: proxy/cli.py. Below: commands/. They are built with every start of `toolatlas`, whatever it is to do: what
judging needs is imported when it judges.
"""

from __future__ import annotations

import typer

from judge.commands import checks, labelling, rubrics, run, show, trusting, writing


def register(app: typer.Typer) -> None:
    """Add the families."""
    judge = typer.Typer(help="Rewards for what agents did: judge episodes, and judge the judge.", no_args_is_help=True)
    run.register(judge)
    show.register(judge)
    trusting.register(judge)
    app.add_typer(judge, name="judge")
    rubric = typer.Typer(help="What episodes are judged by.", no_args_is_help=True)
    rubrics.register(rubric)
    writing.register(rubric)
    checks.register(rubric)
    app.add_typer(rubric, name="rubric")
    labelling.register(app)
