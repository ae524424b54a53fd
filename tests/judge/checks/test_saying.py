"""Whether an answer says anything, and which words tell what a text is about."""

from __future__ import annotations

import pytest

from judge.checks.saying import MAX_ANSWER, says_nothing, telling

TASK = "How many rope ladders are left in the shed?"


@pytest.mark.parametrize(
    "answer",
    [
        "Yes.",
        "No",
        "Done.",
        "Ok!",
        "42",
        "-3",
        "Seven.",
        "Ja.",
        "是",
        "I looked, and there are some.",
        "I will not do this.",
        "Let me know if you need more.",
        "I will send 3 of them on 5 March.",
        "Sure, I'll write to Ann. She has the key.",
        "The answer is seven.",
        "Here is the answer: none are left.",
        "How many rope ladders are left in the shed? None.",
    ],
)
def test_an_answer_may_be_short(answer: str) -> None:
    assert says_nothing(answer, TASK) == ""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("?!", "no word"),
        ("---", "no word"),
        (TASK, "repeats"),
        (f"**{TASK.upper()}**", "repeats"),
        ("Here is the answer:", "announces"),
        ("Summary:", "announces"),
        ("Okay, let's work through the problem step by step.", "announces"),
        ("Reasoning\n\nResult:", "announces"),
        ("I will count them now.", "promises"),
        ("Sure! I'll look into that shortly. Then I am going to count them.", "promises"),
        ("Let me check the shed first.", "promises"),
    ],
)
def test_what_announces_promises_or_repeats_says_nothing(answer: str, why: str) -> None:
    assert why in says_nothing(answer, TASK)


def test_without_a_task_nothing_is_a_repetition() -> None:
    assert says_nothing(TASK, None) == ""


@pytest.mark.parametrize("answer", ["I will " * 200_000, "step " * 200_000, "let's. " * 200_000, "I " * MAX_ANSWER])
def test_long_answers_say_something_whatever_is_in_them(answer: str) -> None:
    assert says_nothing(answer, TASK) == ""


def test_common_and_short_words_tell_nothing() -> None:
    assert telling("Which of these would you make with the 12 Ladders?") == {"12", "ladders"}
    assert telling("在 shed") == {"在", "shed"}
