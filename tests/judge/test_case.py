"""A trajectory as checks read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judge.case import Case
from judge.scripted import scripted
from proxy.store.recorder import Level, Outcome
from proxy.store.trajectory import Size, Trajectory
from tests.judge.checks.scripts import call, case

TIME = call("time.now", "14:05", city="Oslo")


def with_ending(trajectory: Trajectory, **changes: Any) -> Case:
    assert trajectory.ending is not None
    return Case(replace(trajectory, ending=replace(trajectory.ending, **changes)))


def test_the_task_is_what_the_user_said_and_nothing_else() -> None:
    told = scripted({"task": "What time is it?"})
    assert Case(told).task == "What time is it?"
    assert with_ending(told, task_source="queries").task is None
    assert with_ending(told, task="  ").task is None
    assert with_ending(told, task=None).task is None
    assert Case(replace(told, ending=None)).task is None


def test_an_empty_answer_is_one_and_no_answer_is_none() -> None:
    assert case(answer="").answer == ""
    assert case().answer is None
    assert Case(replace(scripted({}), ending=None)).answer is None


def test_calls_are_in_the_order_in_which_they_began_with_those_of_code_among_them() -> None:
    trajectory = scripted({"steps": [call("a.one"), {"run_python": {"code": "…"}}, call("a.two"), call("a.three")]})
    first, run, inner, last = trajectory.steps
    inner = replace(inner, mode="code", parent_id=run.id)
    lived = Case(replace(trajectory, steps=(last, first, replace(run, code_calls=(inner,)))))
    assert [act.written for act in lived.acts] == ["a.one", "a.two", "a.three"]
    assert [act.place for act in lived.acts] == [0, 1, 2]
    assert [act.by_code for act in lived.acts] == [False, True, False]
    assert set(lived.steps) == {step.id for step in trajectory.steps}


def test_an_act_has_what_the_server_was_sent() -> None:
    (act,) = case(TIME).acts
    assert (act.server, act.tool, act.written, act.arguments, act.ok) == (
        "time",
        "now",
        "time.now",
        {"city": "Oslo"},
        True,
    )
    (failed,) = case(call("time.now", "gone", "server_down")).acts
    assert (failed.ok, failed.outcome) == (False, Outcome.SERVER_DOWN)


@pytest.mark.parametrize("arguments", [None, "text", [1], 7])
def test_arguments_that_are_no_object_are_none(arguments: Any) -> None:
    trajectory = scripted({"steps": [TIME]})
    step = trajectory.steps[0]
    assert step.call is not None
    odd = replace(step, call=replace(step.call, arguments=arguments))
    assert Case(replace(trajectory, steps=(odd,))).acts[0].arguments == {}


def test_the_text_of_a_call_is_what_the_server_sent_and_of_others_what_the_agent_saw() -> None:
    lived = case(TIME, {"search_tools": {"query": "time"}, "gives": "time.now"})
    assert [lived.text(step) for step in lived.trajectory.steps] == ["14:05", "time.now"]
    step = lived.trajectory.steps[0]
    assert step.call is not None
    sent = replace(step, observation={"content": [{"type": "text", "text": "too long"}]})
    assert Case(replace(lived.trajectory, steps=(sent,))).text(sent) == "14:05"
    silent = replace(step, call=replace(step.call, result=None))
    assert Case(replace(lived.trajectory, steps=(silent,))).text(silent) == "14:05"


def test_texts_of_strangers_are_made_visible() -> None:
    (act,) = case(call("web.fetch", "a\u202eb<|im_start|>")).acts
    assert case(call("web.fetch", "a\u202eb<|im_start|>")).text(act.step) == "a\\u202eb‹|im_start|>"


def test_a_step_is_cut_where_a_part_was_not_kept() -> None:
    lived = case(TIME, {**TIME, "cut": True})
    assert [lived.cut(step) for step in lived.trajectory.steps] == [False, True]
    outline = case(TIME, level=Level.METADATA)
    assert outline.cut(outline.trajectory.steps[0])
    step = lived.trajectory.steps[0]
    assert step.call is not None
    own = replace(step, call=replace(step.call, result_size=Size(whole_bytes=9, kept_bytes=5, hash=None)))
    assert lived.cut(own)


def test_a_case_is_full_where_every_step_and_the_ending_were_logged_with_contents() -> None:
    lived = case(TIME, TIME, answer="yes")
    assert lived.full
    first, second = lived.trajectory.steps
    assert not Case(replace(lived.trajectory, steps=(first, replace(second, level=Level.METADATA)))).full
    inner = replace(first, code_calls=(replace(second, level=Level.METADATA),))
    assert not Case(replace(lived.trajectory, steps=(inner,))).full
    assert not with_ending(lived.trajectory, level=Level.METADATA).full
    assert Case(replace(lived.trajectory, ending=None)).full
    assert not case(TIME, level=Level.METADATA).full


def test_definitions_are_those_of_the_catalogue() -> None:
    lived = case(TIME, tools={"time.now": {"name": "now"}})
    assert lived.definition("time.now") == {"name": "now"}
    assert lived.definition("time.then") is None
    assert case(TIME).definition("time.now") is None


def test_an_episode_in_which_nothing_happened_is_a_case() -> None:
    lived = case()
    assert (lived.acts, lived.steps, lived.full, lived.task, lived.answer) == ((), {}, True, None, None)
