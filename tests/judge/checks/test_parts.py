"""What stands together in a result."""

from __future__ import annotations

import pytest

from judge.checks.parts import MAX_PARTS, parts_of, together
from judge.checks.values import as_one
from tests.judge.checks.scripts import call, case

ROWS = '[{"sku": "IN-1", "stock": 41}, {"sku": "IN-2", "stock": 53}]'
PYTHON = "[{'sku': 'IN-1', 'stock': 41}, {'sku': 'IN-2', 'stock': 53}]"
LINES = "IN-1,41\nIN-2,53"
BLOCKS = "IN-1\nstock 41\n \nIN-2\nstock 53"


@pytest.mark.parametrize(
    ("text", "closely"), [(ROWS, True), (ROWS, False), (PYTHON, True), (LINES, True), (BLOCKS, False)]
)
def test_values_of_one_object_line_or_paragraph_stand_together_and_others_do_not(text: str, closely: bool) -> None:
    of = case(call("db.read", text))
    right, wrong = [as_one("IN-1"), as_one(41)], [as_one("IN-1"), as_one(53)]
    assert together(of, of.acts[0], right, closely=closely)
    assert not together(of, of.acts[0], wrong, closely=closely)


def test_lines_of_one_paragraph_stand_together_only_loosely() -> None:
    of = case(call("db.read", LINES))
    assert together(of, of.acts[0], [as_one("IN-1"), as_one(53)], closely=False)


def test_what_repeats_the_text_as_json_is_not_read_again() -> None:
    of = case(call("db.read", f'{LINES}\n[structured] {{"content": "IN-1 53"}}'))
    assert not together(of, of.acts[0], [as_one("IN-1"), as_one(53)], closely=True)


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, "}" * 300_000, "a\n\n" * 100_000, '[{"a":' + "9" * 9_000 + "}]", ROWS * 9_000]
)
@pytest.mark.parametrize("closely", [True, False])
def test_any_text_has_a_bounded_number_of_parts(text: str, closely: bool) -> None:
    of = case(call("db.read", text))
    assert len(parts_of(of, of.acts[0], closely=closely)) <= MAX_PARTS
