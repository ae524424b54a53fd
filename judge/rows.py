"""What was judged as rows of `judgements`, also where judging itself failed.

Above: running.py, calibrating.py. Below: judging.py, claims.py.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from judge.case import Case
from judge.claims import Claim
from judge.judging import Judged
from judge.model.endpoint import Cost
from judge.reward import Reward
from judge.rubric import Category, Rubric
from judge.scope import Scope
from judge.verdict import Verdict, Why

log = logging.getLogger(__name__)

REASON_CHARS = 200


def row_of(claim: Claim, judged: Judged, *, judge: str, repeat: int) -> dict[str, Any]:
    """A row of `judgements`."""
    reward = judged.reward
    return {
        "id": f"j_{secrets.token_hex(12)}",
        "episode_id": claim.episode_id,
        "rubric_hash": claim.rubric_hash,
        "judge": judge,
        "prompt_hash": None,
        "seed": None,
        "verdicts": [verdict.content() for verdict in judged.verdicts],
        "subtotals": {category.value: subtotal for category, subtotal in reward.subtotals.items()},
        "reward": reward.value,
        "cost": judged.cost.content() if judged.cost.questions else None,
        "created_at": datetime.now(UTC),
        "repeat": repeat,
        "scope": str(reward.scope),
        "unrewarded": reward.unrewarded[:REASON_CHARS] or None,
        "credits": None if reward.value is None else dict(reward.credits),
        "batch": None,
    }


def failed(rubric: Rubric, case: Case | None, error: Exception) -> Judged:
    """Of an episode on which our own code failed: nothing is known, and nobody is to think that it was bad."""
    note = f"judging failed: {type(error).__name__}"
    verdicts = tuple(
        Verdict(criterion=criterion.id, score=None, why=Why.BROKEN, note=note) for criterion in rubric.criteria
    )
    nothing: Mapping[Category, float | None] = dict.fromkeys(Category)
    reward = Reward(
        scope=_scope(case),
        value=None,
        unrewarded=note,
        subtotals=nothing,
        missing_share=1.0,
        capped_by=(),
        credits={},
    )
    return Judged(verdicts=verdicts, reward=reward, cost=Cost())


def _scope(case: Case | None) -> Scope:
    try:
        if case is not None:
            return Scope.of(case, model=False)
    except Exception:
        log.debug("what failed is the case itself", exc_info=True)
    return Scope(task=False, answer=False, model=False)
