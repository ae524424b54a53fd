"""Windows: which tokens are read and which are learned, with what weight."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")

from tests.trainer.policy.planted import TOOLS, Maker, joined
from trainer.policy.windows import acts, windows
from trainer.rows import Segment, SegmentKind


def test_a_row_that_fits_is_one_window_with_its_own_weights(make: Maker) -> None:
    read, failed, done = make.context("Where?"), make.act(TOOLS[0], ok=False), make.act(TOOLS[1], step="t", key=2.0)
    row = make.row(read, failed, read, done, advantage=-1.0, advantages={"t": 0.5}, weight=0.25)
    (window,) = windows(row, most=1_000, before=10)
    assert list(window.tokens) == joined(row.segments)
    start = len(window.tokens) - len(done.tokens)
    assert window.weights == (*[0.0] * start, *done.weights)
    assert window.weights[start : start + 2] == (2.0, 1.0)
    assert window.learned == list(range(start, len(window.tokens)))
    assert set(window.advantages[start:]) == {0.5}
    assert set(window.advantages[:start]) == {-1.0}
    assert window.weight == 0.25


def test_reasons_belong_to_their_action_and_count_less(make: Maker) -> None:
    reason = Segment(SegmentKind.REASON, (5, 6), (1.0, 1.0))
    row = make.row(make.context("Where?"), reason, make.act(TOOLS[0], step="t"), advantages={"t": 0.5})
    (act,) = acts(row)
    assert act.end - act.start == 2 + len(row.segments[2].tokens)
    (window,) = windows(row, most=1_000, before=10, reason=0.5)
    assert window.weights[act.start : act.start + 3] == (0.5, 0.5, 1.0)
    assert window.advantages[act.start] == 0.5


def test_a_long_row_teaches_each_token_once_after_something_to_read(make: Maker) -> None:
    segments: list[Segment] = []
    for number in range(9):
        segments += [make.context(f"Observation {number}. " * (1 + number % 3)), make.act(TOOLS[number % 3])]
    row = make.row(*segments)
    whole = joined(row.segments)
    longest = max(len(segment.tokens) for segment in segments)
    most, before = 3 * longest, longest
    made = windows(row, most=most, before=before)
    assert len(made) > 1
    assert all(len(window.tokens) <= most for window in made)
    assert all(window.learned[0] >= min(before, len(segments[0].tokens)) for window in made)
    taught = Counter(window.tokens[place] for window in made for place in window.learned)
    assert taught == Counter(token for segment in segments[1::2] for token in segment.tokens)
    text = "".join(f" {token}" for token in whole)
    assert all("".join(f" {token}" for token in window.tokens) in text for window in made)


def test_an_action_that_is_too_long_is_taught_as_far_as_it_fits(make: Maker) -> None:
    row = make.row(make.context("Where?" * 20), make.act(TOOLS[0] * 20))
    (window,) = windows(row, most=30, before=10)
    assert len(window.tokens) == 30
    assert window.learned == list(range(10, 30))


def test_a_row_whose_actions_all_failed_has_no_windows(make: Maker) -> None:
    assert windows(make.row(make.context("Where?"), make.act(TOOLS[0], ok=False)), most=99, before=9) == []
