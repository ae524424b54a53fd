"""Whether what was said and done has to do with the task."""

from __future__ import annotations

import pytest

from judge.checks.bearing import MAX_TEXT, answer_to_the_point, worked_on_task
from judge.verdict import Why
from tests.judge.checks.scripts import call, case

READ = call("files.read_file", "12 lamps", path="stock.txt")
TASK = "What is the price of the lamps in stock.txt?"


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("There are 12 of them.", 1.0),
        ("Look into stock.txt yourself.", 1.0),
        ("LAMPS, nothing but lamps", 1.0),
        ("In Oslo it rains.", 1.0),
        ("Thought process:", 0.0),
        ("Let's think step by step.", 0.0),
        ("What of Oslo (奥斯陆)?", 0.0),
        ("All criteria are met.", 0.0),
        ("", 0.0),
        ("...", 0.0),
        ("奥斯陆在下雨", 1.0),
        ("完成", 0.0),
    ],
)
def test_an_answer_to_the_point_has_a_word_of_the_matter(answer: str, score: float) -> None:
    assert answer_to_the_point(case(READ, task="What of Oslo (奥斯陆)?", answer=answer), {}).score == score


@pytest.mark.parametrize("answer", ["No.", "Done", "13", "It is what you would have them do."])
def test_a_short_answer_or_a_number_cannot_be_told_to_be_beside_the_point(answer: str) -> None:
    assert answer_to_the_point(case(READ, task="Any left?", answer=answer), {}).why is Why.NOT_APPLICABLE


def test_what_was_not_kept_or_is_too_long_may_have_had_the_word() -> None:
    assert answer_to_the_point(case({**READ, "cut": True}, answer="Thirteen"), {}).why is Why.CUT
    long = call("files.read_file", "12 lamps " * MAX_TEXT, path="stock.txt")
    assert answer_to_the_point(case(long, answer="Thirteen"), {}).why is Why.CUT
    assert answer_to_the_point(case(answer="Thirteen"), {}).score == 0.0


@pytest.mark.parametrize(
    "step",
    [
        READ,
        call("lamp_shop.get", "12"),
        call("shop.get_lamp", "12"),
        call("shop.get", "12", what="lamp"),
        call("shop.get", "a lamp: 12"),
    ],
)
def test_work_on_the_task_has_a_word_of_it_in_name_arguments_or_result(step: dict[str, object]) -> None:
    found = worked_on_task(case(step, call("weather.get", "rain"), task=TASK), {})
    assert (found.score, found.steps) == (1.0, ("s_0000000000000000",))


def test_work_with_another_subject_has_none_and_neither_has_what_failed() -> None:
    weather = call("weather.get", "It is what it is with 12 of the 2026 clouds.", place="Cairo")
    assert worked_on_task(case(weather, task=f"{TASK} All 12 of 2026."), {}).score == 0.0
    assert worked_on_task(case(call("shop.get", "no lamps", "tool_error", what="lamp"), task=TASK), {}).score == 0.0
    assert worked_on_task(case(call("db.get", "Error: no table lamps"), task=TASK), {}).score == 0.0
    assert worked_on_task(case(task=TASK), {}).score == 0.0


def test_of_a_task_in_another_language_or_without_words_it_cannot_be_told() -> None:
    weather = call("weather.get", "rain")
    for task in ("Was kosten die Lampen in stock.txt?", "Which of the 12 is it, and what of 13?"):
        assert worked_on_task(case(weather, task=task), {}).why is Why.NOT_APPLICABLE


def test_where_a_result_was_cut_the_word_may_have_stood_there() -> None:
    assert worked_on_task(case({**call("weather.get", "rain"), "cut": True}, task=TASK), {}).why is Why.CUT
