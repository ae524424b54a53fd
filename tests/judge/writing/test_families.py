"""Tasks are told apart by what is asked, not by what it is asked of."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.writing.families import (
    ALIKE,
    ROWS,
    family_id,
    nearest,
    signature,
    similarity,
    task_key,
    template,
)

REQUESTS = (
    ("What time is it in Oslo right now?", "What time is it in New York right now?", "What time is it now in Berlin?"),
    (
        "When it is 14:30 in Warsaw, what time is it in Auckland and in Denver?",
        "When it is 9:05 in Lisbon, what time is it in Seoul and in Nairobi?",
    ),
    (
        "Read stock/north.csv and tell me how many lamps we have, and add that to the note in notes/today.txt.",
        "Read stock/south.csv and tell me how many kettles we have, and add that to the note in notes/week.txt.",
    ),
    (
        "How many orders did Marta Weiss place in March 2026, and what did they cost altogether?",
        "How many orders did Juan Pérez place in May 2025, and what did they cost altogether?",
    ),
    (
        "Who changed the file src/parser.py last in the repository tools, and in which commit?",
        "Who changed the file lib/io.c last in the repository engine, and in which commit?",
    ),
    (
        "Remember that Nadia works for Helio Ltd and lives in Porto, then tell me who else works there.",
        "Remember that Piotr works for Nimbus and lives in Graz, then tell me who else works there.",
    ),
    (
        "Fetch http://127.0.0.1:8931/lamps/prices and compare the cheapest lamp with the one in prices.txt.",
        "Fetch http://127.0.0.1:8931/chairs/list and compare the cheapest chair with the one in chairs.txt.",
    ),
    (
        "Which customer in the table orders spent the most in 2026? Give the name and the sum.",
        "Which customer in the table invoices spent the least in 2024? Give the name and the sum.",
    ),
    (
        "Send an email to anna@example.org saying the meeting is moved to Friday.",
        "Send an email to tom@example.net saying the delivery is moved to Monday.",
    ),
    ("Read stock/north.csv and delete every line that mentions lamps.",),
    ("What time does the shop in Oslo open on Monday?",),
    ("Commit the changes in the repository tools with the message 'fix'.",),
)
SAME = [pair for group in REQUESTS for pair in combinations(group, 2)]
OTHER = [pair for one, other in combinations(REQUESTS, 2) for pair in product(one, other)]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_request_with_other_parameters_is_of_the_same_family(one: str, other: str):
    assert nearest(signature(other), {family_id(signature(one)): signature(one)}) == family_id(signature(one))
    assert similarity(signature(one), signature(other)) >= ALIKE + 0.1


def test_other_requests_are_of_other_families():
    nearest_of_all = max(similarity(signature(one), signature(other)) for one, other in OTHER)
    assert nearest_of_all < ALIKE
    for one, other in OTHER:
        assert nearest(signature(other), {"f_1": signature(one)}) is None


def test_the_nearest_of_several_families_is_taken_and_of_two_equal_ones_always_the_same():
    asked = signature(REQUESTS[1][0])
    families = {f"f_{place}": signature(group[-1]) for place, group in enumerate(REQUESTS)}
    assert nearest(asked, families) == "f_1"
    twins = {"f_b": asked, "f_a": asked}
    assert nearest(asked, twins) == nearest(asked, dict(reversed(twins.items()))) == "f_a"
    assert nearest(asked, {}) is None


def test_a_task_has_one_key_however_it_is_spaced_or_capitalised():
    assert task_key("What  time is it\n in Oslo? ") == task_key("what time is it in oslo?")
    assert task_key("What time is it in Oslo?") != task_key("What time is it in Rome?")
    assert task_key("ﬁle １") == task_key("file 1")
    assert len(task_key("")) == 26


def test_parameters_and_lists_of_them_are_one_mark():
    assert template("Compare Oslo, Lima and Rome with 'x y' today.") == ("compare", "•", "with", "•", "today")
    assert template("Mail a@b.org about https://x.org/p?q=1 on 3 March.") == ("mail", "•", "about", "•", "on", "•")
    assert template("It isn't the user's file") == ("it", "isn", "t", "the", "user", "s", "file")


@pytest.mark.parametrize("quote", ['"', "'", "`"])
def test_a_request_in_quotes_is_a_request_and_one_of_parameters_alone_is_its_own(quote: str):
    first, second = (f"{quote}{text}{quote}" for text in (REQUESTS[0][0], REQUESTS[2][0]))
    assert template(first) == template(REQUESTS[0][0])
    assert similarity(signature(first), signature(second)) < ALIKE
    assert template("https://x.org/a https://x.org/b") == ("https://x.org/a", "https://x.org/b")
    assert similarity(signature("https://x.org/a"), signature("https://y.org/b")) < ALIKE


def test_a_request_in_a_script_without_spaces_is_compared_by_its_characters():
    one, other = signature("东京现在几点了？请告诉我"), signature("大阪现在几点了？请告诉我")
    assert similarity(one, other) >= ALIKE
    assert similarity(one, signature("删除这个文件夹里的照片")) < ALIKE


def test_another_process_gives_the_same_signature():
    code = "from judge.writing.families import *; s = signature('What time is it in Oslo?'); print(family_id(s))"
    seeded = os.environ | {"PYTHONHASHSEED": "4711"}
    other = subprocess.run([sys.executable, "-c", code], env=seeded, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == family_id(signature("What time is it in Oslo?"))


@given(st.text(max_size=300))
def test_every_text_has_a_signature_of_numbers_that_a_database_can_hold(text: str):
    found = signature(text)
    assert len(found) == ROWS
    assert all(0 <= value < 2**32 for value in found)
    assert similarity(found, signature(text)) == 1.0


@pytest.mark.parametrize("text", ["'" * 100_000, "a@" * 100_000, "a:/" * 100_000, "x " * 100_000, "\ud800", "", "?!"])
def test_hostile_and_empty_texts_have_signatures(text: str):
    assert len(signature(text)) == ROWS
    assert task_key(text).startswith("t_")


def test_signatures_of_another_length_are_refused():
    with pytest.raises(ValueError, match="cannot be compared"):
        similarity(signature("a"), (1, 2))
