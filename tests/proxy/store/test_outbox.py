"""What waits in the gateway for its writer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.store.outbox import Outbox


def line(seq: int, size: int = 20) -> bytes:
    return json.dumps({"kind": "step", "seq": seq}).encode().ljust(size) + b"\n"


def records(content: bytes) -> list[Any]:
    return [json.loads(text) for text in content.splitlines()]


def everything(outbox: Outbox) -> list[Any]:
    found: list[Any] = []
    while content := outbox.take(50):
        found += records(content)
    return found


def test_lines_leave_in_the_order_in_which_they_came() -> None:
    outbox = Outbox(10_000)
    for seq in range(1, 10):
        outbox.put_step(line(seq), seq)
    assert [record["seq"] for record in everything(outbox)] == list(range(1, 10))


def test_what_was_not_acknowledged_is_sent_again_in_order_and_before_the_rest() -> None:
    outbox = Outbox(10_000)
    for seq in range(1, 6):
        outbox.put_step(line(seq), seq)
    outbox.take(60)
    outbox.take(60)
    outbox.acknowledge(1)
    outbox.put_step(line(6), 6)
    outbox.rewind()
    assert [record["seq"] for record in everything(outbox)] == [2, 3, 4, 5, 6]
    outbox.acknowledge(6)
    assert outbox.all_acknowledged
    assert outbox.waiting_bytes == 0


def test_steps_without_room_are_counted_and_their_numbers_become_one_gap_before_the_next_step() -> None:
    outbox = Outbox(100)
    for seq in range(1, 9):
        outbox.put_step(line(seq, 29), seq)
    assert outbox.dropped == 5
    first = records(outbox.take(1000))
    outbox.acknowledge(3)
    outbox.put_step(line(9, 29), 9)
    assert [record["seq"] for record in first] == [1, 2, 3]
    assert everything(outbox) == [
        {"kind": "gap", "first": 4, "last": 8, "reason": "overload"},
        {"kind": "step", "seq": 9},
    ]


def test_a_gap_is_written_also_when_no_step_comes_any_more() -> None:
    outbox = Outbox(50)
    for seq in (1, 2, 3):
        outbox.put_step(line(seq, 29), seq)
    outbox.take(1000)
    assert outbox.take(1000) == b""
    outbox.acknowledge(1)
    assert [record["kind"] for record in everything(outbox)] == ["gap"]
    assert outbox.all_sent


def test_a_single_step_that_is_larger_than_all_room_goes_when_nothing_else_waits() -> None:
    outbox = Outbox(10)
    outbox.put_step(line(1, 500), 1)
    assert outbox.dropped == 0
    assert len(everything(outbox)) == 1


def test_what_is_put_aside_goes_when_nothing_else_waits() -> None:
    outbox = Outbox(10_000)
    outbox.put_aside(line(100))
    outbox.put_step(line(1), 1)
    assert [record["seq"] for record in everything(outbox)] == [1, 100]


def test_of_what_is_put_aside_the_writer_has_little_at_a_time() -> None:
    outbox = Outbox(10_000_000)
    for seq in range(1_000):
        outbox.put_aside(line(seq, 999))
    first = records(outbox.take(1 << 20))
    assert 10 < len(first) < 50
    assert outbox.take(1 << 20)
    assert outbox.take(1 << 20) == b""
    outbox.acknowledge(outbox.sent_total)
    assert outbox.take(1 << 20)


@given(st.lists(st.sampled_from(["step", "ending", "aside", "take", "acknowledge", "rewind"]), max_size=80))
def test_every_number_is_sent_once_at_least_or_named_in_a_gap_and_no_byte_is_forgotten(moves: list[str]) -> None:
    outbox = Outbox(150)
    seq = 0
    seen: set[int] = set()

    def note(content: bytes) -> None:
        for record in records(content):
            if record["kind"] == "gap":
                seen.update(range(record["first"], record["last"] + 1))
            elif record["kind"] == "step":
                seen.add(record["seq"])

    for move in moves:
        if move == "step":
            seq += 1
            outbox.put_step(line(seq, 30), seq)
        elif move == "ending":
            outbox.put(b'{"kind":"ending"}\n')
        elif move == "aside":
            outbox.put_aside(b'{"kind":"definition"}\n')
        elif move == "take":
            note(outbox.take(70))
        elif move == "acknowledge":
            outbox.acknowledge(max(outbox.acknowledged_total, outbox.sent_total - 1))
        else:
            outbox.rewind()
    outbox.close()
    while content := outbox.take(70):
        note(content)
        outbox.acknowledge(outbox.sent_total)
    outbox.acknowledge(outbox.sent_total)
    assert seen == set(range(1, seq + 1))
    assert outbox.all_acknowledged
    assert outbox.waiting_bytes == 0
