"""The package's own gold set: in step with the default rubric, balanced, and able to tell judges apart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from judge.case import Case
from judge.checks.library import library
from judge.default import default_rubric
from judge.judging import Judge
from judge.model.endpoint import Cost
from judge.rubric import Kind, Rubric
from judge.scope import Scope
from judge.scripted import Scripted
from judge.settings import ModelSettings, RewardSettings
from judge.trust.agreement import Agreement
from judge.trust.drift import passage
from judge.trust.gold import Gold, run_gold
from judge.trust.gold_files import own_gold
from judge.verdict import Verdict

ASKED = [criterion.id for criterion in default_rubric().criteria if criterion.kind is Kind.JUDGE]


def gold() -> Gold:
    return own_gold(default_rubric())


def test_labels_are_of_the_criteria_that_a_model_decides_and_each_of_those_has_both_kinds() -> None:
    cases = gold().cases
    assert len(cases) >= 16
    said = {criterion: [case.labels[criterion] for case in cases if criterion in case.labels] for criterion in ASKED}
    assert {criterion for case in cases for criterion in case.labels} == set(ASKED)
    for criterion, values in said.items():
        assert values.count(1) >= 4, criterion
        assert values.count(0) >= 4, criterion
    overall = [case.overall for case in cases if case.overall is not None]
    assert min(overall.count(0), overall.count(1)) >= 8


def test_all_of_it_is_in_the_widest_scope_and_may_be_shown_to_anybody() -> None:
    for case in gold().cases:
        assert isinstance(case.trajectory, Scripted)
        assert str(Scope.of(Case(case.trajectory), model=True)) == "calls+task+answer+model"


class Labeller:
    """A model that says what `said` has for a case, and the opposite where it is to be wrong."""

    name = "labeller"
    prompt_hash = "p"
    settings = ModelSettings()

    def __init__(self, said: Mapping[str, Mapping[str, float]], wrong_on: int = 0) -> None:
        self._said = said
        self._wrong_on = wrong_on
        self._count = 0

    def permits(self, case: Case) -> bool:
        return True

    async def decide(self, rubric: Rubric, case: Case, scope: Scope) -> tuple[tuple[Verdict, ...], Cost]:
        labels = self._said[case.trajectory.id]
        found: list[Verdict] = []
        for criterion in ASKED:
            score = labels.get(criterion, 1.0)
            if criterion in labels:
                self._count += 1
                if self._wrong_on and self._count % self._wrong_on == 0:
                    score = 1 - score
            found.append(Verdict(criterion=criterion, score=float(score), repeats=(score,)))
        return tuple(found), Cost(questions=1)

    async def close(self) -> None: ...


async def agreement_of(wrong_on: int = 0) -> Agreement:
    labels = {case.trajectory.id: case.labels for case in gold().cases}
    return await run_gold(Judge(library(), RewardSettings(), Labeller(labels, wrong_on)), gold())


@pytest.mark.anyio
async def test_a_judge_that_says_what_people_said_agrees_fully_and_passes() -> None:
    found = await agreement_of()
    assert found.criteria.kappa == 1.0
    assert found.criteria.pairs == sum(len(case.labels) for case in gold().cases)
    assert passage(found, None).accepted


@pytest.mark.anyio
async def test_a_judge_that_is_often_wrong_is_refused_by_level_and_by_comparison() -> None:
    good, worse, bad = await agreement_of(), await agreement_of(6), await agreement_of(2)
    assert passage(worse, None).accepted
    assert not passage(worse, good).accepted
    assert not passage(bad, None).accepted


@pytest.mark.anyio
async def test_checks_alone_decide_none_of_what_is_labelled_and_reward_good_work_above_bad() -> None:
    found = await run_gold(Judge(library(), RewardSettings()), gold())
    assert found.criteria.pairs == 0
    assert found.overall.missing_share == 0.0
    values = {pair.item: pair.score or 0.0 for pair in found.pairs}
    good = [values[case.name] for case in gold().cases if case.overall == 1]
    bad = [values[case.name] for case in gold().cases if case.overall == 0]
    assert sum(good) / len(good) > sum(bad) / len(bad)
