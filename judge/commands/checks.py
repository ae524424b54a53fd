"""`toolatlas rubric checks`: what code can decide.

Above: judge/cli.py. Below: checks/library.py.
"""

from __future__ import annotations

import typer

from judge.commands.options import JsonOption
from proxy.commands.local import emit


def register(family: typer.Typer) -> None:
    family.command("checks")(list_checks)


def list_checks(as_json: JsonOption = False) -> None:
    """What code can decide: the checks with their parameters, those of other packages too."""
    from judge.checks.library import library

    found = sorted(library().values(), key=lambda each: each.name)
    answer = [{"name": each.name, "purpose": each.purpose, "parameters": each.schema()} for each in found]

    def text() -> None:
        for each in found:
            needed = set(each.schema().get("required", ()))
            parameters = (name if name in needed else f"{name}?" for name in each.schema().get("properties", {}))
            typer.echo(f"{each.name}({', '.join(parameters)})")
            typer.echo(f"    {each.purpose.splitlines()[0]}")

    emit(answer, as_json, text)
