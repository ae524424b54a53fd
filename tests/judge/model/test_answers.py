"""Answers of models, well and badly formed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model.answers import Answer, Claim, place, read
from judge.model.loose_json import TRIES, values
from judge.model.questions import Said
from tests.judge.model.episodes import criterion

TWO = [criterion("a"), criterion("b")]
A = {"id": "a", "verdict": "met", "step": "s2", "quote": "14:05:00", "searched": [], "reason": "told"}
B = {"id": "b", "verdict": "not_met", "step": "none", "quote": "", "searched": ["s1", "answer"], "reason": "nothing"}
CLAIMS = {
    "a": Claim(id="a", verdict=Said.MET, step="s2", quote="14:05:00", reason="told"),
    "b": Claim(id="b", verdict=Said.NOT_MET, searched=("s1", "answer"), reason="nothing"),
}
AS_ASKED = json.dumps({"verdicts": [A, B]})


@pytest.mark.parametrize(
    "text",
    [
        AS_ASKED,
        f"```json\n{AS_ASKED}\n```",
        f"Let me see [s2] first.\n\n{AS_ASKED}\n\nThat is all.",
        f"<think>perhaps {json.dumps({'verdicts': [{**A, 'verdict': 'not_met'}]})}</think>{AS_ASKED}",
        json.dumps([A, B]),
        json.dumps({"a": A, "b": B}),
        json.dumps({"result": {"verdicts": [A, B]}}),
        f"{json.dumps(A)}\n{json.dumps(B)}",
        AS_ASKED.replace("}]", "},]"),
        AS_ASKED.replace('"', "'"),
        AS_ASKED.removesuffix("]}"),
        json.dumps({"verdicts": [{**A, "id": "A ", "verdict": "Yes"}, {**B, "verdict": "Not met"}]}),
        json.dumps({"verdicts": [{**A, "step": "Step 2"}, {**B, "searched": ["[s1]", "final answer", "the moon"]}]}),
        json.dumps({"verdicts": [A, B, {**A, "id": "of-another"}, A]}),
    ],
)
def test_what_can_only_mean_one_thing_is_understood(text: str) -> None:
    assert read(text, TWO) == Answer(claims=CLAIMS, problems={})


def test_a_single_object_without_an_id_is_the_one_criterion_that_was_asked_about() -> None:
    answer = read(json.dumps({key: value for key, value in A.items() if key != "id"}), TWO[:1])
    assert answer.claims == {"a": CLAIMS["a"]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I am sorry for your loss.", "it has no JSON with verdicts in it"),
        ("", "it has no JSON with verdicts in it"),
        ("{}", "it has no JSON with verdicts in it"),
        ('{"verdicts": []}', "it has no JSON with verdicts in it"),
        ("[[[[[" * 5_000, "it has no JSON with verdicts in it"),
        (json.dumps({"verdicts": [B]}), "it says nothing of a"),
        (json.dumps([A, {**A, "verdict": "not_met"}]), "it says two things of a"),
        (json.dumps([A, {**A, "quote": "another one"}]), "it says two things of a"),
        (json.dumps([{**A, "verdict": "great"}]), "a: verdict: Input should be"),
        (json.dumps([{**A, "verdict": 0.7}]), "a: verdict: Input should be"),
        (json.dumps([{**A, "verdict": "pass"}]), "a: verdict: Input should be"),
    ],
)
def test_what_cannot_be_understood_is_told(text: str, problem: str) -> None:
    answer = read(text, TWO)
    assert answer.problems["a"].startswith(problem)
    assert "a" not in answer.claims


def test_members_of_another_kind_than_asked_for_are_as_if_they_were_not_there() -> None:
    strange: dict[str, Any] = {"id": "a", "verdict": "met", "step": {}, "quote": 7, "searched": "s2", "reason": {}}
    assert read(json.dumps(strange), TWO).claims["a"] == Claim(id="a", verdict=Said.MET, searched=("s2",))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("s3", "s3"), ("S3", "s3"), ("3", "s3"), (3, "s3"), ("[s2.1]", "s2.1"), ("step 4", "s4"), ("2.1", "s2.1"),
        ("answer", "answer"), ("The final answer", "answer"), ("none", None), ("", None), (None, None),
        ("s1 and s2", None), ("s" + "1" * 50, None), ("task", None),
    ],
)  # fmt: skip
def test_steps_are_named_in_many_ways(written: Any, meant: str | None) -> None:
    assert place(written) == meant


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["id", "verdict", "verdicts", "step", "quote", "searched", "a"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    )
)
def test_no_json_is_too_strange_to_be_read(value: Any) -> None:
    answer = read(json.dumps(value), TWO)
    assert {*answer.claims, *answer.problems} == {"a", "b"}


@given(st.text(alphabet="{}[]\":, \\'ab1/*\n", max_size=300))
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    read(text, TWO)


@pytest.mark.parametrize("piece", ["{", "[", '{"a":', "[1,", '"', "\\", "'", "/*", "{'a':1,", "}", "</think>", "[{"])
def test_long_nonsense_is_given_up_soon(piece: str) -> None:
    """What is beyond the limits is not looked at: the work for it is bounded, whatever it repeats."""
    assert values(piece * 200_000) == []


def test_of_very_many_pieces_only_the_first_are_looked_at() -> None:
    """The first bracket is tried too: no answer of use has so many."""
    assert len(values("[" + '{"a": 1} ' * 3 * TRIES)) == TRIES - 1
