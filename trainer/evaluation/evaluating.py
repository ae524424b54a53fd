"""One evaluation, from held-out rows to a report.

Above: the loop, after training. Below: the other modules of this package; the report's types in
proxy/store/training_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio.to_thread

from proxy.router.base import Router
from proxy.store.training_report import Curve, DataUsed, FromLog, OfRouter, Report
from trainer.evaluation.answers import Answer, answered, p95_ms
from trainer.evaluation.changes import changes
from trainer.evaluation.comparing import Comparison, compare, joined
from trainer.evaluation.decisions import decisions
from trainer.evaluation.off_policy import from_log, too_little
from trainer.evaluation.routers import ADAPTER, compared_with, hash_of
from trainer.evaluation.settings import EvaluationSettings
from trainer.evaluation.shown_log import shown_log
from trainer.evaluation.slices import slices
from trainer.evaluation.tasks import HeldOut, held_out, server_of
from trainer.rows import RankingRow, Split

CURVE_POINTS = 400
_SAID = {"step", "kind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What one training held out, and the routers that are asked it: the one under `adapter` has its adapter."""

    split: Split
    routers: Mapping[str, Router]


async def evaluate(
    rows: Sequence[RankingRow],
    split: Split,
    routers: Mapping[str, Router],
    *,
    kind: str,
    facts: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Fold] = (),
    tasks: Sequence[HeldOut] | None = None,
    scopes: Mapping[str, str] | None = None,
    settings: EvaluationSettings | None = None,
) -> Report:
    """Measure `routers` on what was held out, the one under `adapter` against the one under `previous`, or `fused`.

    Computes in a thread. With no held-out task at all the report has no figures, and a note says so.

    Args:
        rows: All of the run.
        routers: By name, as `routers.py` makes them.
        kind: Of the adapter.
        facts: Of the run, as loop/preparing.py writes them: id, command, version, commit, seed, data_hash and data.
        metrics: Lines of training, as loop/metrics.py writes them.
        others: Further trainings that held out something else: figures, slices and changes are of all tasks together,
            each answered by the adapter that was trained without it. With `tasks`, none.
        tasks: Held-out tasks from elsewhere, such as a task file, in place of those of the rows.
        scopes: Episode -> scope of its reward, for slices; without it there are none by scope.
    """
    work = partial(
        _evaluated,
        rows,
        (Fold(split=split, routers=routers), *others),
        kind,
        facts,
        metrics,
        tasks,
        scopes or {},
        settings or EvaluationSettings(),
    )
    return await anyio.to_thread.run_sync(work)


def curves(metrics: Iterable[Mapping[str, Any]]) -> tuple[Curve, ...]:
    """One of each metric and kind, in the order in which they came; of long ones, evenly spaced points and the last."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for line in metrics:
        for name, value in line.items():
            if name not in _SAID and isinstance(value, int | float):
                found.setdefault((name, str(line["kind"])), []).append((int(line["step"]), float(value)))
    made: list[Curve] = []
    for (name, kind), points in found.items():
        each = -(-len(points) // CURVE_POINTS)
        kept = [point for place, point in enumerate(points) if place % each == 0 or place == len(points) - 1]
        steps, values = zip(*kept, strict=True)
        made.append(Curve(name=name, kind=kind, steps=steps, values=values))
    return tuple(made)


def _evaluated(
    rows: Sequence[RankingRow],
    folds: Sequence[Fold],
    kind: str,
    facts: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    given: Sequence[HeldOut] | None,
    scopes: Mapping[str, str],
    settings: EvaluationSettings,
) -> Report:
    split, routers = folds[0].split, folds[0].routers
    before = compared_with(routers)

    def of(episodes: Iterable[str], most: int) -> list[HeldOut]:
        return held_out(rows, episodes, margin=settings.margin, agent_share=settings.agent_share, most=most)

    if given is None:
        most = max(1, settings.most_tasks // len(folds))
        asked = [(fold, of(fold.split.test, most)) for fold in folds]
    else:
        asked = [(folds[0], list(given)[: settings.most_tasks])]
    comparison = joined([compare(fold.routers, its) for fold, its in asked])
    tasks = comparison.tasks
    seen = [known for fold, its in asked for known in [_seen(rows, fold.split)] * len(its)]
    fitted = {name: answered(router, of(split.validation, settings.most_fitted)) for name, router in routers.items()}
    named = slices(tasks, seen=seen, scopes=scopes, agents=settings.agents)
    measured = _routers(comparison, fitted, routers)
    return Report(
        run=str(facts["id"]),
        made_at=datetime.now(UTC),
        command=str(facts["command"]),
        version=str(facts["version"]),
        commit=facts["commit"],
        seed=facts["seed"],
        adapter=hash_of(routers[ADAPTER]) or "",
        kind=kind,
        against=hash_of(routers[before]),
        against_router=before,
        data=_data(facts, len(tasks)),
        routers=measured,
        slices=tuple(comparison.differences(ADAPTER, before, named)),
        from_log=_from_log(rows, split, routers[ADAPTER], settings),
        changed=changes(comparison, ADAPTER, before, settings.examples),
        curves=curves(metrics),
        latency_p95_ms=next(each.p95_ms for each in measured if each.router == ADAPTER),
        notes=tuple(_notes(tasks, measured, given is not None, len(asked))),
    )


def _routers(
    comparison: Comparison, fitted: Mapping[str, Sequence[Answer]], routers: Mapping[str, Router]
) -> tuple[OfRouter, ...]:
    ranked = [len(each.scores) for its in (*comparison.answers.values(), *fitted.values()) for each in its]
    return tuple(
        OfRouter(
            router=name,
            adapter=hash_of(routers[name]),
            figures=comparison.figures(name),
            decisions=decisions(comparison.tasks, answers, fitted[name], max(ranked, default=0)),
            p95_ms=p95_ms(answers),
        )
        for name, answers in comparison.answers.items()
    )


def _seen(rows: Sequence[RankingRow], split: Split) -> frozenset[str]:
    training = frozenset(split.training)
    return frozenset(server_of(used.tool) for row in rows if row.origin.episode_id in training for used in row.used)


def _from_log(rows: Sequence[RankingRow], split: Split, router: Router, settings: EvaluationSettings) -> FromLog:
    """On what was not trained on: an adapter knows what it was trained on."""
    others = frozenset((*split.validation, *split.test))
    own = [row for row in rows if row.origin.episode_id in others]
    # To ask the router about every ranking takes its time.
    nothing = too_little(shown_log(own, None), settings) is not None
    return from_log(shown_log(own, None if nothing else router), settings)


def _data(facts: Mapping[str, Any], tasks: int) -> DataUsed:
    data: Mapping[str, Any] = facts["data"]
    return DataUsed(
        hash=str(facts["data_hash"]),
        episodes=int(data["episodes"]),
        rankings=int(data["rankings"]),
        held_out=tasks,
        scopes=data.get("scopes", {}),
        agents=data.get("agents", {}),
        agents_capped=data.get("agents_capped", {}),
        left_out=data.get("left_out", {}),
        sides=data.get("sides", {}),
        judges=tuple(data.get("judges", ())),
    )


def _notes(tasks: Sequence[HeldOut], measured: Sequence[OfRouter], from_file: bool, folds: int) -> Iterable[str]:
    if not tasks:
        yield "Nothing was measured: of what was held out, no ranking was rewarded well."
    elif from_file:
        yield "The tasks are of a task file, not of the log."
    else:
        yield (
            "The tasks are rankings of the log that came out well, and what was rightly used after them. Agents use "
            "what they are shown, so that this favours what ranked then."
        )
    if tasks and folds > 1:
        yield (
            f"{folds} parts of the log were held out in turn, and each was asked of an adapter that was trained "
            "without it; the adapter of this run is that of the first part."
        )
    if tasks and any(each.decisions is None for each in measured):
        yield "Too few validation rankings were rewarded well to fit temperatures, so that there is no likelihood."
