"""Facts looked for in a text."""

from __future__ import annotations

import pytest

from judge.checks.facts import Told, listed


def test_the_first_way_that_is_told_is_given() -> None:
    told = Told("Anna Holm paid 1,200.50 EUR at 2:05 PM on 5 March 2026.")
    assert told.first(["Berta", "anna holm", 1200.5]) == "anna holm"
    assert told.first(["Berta", 1201]) is None
    assert told.first(1200.5) == 1200.5
    assert told.first("Anna") == "Anna"


@pytest.mark.parametrize("fact", [1200.5, "1200.50", "14:05", "2026-03-05", "March 5", "HOLM"])
def test_a_fact_counts_by_value(fact: str | float) -> None:
    assert Told("Anna Holm paid 1,200.50 EUR at 2:05 PM on 5 March 2026.").has(fact)


def test_a_number_may_be_rounded_or_spelled_but_not_to_one_digit() -> None:
    assert Told("about 1.2k").has(1_234)
    assert Told("about 79 %").has(78.7) is True
    assert not Told("about 8").has(8.4)
    assert Told("There were seven.").has(7)
    assert not Told("seventeen").has(7)


def test_facts_are_listed_by_their_first_way() -> None:
    assert listed(["Oslo", ["Kiel", "Kiel, Germany"], 7]) == "'Oslo', 'Kiel', 7"
