"""`toolatlas rubric write`: has rubrics written, by code from good episodes or by a model.

Above: judge/cli.py. Below: authoring.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge.commands.options import (
    JsonOption,
    ModelOption,
    SendServerOption,
    UrlOption,
    endpoint_of,
    endpoint_settings,
    redactor,
)
from judge.commands.rubrics import FamilyOption, TaskOption, target_of
from judge.commands.texts import SHORT_HASH, line
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.errors import ConfigurationError
from proxy.store.database import Database

if TYPE_CHECKING:
    from judge.authoring import Target, Written
    from judge.settings import EndpointSettings


def register(family: typer.Typer) -> None:
    family.command("write")(write)


def write(
    derived: Annotated[
        bool, typer.Option("--derived", help="By code, from what good episodes of the same kind have in common.")
    ] = False,
    model: ModelOption = None,
    url: UrlOption = None,
    send_server: SendServerOption = None,
    task: TaskOption = None,
    family: FamilyOption = None,
    attach: Annotated[bool, typer.Option("--attach", help="Let each judge what it was written for.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a rubric for one task, for one family, or for each family that has good episodes enough.

    A rubric never judges the episodes that it was made from: at most half of a group is taken. Exit code 3 where
    nothing could be written.
    """
    endpoint = None if derived else endpoint_settings(url, model, send_server)
    if not derived and endpoint is None:
        raise ConfigurationError("say who writes: --derived, or a model by --url and --model")

    async def work(log: Database) -> tuple[list[Written], list[str]]:
        return await _write(log, await _targets(log, task, family), endpoint, attach)

    done, failed = with_database(database, work)

    def text() -> None:
        for each in done:
            attached = ", attached" if attach else ""
            typer.echo(
                f"{each.hash[:SHORT_HASH]}  {each.target.kind} {each.target.id}: {len(each.rubric.criteria)} criteria "
                f"by {each.writer} from {len(each.sources)} episodes{attached}"
            )

    emit([_answer(each, attach) for each in done], as_json, text)
    for each in failed:
        typer.echo(each, err=True)
    if not done:
        raise typer.Exit(3)


async def _targets(log: Database, task: str | None, family: str | None) -> list[Target]:
    from judge.authoring import Target
    from judge.filing import file_episodes
    from judge.queries import families
    from proxy.store.rubrics import Attached

    await file_episodes(log)
    if task is None and family is None:
        return [Target(Attached.FAMILY, each.id) for each in await families(log)]
    kind, id_ = await target_of(log, task, family, False)
    assert id_ is not None
    return [Target(kind, id_)]


async def _write(
    log: Database, targets: list[Target], endpoint: EndpointSettings | None, attach: bool
) -> tuple[list[Written], list[str]]:
    from judge.authoring import attach_written, narrowed, write_derived, write_modelled
    from judge.checks.library import library

    checks = library()
    model = None if endpoint is None else endpoint_of(endpoint)
    done: list[Written] = []
    failed: list[str] = []

    async def one(target: Target) -> Written:
        if endpoint is None or model is None:
            return await write_derived(log, await narrowed(log, target), checks)
        return await write_modelled(log, target, model, checks, permitted=endpoint.servers, redact=redactor())

    try:
        for target in targets:
            try:
                written = await one(target)
            except ConfigurationError as error:
                failed.append(f"{target.kind} {target.id}: {line(str(error), 400)}")
                continue
            if attach:
                await attach_written(log, written)
            done.append(written)
    finally:
        if model is not None:
            await model.close()
    return done, failed


def _answer(written: Written, attached: bool) -> dict[str, Any]:
    return {
        "scope": written.target.kind.value,
        "target": written.target.id,
        "hash": written.hash,
        "writer": written.writer,
        "criteria": len(written.rubric.criteria),
        "sources": list(written.sources),
        "attached": attached,
    }
