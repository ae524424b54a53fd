"""The judge as a whole: what code and a model said becomes one reward, in one scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from judge.case import Case
from judge.checks.base import Finding, check, partly
from judge.checks.library import REVISION, Library
from judge.judging import Judge, Judged
from judge.model.endpoint import Cost
from judge.rubric import Category, Criterion, Kind, Need, Rubric
from judge.scope import Scope
from judge.scripted import scripted
from judge.settings import ModelSettings, RewardSettings
from judge.verdict import Verdict, Why
from proxy.store.recorder import Level

pytestmark = pytest.mark.anyio

STEPS: list[dict[str, Any]] = [{"time.now": {"zone": "Europe/Oslo"}, "gives": "14:05"}]
SCRIPT: dict[str, Any] = {"task": "What time is it in Oslo?", "answer": "14:05", "steps": STEPS}


@check("share")
def share(case: Case, *, score: float) -> Finding:
    """As much as it was told."""
    return partly(score, "As told.", acts=case.acts)


@check("answered", needs=(Need.ANSWER,))
def answered(case: Case) -> Finding:
    """There is an answer."""
    return partly(1.0, "")


LIBRARY = Library({"share": share, "answered": answered})


def checked(id: str, check: str = "share", **parameters: Any) -> Criterion:
    return Criterion(
        id=id,
        category=Category.TOOL_GROUNDING,
        text="So.",
        weight=5,
        kind=Kind.CHECK,
        check=check,
        parameters=parameters,
        needs=frozenset(),
    )


def judged_by_model(id: str, *needs: Need, essential: bool = False) -> Criterion:
    return Criterion(
        id=id,
        category=Category.TASK_FULFILMENT,
        text="So.",
        weight=5,
        kind=Kind.JUDGE,
        needs=frozenset(needs),
        essential=essential,
    )


@dataclass
class Told:
    """A model that says what it was told, and notes what it was asked."""

    score: float | None = 1.0
    name: str = "told"
    prompt_hash: str = "p1"
    settings: ModelSettings = field(default_factory=ModelSettings)
    permitted: Callable[[Case], bool] = lambda _: True
    asked: list[Scope] = field(default_factory=list[Scope])
    closed: bool = False

    def permits(self, case: Case) -> bool:
        return self.permitted(case)

    async def decide(self, rubric: Rubric, case: Case, scope: Scope) -> tuple[tuple[Verdict, ...], Cost]:
        self.asked.append(scope)
        said = [
            Verdict(criterion=each.id, score=self.score, why=Why.VOID if self.score is None else None)
            for each in rubric.criteria
            if each.kind is Kind.JUDGE
        ]
        return tuple(said), Cost(questions=1)

    async def close(self) -> None:
        self.closed = True


MIXED = Rubric((judged_by_model("m", Need.TASK), checked("a", score=0.5), judged_by_model("n")))


def case(level: Level = Level.FULL, **changed: Any) -> Case:
    return Case(scripted({**SCRIPT, **changed}, level=level))


async def judge(model: Told | None, rubric: Rubric = MIXED, of: Case | None = None) -> Judged:
    return await Judge(LIBRARY, RewardSettings(), model).judge(rubric, of or case())


def whys(judged: Judged) -> list[Why | None]:
    return [verdict.why for verdict in judged.verdicts]


async def test_checks_alone_leave_out_what_only_a_model_can_tell() -> None:
    found = await judge(None)
    assert [verdict.criterion for verdict in found.verdicts] == ["m", "a", "n"]
    assert whys(found) == [Why.NO_MODEL, None, Why.NO_MODEL]
    assert (found.reward.value, str(found.reward.scope), found.cost) == (0.5, "calls+task+answer", Cost())
    assert found.reward.credits == {found.verdicts[1].steps[0]: 0.0}


async def test_verdicts_of_the_model_stand_at_their_criteria_places() -> None:
    model = Told(1.0)
    found = await judge(model)
    assert [verdict.score for verdict in found.verdicts] == [1.0, 0.5, 1.0]
    assert found.reward.value == pytest.approx((0.4 + 0.2 * 0.5) / 0.6)
    assert str(found.reward.scope) == "calls+task+answer+model"
    assert model.asked == [found.reward.scope]
    assert found.cost == Cost(questions=1)


async def test_what_the_model_could_not_tell_is_missing_in_a_scope_with_it() -> None:
    found = await judge(Told(None))
    assert (found.reward.value, found.reward.missing_share) == (None, pytest.approx(0.4 / 0.6))


@pytest.mark.parametrize(
    ("permitted", "level", "why"),
    [(False, Level.FULL, Why.NOT_PERMITTED), (True, Level.METADATA, Why.NOT_LOGGED)],
)
async def test_an_episode_that_the_model_may_not_see_is_judged_in_the_scope_without_it(
    permitted: bool, level: Level, why: Why
) -> None:
    model = Told(permitted=lambda _: permitted)
    rubric = Rubric((judged_by_model("m", essential=True), checked("a", score=0.5)))
    found = await judge(model, rubric, case(level))
    assert found.verdicts[0].why is why
    assert found.verdicts[0].note
    assert not found.reward.scope.model
    assert found.reward.unrewarded != "the essential criterion m could not be decided"
    assert model.asked == []


async def test_without_permission_the_reward_is_that_of_the_checks_alone() -> None:
    found, alone = await judge(Told(permitted=lambda _: False)), await judge(None)
    assert found.reward == alone.reward


async def test_what_the_episode_does_not_show_is_out_of_scope_whatever_the_model_says_of_it() -> None:
    found = await judge(Told(0.0), of=case(task=None))
    assert whys(found) == [Why.OUT_OF_SCOPE, None, None]
    assert str(found.reward.scope) == "calls+answer+model"


async def test_the_model_is_not_asked_where_nothing_is_left_for_it() -> None:
    model = Told()
    await judge(model, Rubric((checked("a", score=1.0),)))
    await judge(model, Rubric((judged_by_model("m", Need.TASK), checked("a", score=1.0))), case(task=None))
    assert model.asked == []


async def test_a_check_that_needs_what_was_not_seen_is_left_out() -> None:
    rubric = Rubric((checked("a", score=0.5), checked("b", "answered")))
    assert whys(await judge(None, rubric, case(answer=None))) == [None, Why.OUT_OF_SCOPE]
    assert whys(await judge(None, rubric)) == [None, None]


async def test_many_judgements_in_a_row_let_others_run() -> None:
    turns: list[int] = []

    async def other() -> None:
        for turn in range(20):
            turns.append(turn)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        for _ in range(10):
            await judge(None)
        assert len(turns) >= 5


def names(judges: Sequence[Judge]) -> list[str]:
    return [each.name for each in judges]


def test_the_name_tells_apart_all_that_may_decide_otherwise() -> None:
    lenient = RewardSettings(most_missing=0.5)
    model = Told()
    others = [
        Judge(LIBRARY, RewardSettings()),
        Judge(LIBRARY, lenient),
        Judge(LIBRARY, RewardSettings(), model),
        Judge(LIBRARY, lenient, model),
        Judge(LIBRARY, RewardSettings(), replace(model, prompt_hash="p2")),
        Judge(LIBRARY, RewardSettings(), replace(model, settings=ModelSettings(repeats=5))),
        Judge(LIBRARY, RewardSettings(), replace(model, name="other")),
        Judge(LIBRARY, RewardSettings(), replace(model, name="x" * 200 + "a")),
        Judge(LIBRARY, RewardSettings(), replace(model, name="x" * 200 + "b")),
    ]
    assert len(set(names(others))) == len(others)
    assert names(others) == names(others)
    assert all(len(name) <= 180 for name in names(others))
    assert others[0].name.startswith(f"checks-{REVISION}/")
    assert others[2].name.startswith(f"told+checks-{REVISION}/")
    assert (others[0].prompt_hash, others[2].prompt_hash) == (None, "p1")


async def test_closing_closes_the_model() -> None:
    model = Told()
    await Judge(LIBRARY, RewardSettings(), model).close()
    await Judge(LIBRARY, RewardSettings()).close()
    assert model.closed
