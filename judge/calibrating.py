"""A calibrated judge: the verdicts that a judge gave, moved to what people say, with the rewards that follow.

Above: commands/trusting.py. Below: labelled.py, trust/calibration.py, reward.py, keeping.py. No model is asked again:
all comes from what is stored, and is stored under the calibrated judge's own name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from judge.claims import Claim
from judge.judging import Judged
from judge.keeping import keep_calibration, keep_judgements
from judge.labelled import pairs
from judge.model.endpoint import Cost
from judge.reward import reward
from judge.rows import row_of
from judge.rubric import Rubric
from judge.scope import Scope
from judge.settings import RewardSettings
from judge.trust.calibration import Calibration, calibrated, fit
from judge.verdict import Verdict
from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.judgements import UNKNOWN_SCOPE, Judgement
from proxy.store.rubrics import rubrics
from proxy.store.tables import JudgementRow

AT_ONCE = 200
_SAME = 1e-9
"""How far two sums of the same numbers may be apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What was done."""

    calibration: Calibration
    judgements: int
    """Written now; those of before are there already."""
    skipped: int
    """Whose scope is not known."""


async def calibrate(database: Database, judge: str, settings: RewardSettings) -> Calibrated:
    """Fit a calibration of `judge` to all labels, and judge by it whatever `judge` has judged.

    Raises:
        TooFewLabels: There are not enough labels.
        ConfigurationError: `settings` are not those by which the judge's rewards were made.
    """
    calibration = fit(judge, await pairs(database, judge=judge))
    content, labels = calibration.content(), calibration.labels
    await keep_calibration(database, hash=calibration.hash, judge=judge, content=content, labels=labels)
    known: dict[str, Rubric] = {}
    written = skipped = 0
    async for page in _judged_by(database, judge):
        new = {each.rubric_hash for each in page} - known.keys()
        known |= {hash_: Rubric.of_content(each.content) for hash_, each in (await rubrics(database, new)).items()}
        told = [each for each in page if each.scope != UNKNOWN_SCOPE and each.rubric_hash in known]
        skipped += len(page) - len(told)
        written += await keep_judgements(
            database, [_row(each, known[each.rubric_hash], calibration, settings) for each in told]
        )
    return Calibrated(calibration=calibration, judgements=written, skipped=skipped)


def _row(judgement: Judgement, rubric: Rubric, calibration: Calibration, settings: RewardSettings) -> Mapping[str, Any]:
    scope = Scope.read(judgement.scope)
    given = tuple(Verdict.of_content(each) for each in judgement.verdicts)
    before = reward(rubric, given, scope, settings).value
    if not _same(before, judgement.reward):
        raise ConfigurationError(
            f"{judgement.judge} made its rewards by other settings than these: episode {judgement.episode_id} has "
            f"{judgement.reward}, and would have {before}; give --weights as it was judged by"
        )
    moved = calibrated(given, calibration)
    judged = Judged(verdicts=moved, reward=reward(rubric, moved, scope, settings), cost=Cost())
    claim = Claim(judgement.episode_id, judgement.rubric_hash)
    row = row_of(claim, judged, judge=calibration.name, repeat=judgement.repeat)
    return row | {"prompt_hash": judgement.prompt_hash}


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < _SAME


async def _judged_by(database: Database, judge: str) -> AsyncIterator[Sequence[Judgement]]:
    after = ""
    while True:
        statement = select(JudgementRow.__table__).where(JudgementRow.judge == judge, JudgementRow.id > after)
        async with database.reading() as connection:
            rows = (await connection.execute(statement.order_by(JudgementRow.id).limit(AT_ONCE))).mappings().all()
        if not rows:
            return
        after = rows[-1]["id"]
        yield [Judgement(**row) for row in rows]
