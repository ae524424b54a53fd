"""What an encoder reads of a query, and that it is never much."""

from __future__ import annotations

import pytest

from proxy.router.sentences import MAX_PASSAGES, PASSAGE_CHARS, READ_CHARS, passages, split_sentences


def test_sentences_end_where_people_end_them() -> None:
    assert split_sentences("Read it. Is it 3.5 km? Yes!\n• one\n\n  • two  ") == [
        *("Read it.", "Is it 3.5 km?", "Yes!", "• one", "• two")
    ]
    assert split_sentences("天气。北京！") == ["天气。", "北京！"]
    assert split_sentences(" \n ") == []


def test_greetings_are_left_out_unless_there_is_nothing_else() -> None:
    assert passages("Hi there! Find me a good train. Thanks.") == ["Find me a good train."]
    assert passages("Hi there!") == ["Hi there!"]
    assert passages("天气。北京！") == ["天气。", "北京！"]
    assert passages("") == [""]


def test_a_long_sentence_is_cut_between_words() -> None:
    text = " ".join(f"word{number}" for number in range(100))
    pieces = passages(text)
    assert len(pieces) > 3
    assert " ".join(pieces) == text
    assert max(map(len, pieces)) <= PASSAGE_CHARS


def test_a_sentence_for_which_there_is_no_room_makes_none_for_itself() -> None:
    long = [f"{number} " + "x" * (PASSAGE_CHARS - 20) + " and more." for number in range(7)]
    pieces = passages("\n".join([*long, "But this short one fits."]))
    assert pieces[-1] == "But this short one fits."
    assert len(pieces) < 8


@pytest.mark.parametrize(
    "text", ["a " * 100_000, "a" * 100_000, "so it is. " * 9_000, "。" * 9_000, "天" * 9_000, "\n" * 9_000]
)
def test_no_text_gives_more_than_can_be_read(text: str) -> None:
    pieces = passages(text)
    assert 1 <= len(pieces) <= MAX_PASSAGES
    assert sum(len(piece.encode()) for piece in pieces) <= READ_CHARS
