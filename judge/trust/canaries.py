"""Canaries: trajectories that deserve next to nothing, judged with every batch: who praises one is found out.

Above: running.py, commands/. Below: judging.py, scripted.py, `data/canaries.yaml`. A canary passes only where the judge
found it out: a judge that says nothing of it has no signal, and fails like one that praises it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from judge.case import Case
from judge.judging import Judge, Judged
from judge.rubric import Kind, Rubric
from judge.scripted import Scripted, scripted

MOST = 0.3
"""That a canary may get, and the mean of what a model gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """What one canary got."""

    name: str
    reward: float | None
    passed: bool
    note: str
    """Why it did not pass, in one sentence; empty where it did."""

    def content(self) -> dict[str, Any]:
        """As JSON, for `batches.canaries`."""
        return {"name": self.name, "reward": self.reward, "passed": self.passed, "note": self.note}


async def try_canaries(judge: Judge, rubric: Rubric) -> tuple[CanaryResult, ...]:
    """All canaries by `rubric`, which is a default one: it has to fit any task."""
    return tuple(await asyncio.gather(*(_try(judge, rubric, name, each) for name, each in canaries().items())))


@cache
def canaries() -> dict[str, Scripted]:
    """By name. Each has a task and an answer, so that its scope is the widest."""
    text = files("judge").joinpath("data/canaries.yaml").read_text("utf-8")
    return {name: scripted(script) for name, script in yaml.safe_load(text).items()}


async def _try(judge: Judge, rubric: Rubric, name: str, trajectory: Scripted) -> CanaryResult:
    judged = await judge.judge(rubric, Case(trajectory))
    note = found_out(rubric, judged, model=judge.prompt_hash is not None)
    return CanaryResult(name=name, reward=judged.reward.value, passed=not note, note=note)


def found_out(rubric: Rubric, judged: Judged, *, model: bool) -> str:
    """Why a judge, with a `model` or without, did not find a canary out; empty where it did.

    The reward is at most 0.3. Where a model judges, it really decided something that earns credit, and gave to all such
    criteria a mean of at most 0.3: a cap that a check set is no merit of the model.
    """
    value = judged.reward.value
    if value is None:
        return f"It got no reward: {judged.reward.unrewarded}."
    if value > MOST:
        return f"It got {value:.2f}; at most {MOST} is deserved."
    earning = {each.id for each in rubric.criteria if each.kind is Kind.JUDGE and not each.pitfall}
    asked = [each for each in judged.verdicts if each.criterion in earning]
    if not model or not asked:
        return ""
    if not judged.reward.scope.model:
        return "The model was not shown it."
    decided = [each.score for each in asked if each.score is not None]
    if not decided:
        reasons = sorted({each.why.value for each in asked if each.why is not None})
        return f"The model decided none of its {len(asked)} criteria: {', '.join(reasons)}."
    mean = round(sum(decided) / len(decided), 6)
    return f"The model gave it {mean:.2f}; at most {MOST} is deserved." if mean > MOST else ""
