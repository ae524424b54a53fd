"""Values belong to the subjects that they stand near."""

from __future__ import annotations

import pytest

from judge.checks.pairing import Pair, Told

MEANT = (("Oslo", "14:05"), ("Lima", "8:05"))
RIGHT = (
    "Oslo: 14:05, Lima: 8:05",
    "It is 14:05 in Oslo and 08:05 in Lima.",
    "It is 2:05 pm in Oslo; in Lima, 8:05 am.",
    "- Lima has 8:05.\n- Oslo has 14:05.",
    "Oslo and Lima have 14:05 and 8:05.",
    "Lima is behind Oslo: there it is 8:05 while in Oslo it is 14:05.",
    "Oslo, as the clock of the town hall tells, has 14:05.\nLima is behind Oslo: 8:05.",
    "Oslo vs. Lima: 14:05 vs. 8:05",
    "Lima / Oslo: 8:05 / 14:05",
    "14:05 and 8:05 are the times in Oslo and Lima, respectively.",
    "I looked up Oslo and Lima; the first has 14:05, the second 8:05.",
    "| | Lima | Oslo |\n|---|---|---|\n| zone | -5 | +1 |\n| time | 8:05 | 14:05 |",
    "| City | Time |\n|---|---|\n| Oslo | 14:05 |\n| Lima | 8:05 |",
    "| Time | City |\n|---|---|\n| 14:05 | Oslo |\n| 8:05 | Lima |",
    "## Oslo\n\ntime: 14:05\n\n## Lima\n\ntime: 8:05",
    "As for Oslo: it was easy. It is 14:05. As for Lima, that took a moment. It is 8:05.",
)
EXCHANGED = (
    "Oslo: 8:05, Lima: 14:05",
    "It is 08:05 in Oslo and 14:05 in Lima.",
    "- Lima has 14:05.\n- Oslo has 8:05.",
    "Oslo and Lima have 8:05 and 14:05, respectively.",
    "Oslo vs. Lima: 8:05 vs. 14:05",
    "Lima / Oslo: 14:05 / 8:05",
    "8:05 and 14:05 are the times in Oslo and Lima, respectively.",
    "I looked up Oslo and Lima; the first has 8:05, the second 14:05.",
    "| | Lima | Oslo |\n|---|---|---|\n| zone | -5 | +1 |\n| time | 14:05 | 8:05 |",
    "| City | Time |\n|---|---|\n| Oslo | 8:05 |\n| Lima | 14:05 |",
    "## Oslo\n\ntime: 8:05\n\n## Lima\n\ntime: 14:05",
    "As for Oslo: it was easy. It is 8:05. As for Lima, that took a moment. It is 14:05.",
    "Oslo has the earlier time. It is 8:05 there.\nIn Lima it is 14:05.",
)


def pairs_in(answer: str) -> tuple[Told, list[Pair]]:
    told = Told(answer)
    found = [told.pair(subject, value) for subject, value in MEANT]
    return told, [pair for pair in found if pair is not None]


@pytest.mark.parametrize("answer", RIGHT)
def test_values_with_their_own_subjects_are_not_exchanged(answer: str):
    told, pairs = pairs_in(answer)
    assert len(pairs) == 2
    assert told.exchanged(pairs) == []


@pytest.mark.parametrize("answer", EXCHANGED)
def test_values_with_each_others_subjects_are(answer: str):
    told, pairs = pairs_in(answer)
    assert told.exchanged(pairs) == pairs


def test_a_value_that_two_subjects_share_is_never_exchanged():
    told = Told("Oslo and Rome have 14:05.")
    found = [told.pair("Oslo", "14:05"), told.pair("Rome", "14:05")]
    assert told.exchanged([pair for pair in found if pair is not None]) == []


def test_what_the_answer_lacks_makes_no_pair():
    told = Told("Oslo has 14:05.")
    assert told.pair("Lima", "14:05") is None
    assert told.pair("Oslo", "14:06") is None


def test_a_path_is_found_by_its_last_part():
    assert Told("march.csv comes to 4.").subject_places("harbour/march.csv") == ((0, 9),)
    assert Told("marching").subject_places("march") == ()


def test_long_and_repetitive_answers_take_bounded_work():
    told = Told("Oslo 14:05 Lima 8:05, " * 50_000)
    found = [told.pair(subject, value) for subject, value in MEANT]
    assert told.exchanged([pair for pair in found if pair is not None]) == []


def test_three_subjects_in_a_list_have_their_values_in_its_order():
    meant = (("Oslo", "14:05"), ("Lima", "8:05"), ("Rome", "15:20"))
    for answer, wrong in (
        ("Oslo, Lima and Rome have 14:05, 8:05 and 15:20.", set[str]()),
        ("Oslo, Lima and Rome have 8:05, 14:05 and 15:20.", {"Oslo", "Lima"}),
    ):
        told = Told(answer)
        found = [told.pair(subject, value) for subject, value in meant]
        assert {pair.subject for pair in told.exchanged([pair for pair in found if pair is not None])} >= wrong
        assert bool(told.exchanged([pair for pair in found if pair is not None])) is bool(wrong)
