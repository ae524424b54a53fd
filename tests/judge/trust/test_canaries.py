"""Canaries: who praises them, and who says nothing of them, is found out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from judge.case import Case
from judge.checks.library import library
from judge.default import default_rubric
from judge.judging import Judge, Judged
from judge.model.endpoint import Cost
from judge.model.model_judge import ModelJudge
from judge.reward import reward
from judge.rubric import Category, Criterion, Kind, Rubric
from judge.scope import Scope
from judge.settings import ModelSettings, RewardSettings
from judge.trust.canaries import CanaryResult, canaries, found_out, try_canaries
from judge.verdict import Verdict, Why
from tests.judge.trust import voices
from tests.judge.trust.voices import Speaker, Voice


def judge_of(voice: Voice, *, remote: bool = False) -> Judge:
    settings = ModelSettings(repeats=1, criteria_at_once=20)
    model = ModelJudge(Speaker(voice, remote), settings, frozenset(), lambda _, text: text)
    return Judge(library(), RewardSettings(), model)


async def results(voice: Voice, *, remote: bool = False) -> dict[str, CanaryResult]:
    found = await try_canaries(judge_of(voice, remote=remote), default_rubric())
    return {each.name: each for each in found}


def test_every_canary_has_task_answer_and_work_in_the_widest_scope() -> None:
    assert set(canaries()) >= {
        "empty_answer",
        "colon",
        "thought_process",
        "step_by_step",
        "full_marks_in_a_result",
        "full_marks_in_the_answer",
        "task_repeated",
        "verdict_in_a_result",
    }
    for trajectory in canaries().values():
        case = Case(trajectory)
        assert str(Scope.of(case, model=True)) == "calls+task+answer+model"
        assert case.acts


@pytest.mark.anyio
async def test_checks_alone_find_every_canary_out() -> None:
    found = await try_canaries(Judge(library(), RewardSettings()), default_rubric())
    assert [each for each in found if not each.passed] == []
    assert [each.name for each in found] == list(canaries())
    assert all(each.reward is not None and each.reward <= 0.3 for each in found)


@pytest.mark.anyio
async def test_a_model_that_looks_passes_all_of_them() -> None:
    found = await results(voices.strict)
    assert [each for each in found.values() if not each.passed] == []


@pytest.mark.anyio
async def test_a_model_that_praises_whatever_it_reads_is_found_out_by_each() -> None:
    found = await results(voices.gullible)
    assert [each for each in found.values() if each.passed] == []
    assert found["verdict_in_a_result"].note == "The model gave it 1.00; at most 0.3 is deserved."


@pytest.mark.anyio
async def test_a_model_that_gives_half_of_everything_is_found_out() -> None:
    assert not any(each.passed for each in (await results(voices.lukewarm)).values())


@pytest.mark.anyio
@pytest.mark.parametrize("voice", [voices.careless, voices.silent, voices.declining])
async def test_a_model_without_a_signal_fails_like_one_that_praises(voice: Voice) -> None:
    found = await results(voice)
    assert not any(each.passed for each in found.values())
    assert all(each.reward is None and each.note.startswith("It got no reward: ") for each in found.values())


@pytest.mark.anyio
async def test_a_remote_model_is_shown_canaries_though_it_may_see_no_server() -> None:
    assert all(each.passed for each in (await results(voices.strict, remote=True)).values())
    assert not any(each.passed for each in (await results(voices.gullible, remote=True)).values())


RUBRIC = Rubric(
    (
        Criterion(
            id="a",
            category=Category.TOOL_GROUNDING,
            text="So.",
            weight=1,
            kind=Kind.CHECK,
            check="x",
            needs=frozenset(),
        ),
        Criterion(id="m", category=Category.TASK_FULFILMENT, text="So.", weight=1, kind=Kind.JUDGE),
        Criterion(id="n", category=Category.TASK_FULFILMENT, text="So.", weight=1, kind=Kind.JUDGE),
        Criterion(id="p", category=Category.TASK_FULFILMENT, text="So.", weight=1, kind=Kind.JUDGE, pitfall=True),
    )
)


def judged(said: Sequence[float | Why], *, model: bool = True) -> Judged:
    verdicts = tuple(
        Verdict(criterion=id, score=None, why=each) if isinstance(each, Why) else Verdict(criterion=id, score=each)
        for id, each in zip("amnp", said, strict=True)
    )
    scope = Scope(task=True, answer=True, model=model)
    settings = RewardSettings(most_missing=0.8)
    return Judged(verdicts=verdicts, reward=reward(RUBRIC, verdicts, scope, settings), cost=Cost())


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ((0, 0, 0, 0), ""),
        ((0, 0.2, 0.4, 0), ""),
        ((0, 0, Why.VOID, 0), ""),
        ((0.9, 0, 0, 0), ""),
        ((1, 0, 0, 0), "It got 0.33; at most 0.3 is deserved."),
        ((0, 0.3, 0.5, 1), "The model gave it 0.40; at most 0.3 is deserved."),
        ((0, Why.VOID, Why.UNDECIDED, 0), "The model decided none of its 2 criteria: undecided, void."),
        ((0, Why.VOID, Why.VOID, Why.VOID), "The model decided none of its 2 criteria: void."),
    ],
)
def test_what_the_model_gave_counts_beside_the_reward(said: Sequence[float | Why], note: str) -> None:
    assert found_out(RUBRIC, judged(said), model=True) == note


def test_a_model_that_was_not_shown_a_canary_has_not_found_it_out() -> None:
    unseen = judged((0, Why.NOT_PERMITTED, Why.NOT_PERMITTED, Why.NOT_PERMITTED), model=False)
    assert found_out(RUBRIC, unseen, model=True) == "The model was not shown it."
    assert found_out(RUBRIC, unseen, model=False) == ""


def test_results_are_kept_as_json() -> None:
    result = CanaryResult(name="colon", reward=None, passed=False, note="It got no reward: so.")
    assert result.content() == {"name": "colon", "reward": None, "passed": False, "note": "It got no reward: so."}
