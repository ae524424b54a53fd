"""Checks of what was called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judge.case import Case
from judge.checks.base import Finding
from judge.checks.choosing import (
    called,
    calls_within,
    not_called,
    only_called,
    order,
    reveals_used,
    right_first,
    tokens_within,
)
from judge.rubric import RubricError
from judge.scripted import scripted
from judge.verdict import Why
from proxy.store.recorder import Level, Revealed
from tests.judge.checks.scripts import call, case

TIME = call("time.now", city="Oslo")
MAIL = call("mail.send_mail", to="ann@example.org")
DOWN = call("time.now", "gone", "server_down", city="Oslo")


@pytest.mark.parametrize(
    ("each_of", "score"),
    [
        ([["time.now"]], 1.0),
        ([["clock.now", "time.now"]], 1.0),
        ([["time"]], 1.0),
        ([["time.now"], ["mail"]], 1.0),
        ([["time.now"], ["weather.today"]], 0.5),
        ([["weather"]], 0.0),
        ([["tim"]], 0.0),
    ],
)
def test_what_is_needed_counts_by_its_share(each_of: list[list[str]], score: float) -> None:
    assert called(case(TIME, MAIL), {"each_of": each_of}).score == score


def test_a_failed_call_is_no_call_with_success_but_a_pitfall_may_count_it() -> None:
    assert called(case(DOWN), {"each_of": [["time.now"]]}).score == 0.0
    assert called(case(DOWN), {"each_of": [["time.now"]], "failed": True}).score == 1.0


def test_a_call_of_code_counts() -> None:
    assert called(case({**TIME, "by_code": True}), {"each_of": [["time.now"]]}).score == 1.0


def test_a_tool_may_be_named_as_its_server_names_it() -> None:
    trajectory = scripted({"steps": [TIME]})
    step = trajectory.steps[0]
    assert step.call is not None
    other = replace(step, call=replace(step.call, server="time-server", tool="now!", written="time_server.now"))
    renamed = Case(replace(trajectory, steps=(other,)))
    for name in ("time_server.now", "time-server.now!", "time-server", "time_server"):
        assert called(renamed, {"each_of": [[name]]}).score == 1.0, name


def test_a_finding_names_the_calls_that_it_speaks_of_once() -> None:
    found = called(case(TIME, MAIL), {"each_of": [["time.now"], ["time"]]})
    assert found.steps == ("s_0000000000000000",)


def test_what_must_not_be_called_is_found_even_where_it_failed() -> None:
    assert not_called(case(TIME), {"any_of": ["mail"]}).score == 1.0
    found = not_called(case(TIME, call("mail.send_mail", outcome="denied")), {"any_of": ["mail"]})
    assert (found.score, found.steps) == (0.0, ("s_0000000000000001",))
    assert "mail.send_mail" in found.note


def test_others_may_be_read_from_but_not_changed() -> None:
    reading, writing = call("files.read_file", path="a"), call("files.write_file", path="a")
    assert only_called(case(TIME, reading), {"any_of": ["time"]}).score == 1.0
    assert only_called(case(TIME, writing), {"any_of": ["time"]}).score == 0.5
    assert only_called(case(TIME, reading), {"any_of": ["time"], "besides_reading": False}).score == 0.5
    assert only_called(case(), {"any_of": ["time"]}).why is Why.NOT_APPLICABLE


def test_what_a_definition_says_of_reading_outweighs_the_name() -> None:
    hints = {"files.read_file": {"annotations": {"readOnlyHint": False}}}
    assert only_called(case(TIME, call("files.read_file"), tools=hints), {"any_of": ["time"]}).score == 0.5
    odd = {"files.read_file": {"annotations": "yes"}}
    assert only_called(case(TIME, call("files.read_file"), tools=odd), {"any_of": ["time"]}).score == 1.0


@pytest.mark.parametrize(
    ("steps", "score"),
    [([TIME, MAIL], 1.0), ([MAIL, TIME], 0.5), ([DOWN, MAIL, TIME], pytest.approx(2 / 3)), ([MAIL], 0.0)],
)
def test_going_straight_there_is_the_share_of_calls_up_to_the_first_success(steps: list[Any], score: float) -> None:
    assert right_first(case(*steps), {"any_of": ["time"]}).score == score


def test_a_pair_is_in_order_where_the_first_succeeded_before_the_second() -> None:
    pairs = {"pairs": [[["time"], ["mail"]]]}
    assert order(case(TIME, MAIL), pairs).score == 1.0
    assert order(case(MAIL, TIME), pairs).score == 0.0
    assert order(case(DOWN, MAIL), pairs).score == 0.0
    assert order(case(TIME), pairs).why is Why.NOT_APPLICABLE
    both = {"pairs": [[["time"], ["mail"]], [["mail"], ["time"]]]}
    assert order(case(TIME, MAIL), both).score == 0.5


@pytest.mark.parametrize(("calls", "score"), [(2, 1.0), (3, 0.5), (9, 0.0)])
def test_each_call_too_many_takes_off_its_share(calls: int, score: float) -> None:
    assert calls_within(case(*[TIME] * calls), {"most": 2}).score == score


def test_tokens_are_those_of_the_ending() -> None:
    lived = case(TIME, MAIL)
    assert lived.trajectory.ending is not None
    seen = lived.trajectory.ending.tokens_seen
    assert tokens_within(lived, {"most": seen}).score == 1.0
    assert tokens_within(lived, {"most": seen // 3}).score == 0.0
    assert tokens_within(Case(replace(lived.trajectory, ending=None)), {"most": 1}).why is Why.NOT_APPLICABLE


def test_a_definition_that_was_asked_for_is_used_where_its_tool_was_called() -> None:
    def lived(*told: Revealed) -> Finding:
        trajectory = scripted({"steps": [{"describe_tools": {"tools": ["time.now"]}}, TIME]})
        looked, acted = trajectory.steps
        return reveals_used(Case(replace(trajectory, steps=(replace(looked, revealed=told), acted))), {})

    used, idle = Revealed(tool="time.now", how="definition"), Revealed(tool="time.then", how="definition")
    assert lived(used).score == 1.0
    assert lived(used, idle, idle).score == 0.5
    assert lived(Revealed(tool="time.then", how="name")).why is Why.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("check", "parameters"),
    [(called, {"each_of": [["time"]]}), (not_called, {"any_of": ["mail"]}), (calls_within, {"most": 1})],
)
def test_names_and_outcomes_are_enough(check: Any, parameters: dict[str, Any]) -> None:
    assert not check.contents
    assert check(case(TIME, level=Level.METADATA), parameters).score == 1.0


@pytest.mark.parametrize(
    ("check", "parameters"),
    [
        (called, {"each_of": []}),
        (called, {"each_of": [[]]}),
        (called, {"each_of": ["time"]}),
        (not_called, {"any_of": "mail"}),
        (calls_within, {"most": 0}),
        (calls_within, {"most": "3"}),
        (calls_within, {"least": 3}),
        (order, {"pairs": [[[], ["mail"]]]}),
        (order, {"pairs": [[["time"]]]}),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(check: Any, parameters: dict[str, Any]) -> None:
    with pytest.raises(RubricError, match=f"check {check.name}"):
        check.validate(parameters)
