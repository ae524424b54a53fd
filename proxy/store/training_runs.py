"""Reports of training in the store, so that any replica of the gateway can show them.

Above: trainer/, which saves them; dashboard/training.py. Below: training_report.py and training_tables.py. Examples lie
beside their report, each with the episode whose words it is in: what is deleted of the log is gone from here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.tables import EpisodeRow, TrainingExampleRow, TrainingReportRow
from proxy.store.training_report import Report

MOST = 100
"""Runs in a list."""


async def save(database: Database, report: Report) -> None:
    """Add a report; of several of one run, the latest counts.

    Differences of single tasks are not kept, which the registry has for the gates, nor are examples of episodes that
    were deleted meanwhile.
    """
    slim = replace(
        report, slices=tuple(replace(each, differences=(), clusters=()) for each in report.slices), changed=()
    )
    examples = report.to_json()["changed"]
    async with database.writing() as connection:
        values = {
            "run": report.run,
            "adapter_hash": report.adapter,
            "made_at": report.made_at,
            "report": slim.to_json(),
        }
        made = await connection.execute(insert(TrainingReportRow).values(values).returning(TrainingReportRow.id))
        number = made.scalar_one()
        there = await _there(connection, {each["episode_id"] for each in examples} - {None})
        rows: list[Mapping[str, Any]] = [
            {"report_id": number, "episode_id": each["episode_id"], "example": each}
            for each in examples
            if each["episode_id"] is None or each["episode_id"] in there
        ]
        if rows:
            await connection.execute(insert(TrainingExampleRow), rows)


async def recent(database: Database) -> list[Report]:
    """The latest report of each run, without examples; the newest run first, at most `MOST`.

    Reports of another version, which cannot be read, are left out.
    """
    latest = select(func.max(TrainingReportRow.id)).group_by(TrainingReportRow.run)
    statement = (
        select(TrainingReportRow.report)
        .where(TrainingReportRow.id.in_(latest))
        .order_by(TrainingReportRow.made_at.desc(), TrainingReportRow.id.desc())
        .limit(MOST)
    )
    found: list[Report] = []
    async with database.reading() as connection:
        for report in (await connection.execute(statement)).scalars():
            try:
                found.append(Report.of(report))
            except ValueError:
                continue
    return found


async def read(database: Database, run: str) -> Report | None:
    """The latest report of a run, with the examples whose episodes are still there; None where there is none.

    Raises:
        ValueError: It is of another version.
    """
    statement = (
        select(TrainingReportRow.id, TrainingReportRow.report)
        .where(TrainingReportRow.run == run)
        .order_by(TrainingReportRow.id.desc())
        .limit(1)
    )
    async with database.reading() as connection:
        row = (await connection.execute(statement)).one_or_none()
        if row is None:
            return None
        examples = (
            select(TrainingExampleRow.example)
            .where(TrainingExampleRow.report_id == row.id)
            .order_by(TrainingExampleRow.id)
        )
        changed = list((await connection.execute(examples)).scalars())
    return Report.of({**row.report, "changed": changed})


async def _there(connection: AsyncConnection, episodes: set[str]) -> frozenset[str]:
    """Those of the episodes that are in the log; none of them goes before the transaction ends."""
    statement = select(EpisodeRow.id).where(EpisodeRow.id.in_(episodes)).order_by(EpisodeRow.id)
    found = await connection.execute(statement.with_for_update(read=True, key_share=True))
    return frozenset(found.scalars())
