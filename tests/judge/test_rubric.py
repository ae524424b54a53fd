"""Rubrics as values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.rubric import FORMAT, MAX_CRITERIA, MAX_TEXT, Category, Criterion, Kind, Need, Rubric, RubricError

CHECK: dict[str, Any] = {
    "id": "one",
    "category": "task_fulfilment",
    "text": "It is so.",
    "weight": 5,
    "kind": "check",
    "check": "some_check",
    "parameters": {"b": [1, {"c": None}], "a": "é"},
    "essential": True,
}
JUDGE: dict[str, Any] = {
    "id": "two",
    "category": "tool_grounding",
    "text": "That is so.",
    "weight": 10,
    "kind": "judge",
    "needs": ["answer", "task"],
    "pitfall": True,
}


def of(*criteria: Any) -> Rubric:
    return Rubric.of_content({"format": FORMAT, "criteria": list(criteria)})


def test_content_comes_back_as_it_was() -> None:
    rubric = of(CHECK, JUDGE)
    assert rubric.content() == {"format": FORMAT, "criteria": [CHECK, JUDGE]}
    assert Rubric.of_content(json.loads(json.dumps(rubric.content()))) == rubric


def test_the_hash_is_of_what_it_says_and_never_changes() -> None:
    assert of(CHECK, JUDGE).hash == "a9946d9513dcb0e6e5676cf231ac24ec948580322462b539e5df4f9b856769e1"
    assert of(CHECK, JUDGE).hash != of(JUDGE, CHECK).hash
    assert of(dict(reversed(CHECK.items()))).hash == of(CHECK).hash


@pytest.mark.parametrize("change", [{"weight": 6}, {"text": "It is not so."}, {"essential": False}, {"parameters": {}}])
def test_whatever_is_another_has_another_hash(change: dict[str, Any]) -> None:
    assert of({**CHECK, **change}).hash != of(CHECK).hash


def test_what_is_as_usual_is_not_part_of_the_hash() -> None:
    assert of({**CHECK, "pitfall": False, "needs": []}).hash == of(CHECK).hash
    assert of({**JUDGE, "needs": ["task", "answer", "task"]}).hash == of(JUDGE).hash
    assert of({key: value for key, value in JUDGE.items() if key != "needs"}).hash == of(JUDGE).hash


@pytest.mark.parametrize(
    ("criterion", "said"),
    [
        ({**CHECK, "id": "One"}, "'One' cannot be the id"),
        ({**CHECK, "id": "one\n"}, "cannot be the id"),
        ({**CHECK, "id": "x" * 65}, "cannot be the id"),
        ({**CHECK, "id": 7}, "criterion 7: `id`"),
        ({**CHECK, "weight": 0}, "criterion one: a weight"),
        ({**CHECK, "weight": 11}, "criterion one: a weight"),
        ({**CHECK, "weight": True}, "criterion one: `weight`"),
        ({**CHECK, "weight": 5.0}, "criterion one: `weight`"),
        ({**CHECK, "weight": "5"}, "criterion one: `weight`"),
        ({**CHECK, "text": " \n"}, "criterion one: its text"),
        ({**CHECK, "text": "x" * (MAX_TEXT + 1)}, "criterion one: its text"),
        ({**CHECK, "category": "style"}, "criterion one: `category` is one of task_fulfilment"),
        ({**CHECK, "category": ["task_fulfilment"]}, "criterion one: `category`"),
        ({**CHECK, "kind": "human"}, "criterion one: `kind`"),
        ({**CHECK, "kind": "judge"}, "criterion one: `check`"),
        ({**CHECK, "check": None}, "criterion one: `check`"),
        ({**CHECK, "check": ""}, "criterion one: `check`"),
        ({**CHECK, "needs": ["task"]}, "criterion one: a check knows"),
        ({**CHECK, "needs": "task"}, "criterion one: `needs` is a list"),
        ({**CHECK, "needs": [{}]}, "criterion one: `needs`"),
        ({**CHECK, "parameters": [1]}, "criterion one: `parameters`"),
        ({**CHECK, "pitfall": True}, "criterion one: essential and pitfall"),
        ({**CHECK, "pitfall": 1}, "criterion one: `pitfall`"),
        ({**CHECK, "wait": 5}, "criterion one: 'wait' is not known"),
        ({**JUDGE, "parameters": {"a": 1}}, "criterion two: only a check"),
        ({}, "criterion 1: `kind`"),
        ("one", "criterion 1 is not an object"),
        (None, "criterion 1 is not an object"),
    ],
)
def test_a_criterion_that_cannot_be_meant_is_refused_by_name(criterion: Any, said: str) -> None:
    with pytest.raises(RubricError, match=r"criterion") as caught:
        of(criterion)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"criteria": [CHECK]},
        {"format": FORMAT},
        {"format": FORMAT, "criteria": {}},
        {"format": FORMAT, "criteria": []},
        {"format": FORMAT, "criteria": [CHECK, CHECK]},
        {"format": FORMAT, "criteria": [{**CHECK, "id": f"c{each}"} for each in range(MAX_CRITERIA + 1)]},
        {"format": FORMAT, "criteria": [CHECK], "name": "mine"},
        {"format": FORMAT + 1, "criteria": [CHECK]},
        {"format": "1", "criteria": [CHECK]},
        {"format": True, "criteria": [CHECK]},
    ],
)
def test_what_is_no_rubric_is_refused(content: Any) -> None:
    with pytest.raises(RubricError):
        Rubric.of_content(content)


def test_the_values_themselves_refuse_what_cannot_be_meant() -> None:
    criterion = of(CHECK).criteria[0]
    for change in ({"weight": 5.5}, {"weight": True}, {"text": ""}, {"check": None}, {"kind": Kind.JUDGE}):
        with pytest.raises(RubricError):
            replace(criterion, **change)
    with pytest.raises(RubricError):
        Rubric(())


def test_a_rubric_does_not_change_with_what_it_was_made_of() -> None:
    given_parameters = {"a": [1]}
    rubric = of({**CHECK, "parameters": given_parameters})
    before = rubric.hash
    given_parameters["a"].append(2)
    given_parameters["b"] = [3]
    assert rubric.hash == before
    rubric.content()["criteria"][0]["parameters"]["a"].append(4)
    assert rubric.hash == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["id", "category", "text", "weight", "kind", "check", "parameters", "needs", "essential", "pitfall"]
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, JSON | st.sampled_from(["judge", "check", "one", "task_fulfilment", 5])))
def test_any_json_is_read_or_refused(changes: dict[str, Any]) -> None:
    try:
        rubric = of({**CHECK, **changes})
    except RubricError:
        return
    assert Rubric.of_content(rubric.content()) == rubric
    assert len(rubric.hash) == 64


def test_the_words_are_those_that_are_stored() -> None:
    assert [*Category, *Kind, *Need] == [
        *("task_fulfilment", "tool_appropriateness", "tool_grounding", "parameter_accuracy"),
        *("check", "judge", "task", "answer"),
    ]
    criterion = Criterion(id="a", category=Category.TASK_FULFILMENT, text="b", weight=1, kind=Kind.JUDGE)
    assert criterion.needs == frozenset(Need)
