"""Gold sets: trajectories with what people said of them, frozen and named by hash, to measure a judge on.

Above: running.py, commands/, drift.py by what they measure. Below: judging.py, agreement.py. gold_files.py reads and
writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from judge.case import Case
from judge.judging import Judge
from judge.rubric import Kind, Rubric
from judge.trust.agreement import Agreement, Pair, agreement
from proxy.store.catalogues import Catalogue
from proxy.store.trajectory import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldCase:
    """One trajectory and its labels."""

    name: str
    trajectory: Trajectory
    catalogue: Catalogue | None
    """With the definitions of the tools that were called, where they are known."""
    rubric: Rubric
    labels: Mapping[str, float]
    """0 to 1, by criterion of `rubric`."""
    overall: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A frozen set."""

    hash: str
    """64 hexadecimal digits, of everything that the file says and of the rubrics that it names."""
    cases: tuple[GoldCase, ...]


async def run_gold(judge: Judge, gold: Gold) -> Agreement:
    """What `judge` says of the whole set, against its labels. Criteria that are left out for it are no pairs.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    found = await asyncio.gather(*(_pairs(judge, case) for case in gold.cases))
    return agreement(judge.name, [pair for pairs in found for pair in pairs], gold=gold.hash)


async def _pairs(judge: Judge, case: GoldCase) -> list[Pair]:
    judged = await judge.judge(case.rubric, Case(case.trajectory, case.catalogue))
    kinds = {criterion.id: criterion.kind for criterion in case.rubric.criteria}

    def pair(criterion: str | None, score: float | None, human: float, *, by_model: bool) -> Pair:
        return Pair(judge=judge.name, item=case.name, criterion=criterion, by_model=by_model, score=score, human=human)

    pairs = [
        pair(each.criterion, each.score, case.labels[each.criterion], by_model=kinds[each.criterion] is Kind.JUDGE)
        for each in judged.verdicts
        if each.criterion in case.labels and not (each.why is not None and each.why.left_out)
    ]
    if case.overall is not None:
        pairs.append(pair(None, judged.reward.value, case.overall, by_model=judged.reward.scope.model))
    return pairs
