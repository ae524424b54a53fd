"""Long contents become short ones of the same shape that say what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.cutting import CUT, cut, shortened, without_payloads
from proxy.store.records import encoded

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=2_000),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=10), inner, max_size=8),
    max_leaves=60,
)


def same(text: str) -> str:
    return text


@given(JSON)
def test_what_is_short_enough_stays_the_very_same(value: Any) -> None:
    assert cut(value, len(encoded(value)), same) is value


@given(JSON, st.integers(300, 3_000))
def test_what_is_cut_is_json_of_the_same_kind_and_not_much_longer_than_allowed(value: Any, limit: int) -> None:
    kept = cut(value, limit, same)
    assert type(kept) is type(value)
    json.dumps(kept)
    assert len(encoded(kept)) <= max(limit * 3, limit + 2_000)


def test_a_long_text_keeps_its_head_and_its_tail_and_says_how_much_is_missing() -> None:
    text = "".join(f"{number:07d} " for number in range(100_000))
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    kept = cut(result, 64 << 10, same)
    head, _, rest = kept["content"][0]["text"].partition(f"[{CUT}: ")
    count, _, tail = rest.partition(" characters]")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(count) + len(tail) == len(text)
    assert 60_000 < len(encoded(kept)) <= 66_000
    assert kept["isError"] is False


def test_short_members_stay_whole_beside_a_long_one() -> None:
    value = {"id": "x" * 100, "page": 3, "text": "y" * 100_000, "next": "z" * 100}
    kept = cut(value, 4_000, same)
    assert {name: kept[name] for name in ("id", "page", "next")} == {
        name: value[name] for name in ("id", "page", "next")
    }
    assert len(kept["text"]) > 3_000


def test_a_long_list_keeps_its_ends_and_says_how_many_are_missing() -> None:
    value = [{"number": number, "name": f"item {number}"} for number in range(10_000)]
    kept = cut(value, 10_000, same)
    at = next(index for index, item in enumerate(kept) if CUT in item)
    assert kept[:at] == value[:at]
    assert kept[at + 1 :] == value[-(len(kept) - at - 1) :]
    assert kept[at][CUT]["items"] == len(value) - len(kept) + 1


def test_of_many_members_the_first_stay_and_it_is_said_how_many_are_missing() -> None:
    value = {f"key {number}": number for number in range(10_000)}
    kept = cut(value, 2_000, same)
    assert kept[CUT]["members"] == len(value) - len(kept) + 1
    assert list(kept)[:3] == ["key 0", "key 1", "key 2"]


def test_half_a_secret_beside_the_cut_does_not_stay() -> None:
    secret = "sk-" + "S" * 3_000

    def clean(text: str) -> str:
        return text.replace(secret, "[secret]")

    for lead in range(0, 8_000, 250):
        kept = shortened("a" * (29_000 + lead) + secret + "b" * 90_000, 64_000, clean)
        assert "SS" not in kept
        kept = shortened("a" * 90_000 + secret + "b" * (29_000 + lead), 64_000, clean)
        assert "SS" not in kept


def test_payloads_become_size_and_hash() -> None:
    result = {
        "content": [
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            {"type": "audio", "data": "REVG", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": "R0hJ"}},
            {"type": "text", "text": "data", "data": "stays"},
        ]
    }
    light = without_payloads(result, lambda content: content.decode().lower())
    assert light["content"][0]["data"] == {CUT: {"bytes": 4, "hash": "qujd"}}
    assert light["content"][1]["data"] == {CUT: {"bytes": 4, "hash": "revg"}}
    assert light["content"][2]["resource"]["blob"] == {CUT: {"bytes": 4, "hash": "r0hj"}}
    assert light["content"][3] == result["content"][3]


@pytest.mark.parametrize("length", [1_001, 5_000, 25_000, 45_000, 100_000])
def test_what_there_is_room_for_is_kept_of_a_text_of_any_length(length: int) -> None:
    text = "".join(chr(ord("a") + at % 26) for at in range(length))
    kept = shortened(text, 1_000, lambda piece: piece)
    head, _, tail = kept.partition(f"[{CUT}")
    assert 400 < len(head) <= 500
    assert text.startswith(head)
    assert text.endswith(tail.partition("]")[2])
    assert 900 < len(kept) <= 1_000
