"""Text of servers, cleaned and cut."""

import ast
import json
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.catalog.text import block, first_sentence, one_line, printable, quoted, visible_json

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\u200bb\u2060c\ufeffd", "abcd"),
        ("a\u202eb\u2066c\u2069", "abc"),
        ("hidden\U000e0069\U000e0067\U000e006e", "hidden"),
        ("v\ufe0f\ufe01\U000e0100x", "vx"),
        ("null\x00bell\x07", "nullbell"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("private\ue000 surrogate\ud800", "private surrogate"),
        ("filler\u3164\u115f\u2800", "filler"),
        ("two  words\tand\u00a0more\r\nlines\u2028here", "two words and more lines here"),
        ("e\u0301", "\u00e9"),
        ("日本語 🎉 naïve", "日本語 🎉 naïve"),
    ],
)
def test_one_line_keeps_what_can_be_seen_and_nothing_else(written: str, shown: str):
    assert one_line(written, 200) == shown


def test_a_cut_stays_within_the_limit_and_says_so():
    assert one_line("abcdefgh", 8) == "abcdefgh"
    assert one_line("abcdefghi", 8) == "abcdefg…"
    assert one_line("abcdef ghi", 8) == "abcdef…"
    assert one_line("abc", 1) == "…"
    assert one_line("abc", 0) == ""


def test_a_block_keeps_line_breaks_and_one_blank_line():
    assert block("\n\none  two \r\n\n\n\n \t\nthree\x0bfour\n", 100) == "one two\n\nthree\nfour"


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("Gets the time. Then more.", "Gets the time."),
        ("Version 1.2 is read, e.g. from a file. Rest.", "Version 1.2 is read, e.g. from a file."),
        ("A sentence over\ntwo lines. Rest.", "A sentence over two lines."),
        ("No full stop\n\nArgs:\n  x: y.", "No full stop"),
        ("Lists things:\n- one. two", "Lists things:"),
        ("取得します。次。", "取得します。"),
        ("Really? Yes.", "Really?"),
        ("", ""),
    ],
)
def test_the_first_sentence(written: str, sentence: str):
    assert first_sentence(written, 100) == sentence


@given(ANY_TEXT, st.integers(0, 60))
def test_whatever_comes_in_what_goes_out_is_short_visible_and_stable(text: str, limit: int):
    for shown in (one_line(text, limit), block(text, limit), first_sentence(text, limit)):
        assert len(shown) <= limit
        assert unicodedata.is_normalized("NFC", shown)
        assert not [c for c in shown if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}]
        assert not [c for c in shown if 0xE0000 <= ord(c) <= 0xE0FFF]
        shown.encode()
    assert "\n" not in one_line(text, limit)
    assert "\n\n\n" not in block(text, limit)
    assert one_line(one_line(text, limit), limit) == one_line(text, limit)
    assert block(block(text, limit), limit) == block(text, limit)


UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


@given(st.recursive(ANY_TEXT | st.integers() | st.none(), lambda inner: st.dictionaries(ANY_TEXT, inner, max_size=3)))
def test_json_reads_back_as_it_was_and_shows_every_character(value: object):
    assume(json.loads(json.dumps(value)) == value)  # Two halves of a pair become one character in any JSON.
    written = visible_json(value)
    assert json.loads(written) == value
    assert not [c for c in written if unicodedata.category(c) in UNSEEN]


@given(ANY_TEXT)
def test_a_quoted_name_is_one_visible_line_that_says_where_it_was_cut(name: str):
    shown = quoted(name, 10)
    assert not [c for c in shown if unicodedata.category(c) in UNSEEN]
    assert ast.literal_eval(shown.removesuffix("…") if len(name) > 10 else shown) == name[:10]


@given(ANY_TEXT)
def test_printable_text_keeps_breaks_and_spacing(text: str):
    shown = printable(text)
    assert not [c for c in shown if c not in "\n\t" and unicodedata.category(c) in UNSEEN]
    assert printable("a  b\n\tc\r\n") == "a  b\n\tc\n"


def test_a_megabyte_of_marks_in_the_wrong_order_is_cut_before_it_is_composed():
    assert len(one_line("a" + "\u0301\u0316" * 500_000, 100)) == 100
