"""Whether rewards tell good simulated episodes from bad ones: the only place that reads what the simulator knows.

Above: __main__.py. Below: the log's judgements, and the file of labels beside it. Rubrics from `judge rubric write` and
the default one are told apart, and so are scopes: their rewards are not comparable.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from sqlalchemy import select

from bench.measure import Missing
from judge.default import default_rubric
from proxy.store.database import Database
from proxy.store.judging_tables import JudgementRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """How far rewards of one kind of rubric, in one scope, separate good from bad episodes."""

    rubric: str
    """`default` or `derived`."""
    scope: str
    good: int
    bad: int
    unrewarded: int
    mean_good: float | None
    mean_bad: float | None
    auc: float | None
    """Share of pairs of a good and a bad episode that the rewards put in the right order, ties half; for derived
    rubrics pairs of one rubric, since others do not compare. None without a pair."""


async def separations(database: str, labels: Path) -> list[Separation]:
    """Of all judged episodes that the file knows; the latest judgement by each rubric counts.

    Raises:
        Missing: There is no such file.
    """
    good = {row["episode"]: bool(row["good"]) for row in _rows(labels)}
    default = default_rubric().hash
    log = Database(database)
    columns = (JudgementRow.episode_id, JudgementRow.rubric_hash, JudgementRow.scope, JudgementRow.reward)
    try:
        async with log.reading() as connection:
            statement = select(*columns).order_by(JudgementRow.created_at, JudgementRow.id)
            found = {(row.episode_id, row.rubric_hash): row for row in (await connection.execute(statement)).all()}
    finally:
        await log.close()
    groups: dict[tuple[str, str], list[tuple[str, float | None, bool]]] = defaultdict(list)
    for (episode, rubric), row in found.items():
        if episode in good:
            kind = "default" if rubric == default else "derived"
            groups[kind, row.scope].append((rubric, row.reward, good[episode]))
    return [_separation(kind, scope, rows) for (kind, scope), rows in sorted(groups.items())]


def auc(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Of pairs (reward of a good one, reward of a bad one)."""
    return fmean(1.0 if good > bad else 0.5 if good == bad else 0.0 for good, bad in pairs) if pairs else None


def _separation(kind: str, scope: str, rows: Sequence[tuple[str, float | None, bool]]) -> Separation:
    by_rubric: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for rubric, reward, good in rows:
        if reward is not None:
            by_rubric[rubric][not good].append(reward)
    goods = [reward for good, _ in by_rubric.values() for reward in good]
    bads = [reward for _, bad in by_rubric.values() for reward in bad]
    pairs = [(one, other) for good, bad in by_rubric.values() for one in good for other in bad]
    return Separation(
        rubric=kind,
        scope=scope,
        good=sum(good for _, _, good in rows),
        bad=sum(not good for _, _, good in rows),
        unrewarded=sum(reward is None for _, reward, _ in rows),
        mean_good=fmean(goods) if goods else None,
        mean_bad=fmean(bads) if bads else None,
        auc=auc(pairs),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise Missing(f"there is no file {path}; traffic writes it beside a SQLite log, or where --labels says")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
