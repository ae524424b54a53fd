"""`toolatlas rubric list|show|diff|add|attach|detach`: what episodes are judged by.

Above: judge/cli.py. Below: finding.py, keeping.py, rubric_files.py, writing/comparing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from judge.commands.options import JsonOption
from judge.commands.texts import SHORT_HASH, kind_of, line, number
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.errors import ConfigurationError, UnknownName
from proxy.store.database import Database
from proxy.store.rubrics import Attached, Attachment, Rubric, rubrics

if TYPE_CHECKING:
    from judge.rubric import Rubric as Criteria
    from judge.writing.comparing import Comparison, RewardAgreement, Shape

RubricArgument = Annotated[str, typer.Argument(metavar="HASH", help="The beginning of its hash, or `default`.")]
TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="EPISODE", help="For all episodes with the same task as this one.")
]
FamilyOption = Annotated[
    str | None, typer.Option("--family", metavar="ID", help="For all tasks of this family: f_…; see `rubric list`.")
]
DefaultOption = Annotated[bool, typer.Option("--default", help="For whatever has none of its own.")]


def register(family: typer.Typer) -> None:
    family.command("list")(list_rubrics)
    family.command("show")(show)
    family.command("diff")(diff)
    family.command("add")(add)
    family.command("attach")(attach_rubric)
    family.command("detach")(detach)
    family.command("families")(list_families)


def list_rubrics(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """All rubrics of the log, with what they are attached to. Exit code 3 where there are none."""
    found = list(with_database(database, lambda log: rubrics(log)).values())
    answer = [
        {
            "hash": each.hash,
            "writer": each.writer,
            "created_at": each.created_at.isoformat(),
            "attached": [_attached(one) for one in each.attachments],
            "sources": list(each.sources),
        }
        for each in found
    ]

    def text() -> None:
        table = Table("rubric", "writer", "made (UTC)", "criteria", "attached to")
        for each in found:
            places = ", ".join(_place(one) for one in each.attachments)
            made = f"{each.created_at:%Y-%m-%d %H:%M}"
            table.add_row(each.hash[:SHORT_HASH], line(each.writer, 60), made, str(_count(each.content)), places)
        if found:
            wide_console().print(table)

    emit(answer, as_json, text)
    if not found:
        typer.echo("There is no rubric in the log; `toolatlas judge run` puts the default one there.", err=True)
        raise typer.Exit(3)


def show(
    rubric: RubricArgument,
    yaml: Annotated[bool, typer.Option("--yaml", help="As a file that `rubric add` reads.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """The criteria of a rubric, with their weights and who decides them."""
    from judge.finding import find_rubric
    from judge.rubric import Rubric as Criteria

    found = with_database(database, lambda log: find_rubric(log, rubric))
    criteria = Criteria.of_content(found.content)
    if yaml and not as_json:
        from judge.rubric_files import write

        typer.echo(write(criteria), nl=False)
        return
    answer = {"hash": found.hash, "writer": found.writer, "attached": [_attached(one) for one in found.attachments],
              "sources": list(found.sources), "content": found.content}  # fmt: skip

    def text() -> None:
        console = wide_console()
        console.print(f"{found.hash}\nwritten by {line(found.writer)}, {found.created_at:%Y-%m-%d %H:%M} UTC")
        for attachment in found.attachments:
            console.print(f"attached to {_place(attachment)}")
        if found.sources:
            console.print(f"made from {len(found.sources)} episodes, which it never judges")
        for each in _criteria_lines(criteria):
            console.print(each, soft_wrap=True)

    emit(answer, as_json, text)


def diff(
    first: RubricArgument,
    second: Annotated[str, typer.Argument(metavar="HASH", help="The other one.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """What two rubrics have in common, and how far their rewards agree on the episodes that both judged."""
    from judge.finding import find_rubric
    from judge.rubric import Rubric as Criteria
    from judge.writing.comparing import agreement_of, compare

    async def work(log: Database) -> tuple[Rubric, Rubric, dict[str, RewardAgreement]]:
        from judge.queries import rewards_by_judge

        one, other = await find_rubric(log, first), await find_rubric(log, second)
        by_judge, of_other = await rewards_by_judge(log, one.hash), await rewards_by_judge(log, other.hash)
        both = sorted(by_judge.keys() & of_other.keys())
        return one, other, {judge: agreement_of(by_judge[judge], of_other[judge]) for judge in both}

    one, other, agreed = with_database(database, work)
    compared = compare(Criteria.of_content(one.content), Criteria.of_content(other.content))
    answer = {
        "first": {"hash": one.hash, **_shape(compared.first)},
        "second": {"hash": other.hash, **_shape(compared.second)},
        "same": [each.id for each in compared.same],
        "changed": [{"before": each.before.id, "after": each.after.id, "members": list(each.members)}
                    for each in compared.changed],
        "only_first": [each.id for each in compared.only_first],
        "only_second": [each.id for each in compared.only_second],
        "rewards": {judge: asdict(each) for judge, each in agreed.items()},
    }  # fmt: skip
    emit(answer, as_json, lambda: _print_diff(one, other, compared, agreed))


def add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A rubric as YAML; `rubric show --yaml` prints one.")],
    writer: Annotated[str, typer.Option("--writer", metavar="NAME", help="Who wrote it.")] = "person",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a rubric of a file into the log; it judges nothing until it is attached."""
    from judge.checks.library import library
    from judge.keeping import keep_rubric
    from judge.rubric_files import read

    criteria = read(file)
    library().validate(criteria)
    kept = with_database(database, lambda log: keep_rubric(log, criteria, writer=writer))
    emit({"hash": kept}, as_json, lambda: typer.echo(kept))


def attach_rubric(
    rubric: RubricArgument,
    task: TaskOption = None,
    family: FamilyOption = None,
    default: DefaultOption = False,
    database: DatabaseOption = None,
) -> None:
    """Let a rubric judge the episodes of a task, of a family, or whatever has none of its own, from now on."""
    from judge.finding import find_rubric
    from judge.keeping import attach

    async def work(log: Database) -> str:
        found = await find_rubric(log, rubric)
        to, target = await target_of(log, task, family, default)
        await attach(log, found.hash, to, target)
        return f"{found.hash[:SHORT_HASH]} judges {to}{'' if target is None else f' {target}'} from now on."

    typer.echo(with_database(database, work), err=True)


def detach(
    task: TaskOption = None,
    family: FamilyOption = None,
    default: DefaultOption = False,
    database: DatabaseOption = None,
) -> None:
    """Take a rubric out of use; what it judged stays. Without a default, the package's own is one."""
    from judge.keeping import attach

    async def work(log: Database) -> str:
        to, target = await target_of(log, task, family, default)
        await attach(log, None, to, target)
        return f"Nothing is attached to {to}{'' if target is None else f' {target}'} any more."

    typer.echo(with_database(database, work), err=True)


def list_families(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Families of tasks, the largest first; a rubric can be attached to one. Exit code 3 where there are none."""
    from judge.filing import file_episodes
    from judge.queries import Family, families

    async def work(log: Database) -> list[Family]:
        await file_episodes(log)
        return await families(log)

    found = with_database(database, work)

    def text() -> None:
        table = Table("family", "episodes", "tasks", "for example")
        for each in found:
            table.add_row(each.id, f"{each.episodes:,}", f"{each.tasks:,}", line(each.example or "", 80))
        if found:
            wide_console().print(table)

    emit([asdict(each) for each in found], as_json, text)
    if not found:
        typer.echo("No episode has ended whose task is known in its user's words.", err=True)
        raise typer.Exit(3)


async def target_of(log: Database, task: str | None, family: str | None, default: bool) -> tuple[Attached, str | None]:
    """What is meant, and its key or id.

    Raises:
        ConfigurationError: Not exactly one is given, or the episode has no task in its user's words.
        UnknownName: There is no such episode or family.
    """
    from judge.queries import is_family, task_key_of

    if (task is not None) + (family is not None) + default != 1:
        raise ConfigurationError("say one of --task EPISODE, --family ID and --default")
    if task is not None:
        return Attached.TASK, await task_key_of(log, task)
    if family is None:
        return Attached.DEFAULT, None
    if not await is_family(log, family):
        raise UnknownName(f"there is no family {line(family, 80)!r}; `toolatlas rubric families` shows them")
    return Attached.FAMILY, family


def _attached(attachment: Attachment) -> dict[str, str | None]:
    return {"scope": attachment.scope, "target": attachment.target}


def _place(attachment: Attachment) -> str:
    return attachment.scope if attachment.target is None else f"{attachment.scope} {attachment.target}"


def _count(content: Any) -> int:
    return len(content.get("criteria", ())) if isinstance(content, dict) else 0  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _criteria_lines(rubric: Criteria) -> Iterator[str]:
    category = None
    for each in sorted(rubric.criteria, key=lambda each: list(type(each.category)).index(each.category)):
        if each.category is not category:
            category = each.category
            yield f"\n{category}"
        yield f"  {each.id} ({kind_of(each)})"
        yield f"    {line(each.text, 1_000)}"


def _shape(shape: Shape) -> dict[str, Any]:
    return {
        "criteria": shape.criteria,
        "weights": {category.value: share for category, share in shape.weights.items()},
        "counts": {category.value: count for category, count in shape.counts.items()},
        "checks": shape.checks,
        "off_paper": shape.off_paper,
    }


def _print_diff(one: Rubric, other: Rubric, compared: Comparison, agreed: dict[str, RewardAgreement]) -> None:
    console = wide_console()
    table = Table("", one.hash[:SHORT_HASH], other.hash[:SHORT_HASH])
    table.add_row("criteria", str(compared.first.criteria), str(compared.second.criteria))
    table.add_row("decided by code", f"{compared.first.checks:.0%}", f"{compared.second.checks:.0%}")
    for category, share in compared.first.weights.items():
        table.add_row(f"weight of {category}", f"{share:.0%}", f"{compared.second.weights[category]:.0%}")
    table.add_row("off the paper's 5/3/2/2", f"{compared.first.off_paper:.0%}", f"{compared.second.off_paper:.0%}")
    console.print(table)
    console.print(f"{len(compared.same)} criteria are the same")
    for change in compared.changed:
        console.print(f"~ {change.before.id} -> {change.after.id}: {', '.join(change.members)}", soft_wrap=True)
    for sign, criteria in (("-", compared.only_first), ("+", compared.only_second)):
        for each in criteria:
            console.print(f"{sign} {each.id} ({kind_of(each)}): {line(each.text)}", soft_wrap=True)
    for judge, each in agreed.items():
        rank = each.why if each.rank_correlation is None else f"rank correlation {each.rank_correlation:.2f}"
        console.print(
            f"rewards by {judge} on {each.episodes} episodes: {rank}, mean difference {number(each.mean_difference)}",
            soft_wrap=True,
        )
