"""Whether a number can be computed from numbers that were seen."""

from __future__ import annotations

import pytest

from judge.checks.arithmetic import CHANCE, MAX_OPERANDS, Arithmetic
from judge.checks.reading import Reading
from judge.checks.values import as_one

ROWS = '[{"name": "lamp", "price": 48.60}, {"name": "rope", "price": 112.35}, {"name": "oar", "price": 75.20}]'


def of(asked: str | float, *texts: str, chance: float | None = None) -> str:
    arithmetic = Arithmetic([Reading(text) for text in texts or (ROWS,)])
    return arithmetic.of(as_one(asked)) if chance is None else arithmetic.of(as_one(asked), chance=chance)


@pytest.mark.parametrize(
    ("asked", "how"),
    [
        (3, "a count"),
        (236.15, "a sum, mean or range"),
        ("78.72", "a sum, mean or range"),
        (63.75, "a sum, mean or range"),
        (160.95, "computed from two values"),
        (37.15, "computed from two values"),
        ("1.55", "computed from two values"),
        (5460.21, "computed from two values"),
    ],
)
def test_what_comes_of_the_numbers_says_how(asked: str | float, how: str) -> None:
    assert of(asked) == how


@pytest.mark.parametrize("asked", [236.16, 170.95, "78.73", 9_999, 0, "Oslo", "2026-03-05"])
def test_what_does_not_says_nothing(asked: str | float) -> None:
    assert of(asked) == ""


def test_a_sum_runs_over_one_column_of_several_texts_not_over_columns() -> None:
    texts = ('{"price": 10.5, "weight": 900}', '{"price": 20.25, "weight": 800}', '{"price": 30.75, "weight": 700}')
    assert of(61.5, *texts) == "a sum, mean or range"
    assert of(2461.5, *texts) == ""


def test_what_many_numbers_give_by_chance_counts_for_nothing() -> None:
    few = " ".join(f"{place * 7.31:.2f}" for place in range(1, 4))
    assert of(21.93 - 7.31, few)
    # Among a thousand differences of whole numbers nearly every small number is to be found.
    many = "\n".join(str(place * place + 7) for place in range(2, 40))
    assert of(133, many, chance=CHANCE) == ""
    too_many = " ".join(str(place * 13.7) for place in range(2, MAX_OPERANDS + 10))
    assert of(13.7 * 2 * 13.7 * 3, too_many) == ""


def test_days_between_dates_and_minutes_between_times_are_computed() -> None:
    assert of(17, "from 2026-03-05 to 2026-03-22") == "the time between two"
    assert of(95, "from 09:10 to 10:45") == "the time between two"
    assert of(19, "from 2026-03-05 to 2026-03-22") == ""


def test_a_time_moves_by_what_lies_between_two_offsets() -> None:
    seen = ("16:15", "2026-11-30T16:22:05+01:00", "2026-11-30T09:22:05-06:00")
    assert of("09:15", *seen) == "a time in another zone"
    assert of("10:15", *seen) == ""


@pytest.mark.parametrize("text", ["1e999999 " * 2_000, "9" * 100_000, '{"a": ' * 20_000, "0 " * 50_000, ""])
def test_hostile_texts_give_nothing(text: str) -> None:
    assert of(123_456.75, text) == ""
