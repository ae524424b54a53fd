"""What stands in a text that was seen."""

from __future__ import annotations

import pytest

from judge.checks.reading import Reading, Seen
from judge.checks.values import MAX_CHARACTERS, Value, ValueKind, as_one, in_argument, in_text

HASH = "bc3c2a5c6ecd0ed6f50aa6661eff969275a781b8"


def value(written: str) -> Value:
    return in_argument(written)[0]


def found(written: str, *texts: str) -> str | None:
    seen = Seen()
    for place, text in enumerate(texts):
        seen.add(text, f"s_{place}")
    return seen.find(value(written))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("1,200.50", "1200.5"),
        ("3.14159", "3.14"),
        ("-4.5", "4.5"),
        ("5 March 2026", "2026-03-05"),
        ("2026-03-05", "2026-03"),
        ("14:05:33", "14:05"),
        (f"commit {HASH}", HASH[:8]),
        ("Europe/Oslo is Oslo", "europe/oslo"),
        ("blue kiln", "blue-kiln"),
        (r"{\"a\": \"M\u00fcller\"}", "müller"),
        ("[100,200]", "200"),
    ],
)
def test_values_are_found_by_what_they_mean(text: str, asked: str) -> None:
    assert Reading(text).has(value(asked))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("3.14", "3.14159"),
        ("4.5", "-4.5"),
        ("2026-03", "2026-03-05"),
        ("14:05", "14:05:33"),
        (f"commit {HASH}", HASH[4:12]),
        ("Oslofjord", "Oslo"),
        ("ORD-10423", "ORD-1042"),
        ("9f3ab2", "3"),
        ("", "Oslo"),
    ],
)
def test_others_are_not(text: str, asked: str) -> None:
    assert not Reading(text).has(value(asked))


def test_what_the_agent_had_put_in_is_no_evidence() -> None:
    reading = Reading("no such table: orders_931", echoed=Reading("SELECT * FROM orders_931"))
    assert not reading.has(value("orders_931"))
    assert not reading.has_text("orders_931")
    assert reading.has_text("table")


@pytest.mark.parametrize(
    "whole",
    [
        f"{HASH}:rules.ini",
        f"{HASH[:8]}:rules.ini",
        f"{HASH}~1:rules.ini",
        "HEAD~2:rules.ini",
        "files/rules.ini",
        "ann@kiln.example",
        "kiln.example@1.4.2",
        f"http://kiln.example/{HASH[:10]}/rules.ini",
    ],
)
def test_what_is_put_together_counts_part_by_part(whole: str) -> None:
    seen = (f"commit {HASH} by ann", "files: rules.ini", "at kiln.example, version 1.4.2")
    assert found(whole, *seen) is not None
    for lacking in range(3):
        if (others := [text for place, text in enumerate(seen) if place != lacking]) and found(whole, *others) is None:
            return
    pytest.fail("each part can be left out")


@pytest.mark.parametrize("whole", [f"{HASH}:rule.ini", "ann@kiln.test", "files/../rules.ini", "a:b:rules.ini"])
def test_a_part_that_was_not_seen_is_not_made_up_for(whole: str) -> None:
    assert found(whole, f"commit {HASH} by ann", "files: rules.ini") is None


def test_the_first_step_that_has_it_is_named_and_numbers_may_be_left_out() -> None:
    seen = Seen()
    seen.add("tool 931 of Oslo", "s_0", numbers=False)
    seen.add("931 and Oslo", "s_1")
    assert seen.find(value("931")) == "s_1"
    assert seen.find(value("Oslo")) == "s_0"
    assert len(seen.readings()) == 2


def test_a_text_that_is_too_long_is_read_to_a_point_and_says_so() -> None:
    reading = Reading("x " * MAX_CHARACTERS + "Oslo")
    assert not reading.whole
    assert not reading.has(value("Oslo"))
    assert Reading("Oslo").whole


def test_values_of_kinds_that_texts_have_are_found_in_themselves() -> None:
    text = "Anna Holm paid 1,200.50 EUR on 5 March 2026 at 14:05 for `stock.csv`, which is 'quite old'."
    told = in_text(text)
    assert {each.kind for each in told} == set(ValueKind)
    assert all(Reading(text).has(each) for each in told)
    assert Reading("quite old").has(as_one("Quite  old"))
