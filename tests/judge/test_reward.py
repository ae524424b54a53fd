"""Rewards: the equations by hand, and what holds of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.reward import Reward, reward
from judge.rubric import Category, Criterion, Kind, Rubric
from judge.scope import Scope
from judge.settings import RewardSettings
from judge.verdict import Verdict, Why

SCOPE = Scope(task=True, answer=True, model=False)
FULFILMENT, APPROPRIATENESS, GROUNDING, ACCURACY = Category
LENIENT = RewardSettings(most_missing=1.0)


def criterion(
    id: str,
    weight: int = 5,
    category: Category = FULFILMENT,
    *,
    kind: Kind = Kind.CHECK,
    essential: bool = False,
    pitfall: bool = False,
) -> Criterion:
    return Criterion(
        id=id,
        category=category,
        text="So.",
        weight=weight,
        kind=kind,
        check="some" if kind is Kind.CHECK else None,
        needs=frozenset(),
        essential=essential,
        pitfall=pitfall,
    )


def verdict(id: str, said: float | Why, steps: Sequence[str] = ()) -> Verdict:
    if isinstance(said, Why):
        return Verdict(criterion=id, score=None, why=said, steps=tuple(steps))
    return Verdict(criterion=id, score=said, steps=tuple(steps))


def worth(
    criteria: Sequence[Criterion],
    said: Mapping[str, float | Why],
    settings: RewardSettings | None = None,
    *,
    steps: Mapping[str, Sequence[str]] | None = None,
    scope: Scope = SCOPE,
) -> Reward:
    verdicts = [verdict(id, each, (steps or {}).get(id, ())) for id, each in said.items()]
    return reward(Rubric(tuple(criteria)), verdicts, scope, settings or RewardSettings())


def test_the_weighted_mean_per_category_and_the_weighted_sum_over_them() -> None:
    criteria = [
        criterion("a", 6),
        criterion("b", 2),
        criterion("c", 5, APPROPRIATENESS),
        criterion("d", 5, GROUNDING),
        criterion("e", 5, ACCURACY),
    ]
    found = worth(criteria, {"a": 1, "b": 0, "c": 0.5, "d": 1, "e": 0})
    assert found.subtotals == {FULFILMENT: 0.75, APPROPRIATENESS: 0.5, GROUNDING: 1.0, ACCURACY: 0.0}
    assert found.value == pytest.approx(0.4 * 0.75 + 0.3 * 0.5 + 0.2)
    assert (found.unrewarded, found.missing_share, found.capped_by, found.scope) == ("", 0.0, (), SCOPE)


def test_a_category_without_anything_in_scope_leaves_its_weight_to_the_others() -> None:
    criteria = [criterion("a"), criterion("b", 5, APPROPRIATENESS), criterion("c", 5, GROUNDING)]
    found = worth(criteria, {"a": 1, "b": 0, "c": Why.OUT_OF_SCOPE})
    assert found.value == pytest.approx(0.4 / 0.7)
    assert found.missing_share == 0.0
    assert found.subtotals[GROUNDING] is None
    assert found.subtotals[ACCURACY] is None


@pytest.mark.parametrize("why", [Why.OUT_OF_SCOPE, Why.NOT_APPLICABLE, Why.NO_MODEL])
def test_what_is_left_out_counts_neither_as_decided_nor_as_missing(why: Why) -> None:
    found = worth([criterion("a"), criterion("b", 10, essential=True)], {"a": 1, "b": why})
    assert (found.value, found.missing_share) == (1.0, 0.0)


@pytest.mark.parametrize("why", [why for why in Why if not why.left_out])
def test_too_much_missing_gives_no_reward_and_says_why(why: Why) -> None:
    criteria = [criterion("a", 6), criterion("b", 4)]
    found = worth(criteria, {"a": 1, "b": why})
    assert found.value is None
    assert found.missing_share == 0.4
    assert found.unrewarded == (
        f"40% of the weight in scope could not be decided, mostly {why.value}; at most 30% may be"
    )
    assert found.credits == {}


def test_a_share_of_missing_that_is_allowed_leaves_the_rest_to_decide() -> None:
    found = worth([criterion("a", 7), criterion("b", 3)], {"a": 0.5, "b": Why.CUT})
    assert (found.value, found.missing_share) == (0.5, 0.3)


def test_a_category_that_is_missing_altogether_is_felt_by_its_weight() -> None:
    criteria = [criterion("a", 1), criterion("b", 10, APPROPRIATENESS)]
    assert worth(criteria, {"a": Why.VOID, "b": 1}).missing_share == pytest.approx(0.4 / 0.7)
    allowed = worth(criteria, {"a": 1, "b": Why.VOID}, RewardSettings(most_missing=0.5))
    assert allowed.missing_share == pytest.approx(0.3 / 0.7)
    assert (allowed.value, allowed.subtotals[APPROPRIATENESS]) == (1.0, None)


def test_a_missing_essential_criterion_gives_no_reward() -> None:
    found = worth([criterion("a", 10), criterion("b", 1, essential=True)], {"a": 1, "b": Why.UNREACHABLE})
    assert found.value is None
    assert found.unrewarded == "the essential criterion b could not be decided"


def test_a_failed_essential_criterion_caps_the_reward() -> None:
    criteria = [criterion("a", 10), criterion("b", 1, essential=True)]
    capped = worth(criteria, {"a": 1, "b": 0.49})
    assert (capped.value, capped.capped_by) == (0.3, ("b",))
    assert worth(criteria, {"a": 1, "b": 0.5}).value == pytest.approx(10.5 / 11)
    lower = worth(criteria, {"a": 0.1, "b": 0})
    assert lower.value == pytest.approx(1 / 11)


def test_a_pitfall_takes_its_weight_off_its_category_and_never_more_than_there_is() -> None:
    criteria = [criterion("a", 8), criterion("b", 8), criterion("p", 4, pitfall=True)]
    assert worth(criteria, {"a": 1, "b": 0.5, "p": 0}).value == 0.75
    assert worth(criteria, {"a": 1, "b": 0.5, "p": 1}).value == 0.5
    assert worth(criteria, {"a": 1, "b": 0.5, "p": 1}, RewardSettings(pitfall_share=0.5)).value == 0.625
    assert worth(criteria, {"a": 0.1, "b": 0, "p": 1}).value == 0.0


def test_a_category_of_pitfalls_alone_starts_from_one() -> None:
    criteria = [criterion("p", 6, pitfall=True), criterion("q", 2, pitfall=True)]
    assert worth(criteria, {"p": 0, "q": 0}).value == 1.0
    assert worth(criteria, {"p": 1, "q": 0}).value == 0.25
    assert worth([*criteria, criterion("a")], {"p": 1, "q": 0, "a": Why.NOT_APPLICABLE}).value == 0.25


def test_pitfalls_earn_nothing_where_all_that_could_earn_is_missing() -> None:
    criteria = [criterion("a"), criterion("p", pitfall=True), criterion("b", 5, ACCURACY)]
    found = worth(criteria, {"a": Why.VOID, "p": 0, "b": 0}, LENIENT)
    assert (found.value, found.subtotals[FULFILMENT]) == (0.0, None)


def test_a_models_criteria_count_only_in_a_scope_with_a_model() -> None:
    criteria = [criterion("a"), criterion("m", 10, kind=Kind.JUDGE, essential=True)]
    without = worth(criteria, {"a": 1, "m": Why.NOT_PERMITTED})
    assert (without.value, without.missing_share) == (1.0, 0.0)
    assert worth(criteria, {"a": 1, "m": Why.NOT_PERMITTED}, scope=replace(SCOPE, model=True)).value is None
    assert worth(criteria, {"a": 1, "m": 0}).value == 1.0


def test_nothing_decided_is_no_reward() -> None:
    assert worth([criterion("a")], {"a": Why.OUT_OF_SCOPE}).unrewarded == "nothing that has a weight was decided"
    alone = RewardSettings(weights={FULFILMENT: 1, APPROPRIATENESS: 0, GROUNDING: 0, ACCURACY: 0})
    assert worth([criterion("a", 5, GROUNDING)], {"a": 1}, alone).value is None


@pytest.mark.parametrize("ids", [["a"], ["a", "b", "b"], ["a", "c"], ["a", "b", "c"], []])
def test_one_verdict_on_each_criterion_is_needed(ids: list[str]) -> None:
    rubric = Rubric((criterion("a"), criterion("b")))
    with pytest.raises(ValueError, match="one verdict on each of a, b"):
        reward(rubric, [verdict(id, 1) for id in ids], SCOPE, RewardSettings())


def test_credit_goes_to_the_steps_that_verdicts_name_by_their_share_of_the_reward() -> None:
    criteria = [
        criterion("a", 6),
        criterion("b", 2),
        criterion("c", 5, APPROPRIATENESS),
        criterion("p", 2, pitfall=True),
    ]
    steps = {"a": ["s1", "s2", "s2"], "b": ["s2"], "c": ["s3"], "p": ["s4"]}
    found = worth(criteria, {"a": 1, "b": 0, "c": 0.75, "p": 1}, steps=steps)
    assert found.credits == pytest.approx({"s1": 1.0, "s2": (6 - 2) / 8, "s3": 0.5, "s4": -1.0})
    assert worth(criteria, {"a": 1, "b": 0, "c": 0.75, "p": 0}, steps=steps).credits["s4"] == 1.0


def test_categories_weigh_in_credits_as_they_do_in_the_reward() -> None:
    criteria = [criterion("a", 1), criterion("b", 10, ACCURACY)]
    found = worth(criteria, {"a": 1, "b": 0}, steps={"a": ["s"], "b": ["s"]})
    assert found.credits == pytest.approx({"s": (0.4 - 0.1) / 0.5})


def test_steps_of_missing_verdicts_and_of_weightless_ones_get_no_credit() -> None:
    criteria = [criterion("a", 10), criterion("b", 1), criterion("p", 1, pitfall=True)]
    steps = {"a": ["s1"], "b": ["s2"], "p": ["s3"]}
    found = worth(criteria, {"a": 1, "b": Why.CUT, "p": 1}, RewardSettings(pitfall_share=0.0), steps=steps)
    assert found.credits == {"s1": 1.0}


@st.composite
def judged(draw: st.DrawFn) -> tuple[tuple[Criterion, ...], tuple[Verdict, ...], RewardSettings]:
    criteria: list[Criterion] = []
    verdicts: list[Verdict] = []
    for number in range(draw(st.integers(1, 10))):
        essential = draw(st.booleans())
        criteria.append(
            criterion(
                f"c{number}",
                draw(st.integers(1, 10)),
                draw(st.sampled_from(Category)),
                kind=draw(st.sampled_from(Kind)),
                essential=essential,
                pitfall=not essential and draw(st.booleans()),
            )
        )
        said = draw(st.one_of(st.floats(0, 1), st.sampled_from(Why)))
        verdicts.append(verdict(f"c{number}", said, draw(st.lists(st.sampled_from(["s1", "s2", "s3"]), max_size=3))))
    weights = {category: draw(st.floats(0, 10)) for category in Category}
    weights[draw(st.sampled_from(Category))] = 1.0
    settings = RewardSettings(
        weights=weights,
        most_missing=draw(st.sampled_from([0.0, 0.3, 1.0])),
        essential_cap=draw(st.floats(0, 1)),
        pitfall_share=draw(st.floats(0, 1)),
    )
    return tuple(criteria), tuple(verdicts), settings


def of(criteria: Sequence[Criterion], verdicts: Sequence[Verdict], settings: RewardSettings) -> Reward:
    return reward(Rubric(tuple(criteria)), verdicts, replace(SCOPE, model=True), settings)


@settings(deadline=None)
@given(judged())
def test_values_subtotals_shares_and_credits_keep_their_bounds(case: object) -> None:
    criteria, verdicts, settings = case  # type: ignore[misc]
    found = of(criteria, verdicts, settings)
    assert (found.value is None) == bool(found.unrewarded)
    assert len(found.unrewarded) <= 200
    assert set(found.subtotals) == set(Category)
    for number in (found.value, found.missing_share, *found.subtotals.values()):
        assert number is None or 0 <= number <= 1
    assert all(-1 <= each <= 1 for each in found.credits.values())
    assert found.credits.keys() <= {step for each in verdicts for step in each.steps}


@settings(deadline=None)
@given(judged(), st.data())
def test_more_of_a_criterion_never_lowers_the_value_and_more_of_a_pitfall_never_raises_it(
    case: object, data: st.DataObject
) -> None:
    criteria, verdicts, settings = case  # type: ignore[misc]
    place = data.draw(st.integers(0, len(verdicts) - 1))
    if verdicts[place].score is None:
        return
    more = [*verdicts]
    more[place] = replace(verdicts[place], score=data.draw(st.floats(verdicts[place].score, 1)))
    before, after = of(criteria, verdicts, settings).value, of(criteria, more, settings).value
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert after <= before if criteria[place].pitfall else after >= before


@settings(deadline=None)
@given(judged(), st.randoms())
def test_the_order_of_criteria_and_of_verdicts_changes_nothing(case: object, random: object) -> None:
    criteria, verdicts, settings = case  # type: ignore[misc]
    mixed, others = [*criteria], [*verdicts]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    random.shuffle(others)  # type: ignore[attr-defined]
    before, after = of(criteria, verdicts, settings), of(mixed, others, settings)
    assert (before.value, before.subtotals, before.credits, before.missing_share) == (
        after.value,
        after.subtotals,
        after.credits,
        after.missing_share,
    )
    assert set(before.capped_by) == set(after.capped_by)


@settings(deadline=None)
@given(judged(), st.data())
def test_what_is_missing_never_gave_more_than_deciding_it_against_the_agent(case: object, data: st.DataObject) -> None:
    criteria, verdicts, settings = case  # type: ignore[misc]
    settings = replace(settings, most_missing=1.0)
    missing = [place for place, each in enumerate(verdicts) if each.why is not None and not each.why.left_out]
    if not missing:
        return
    place = data.draw(st.sampled_from(missing))
    worst = [*verdicts]
    worst[place] = verdict(criteria[place].id, 1.0 if criteria[place].pitfall else 0.0)
    before, after = of(criteria, verdicts, settings).value, of(criteria, worst, settings).value
    if before is not None and after is not None:
        assert after <= before
