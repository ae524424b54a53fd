"""Runs the checks of a rubric over one trajectory.

Above: judging.py. Below: checks/library.py, scope.py. A check is code of ours or of another package, over texts of
strangers: whatever it raises makes its own criterion missing, and nothing else.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from judge.case import Case
from judge.checks.library import Library
from judge.rubric import Criterion, Kind, Rubric, RubricError
from judge.scope import Scope
from judge.verdict import Verdict, Why

logger = logging.getLogger("toolatlas.judge")


def decide(rubric: Rubric, case: Case, library: Library, scope: Scope) -> tuple[Verdict, ...]:
    """One verdict on each criterion, in order; raises nothing.

    Criteria that a model has to decide are left out: as `OUT_OF_SCOPE` where the episode does not show what they need,
    else as `NO_MODEL`, whether there is one or not. Its own verdicts then take the place of these.
    """
    seen = replace(scope, model=True)
    return tuple(_verdict(criterion, rubric, case, library, seen) for criterion in rubric.criteria)


def _verdict(criterion: Criterion, rubric: Rubric, case: Case, library: Library, seen: Scope) -> Verdict:
    if not seen.shows(criterion, library):
        return Verdict(criterion=criterion.id, score=None, why=Why.OUT_OF_SCOPE, note="the episode does not show it")
    if criterion.kind is Kind.JUDGE:
        return Verdict(criterion=criterion.id, score=None, why=Why.NO_MODEL, note="only a model can tell")
    try:
        check = library.of(criterion)
        if check.contents and not case.full:
            return Verdict(criterion=criterion.id, score=None, why=Why.NOT_LOGGED, note="logged without contents")
        found = check(case, criterion.parameters)
        return Verdict(
            criterion=criterion.id,
            score=found.score,
            why=found.why,
            note=found.note,
            steps=found.steps,
            quotes=found.quotes,
        )
    except RubricError as error:
        return _broken(criterion, rubric, case, str(error))
    except Exception as error:
        logger.exception("the check %s failed", criterion.check)
        return _broken(criterion, rubric, case, f"the check {criterion.check} raised {type(error).__name__}")


def _broken(criterion: Criterion, rubric: Rubric, case: Case, note: str) -> Verdict:
    logger.warning(
        "criterion %s of rubric %s cannot be decided of episode %s: %s",
        criterion.id,
        rubric.hash,
        case.trajectory.id,
        note,
    )
    return Verdict(criterion=criterion.id, score=None, why=Why.BROKEN, note=note)
