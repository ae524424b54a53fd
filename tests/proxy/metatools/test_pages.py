"""Long results: nothing of them is lost, and nobody reads another's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from proxy.errors import UnknownName
from proxy.metatools.pages import MAX_PAYLOAD_CHARS, PageStore, fit

ME = "task-1"
MEGABYTE = 1_000_000


def text_item(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def never(_: str) -> str:
    raise AssertionError("nothing had to be kept")


def keeper(texts: list[str]) -> Callable[[str], str]:
    def keep(text: str) -> str:
        texts.append(text)
        return "r_id"

    return keep


def size(result: dict[str, Any]) -> int:
    return len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))


# PageStore


def test_a_text_is_read_in_pages_that_join_to_the_whole() -> None:
    store = PageStore(MEGABYTE)
    text = "".join(f"line {n} – ünï\n" for n in range(500))
    result_id = store.keep(ME, text)
    assert re.fullmatch(r"r_[a-z2-7]{8}", result_id)
    pages, offset = list[str](), 0
    while True:
        header, _, page = store.read(ME, result_id, offset=offset, length=1000).partition("\n")
        pages.append(page)
        assert header.startswith(f"[characters {offset}-{offset + len(page)} of {len(text)}; ")
        if header.endswith("; end]"):
            break
        offset = int(header.removesuffix("]").rpartition("next: offset=")[2])
    assert "".join(pages) == text
    assert len(pages) == -(-len(text) // 1000)


def test_an_empty_text_has_one_empty_page() -> None:
    store = PageStore(MEGABYTE)
    assert store.read(ME, store.keep(ME, ""), length=10) == "[characters 0-0 of 0; end]\n"


@pytest.mark.parametrize("offset", [-1, 5, 10**12])
def test_an_offset_outside_is_answered_with_the_valid_ones(offset: int) -> None:
    store = PageStore(MEGABYTE)
    answer = store.read(ME, store.keep(ME, "12345"), length=10, offset=offset)
    assert answer == f"[offset {offset} is outside this result of 5 characters; valid offsets are 0 to 4]"


def test_a_text_of_another_owner_is_unknown_exactly_like_one_that_never_was() -> None:
    store = PageStore(MEGABYTE)
    result_id = store.keep("other", "secret")
    with pytest.raises(UnknownName, match="call the tool again") as foreign:
        store.read(ME, result_id, length=10)
    with pytest.raises(UnknownName, match="running task only") as invented:
        store.read(ME, "r_aaaaaaaa", length=10)
    assert str(foreign.value).replace(result_id, "r_aaaaaaaa") == str(invented.value)


def test_the_least_recently_used_text_makes_room() -> None:
    store = PageStore(10_000)
    first, second = store.keep(ME, "a" * 4000), store.keep(ME, "b" * 4000)
    store.read(ME, first, length=1)
    third = store.keep(ME, "c" * 4000)
    assert "aaa" in store.read(ME, first, length=10)
    assert "ccc" in store.read(ME, third, length=10)
    with pytest.raises(UnknownName):
        store.read(ME, second, length=10)


def test_a_text_above_the_whole_store_is_kept_in_part_and_says_so() -> None:
    store = PageStore(10_000)
    result_id = store.keep(ME, "😀" * 50_000)
    header = store.read(ME, result_id, length=10**6).partition("\n")[0]
    assert header == "[characters 0-2480 of 50000; end; only the first 2480 were kept]"
    assert "only the first 2480 were kept" in store.read(ME, result_id, offset=2480, length=10)
    # It counts for what it takes: a further text has to push it out.
    store.keep(ME, "x" * 1000)
    with pytest.raises(UnknownName):
        store.read(ME, result_id, length=10)


def test_dropping_an_owner_frees_the_room_and_leaves_others_alone() -> None:
    store = PageStore(10_000)
    mine, other = store.keep(ME, "a" * 4000), store.keep("other", "b" * 4000)
    store.drop(ME)
    store.drop("unknown")
    store.keep(ME, "c" * 4000)
    assert "bbb" in store.read("other", other, length=10)
    with pytest.raises(UnknownName):
        store.read(ME, mine, length=10)


def test_find_shows_places_with_offsets_that_can_be_read_from() -> None:
    store = PageStore(MEGABYTE)
    text = "x" * 500 + "\nthe (Needle) here\n" + "y" * 500
    result_id = store.keep(ME, text)
    header, line = store.read(ME, result_id, length=1000, find="(needle)").split("\n")
    assert header.startswith("[1 matches of '(needle)' from offset 0 on, no more")
    place, _, around = line.partition(": ")
    assert text[int(place) :].startswith("(Needle)")
    assert "the (Needle) here" in around
    assert len(around) < 140


def test_find_goes_on_where_ten_matches_ended() -> None:
    store = PageStore(MEGABYTE)
    result_id = store.keep(ME, "item, " * 25)
    seen, offset = list[int](), 0
    for expected in (10, 10, 5):
        header, *lines = store.read(ME, result_id, length=100, offset=offset, find="ITEM").split("\n")
        assert len(lines) == expected
        seen += [int(line.partition(":")[0]) for line in lines]
        more = re.search(r"more from offset=(\d+) on", header)
        offset = int(more[1]) if more else -1
    assert offset == -1
    assert seen == [n * 6 for n in range(25)]


def test_find_of_nothing_there_says_so() -> None:
    store = PageStore(MEGABYTE)
    assert store.read(ME, store.keep(ME, "abc"), length=9, find="z") == "['z' is not in characters 0-3 of 3]"


# fit


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": []},
        {"content": [text_item("short")], "isError": True, "_meta": {"a": 1}, "other": 2**60},
        {"content": [{"type": "image", "data": "A" * 50_000, "mimeType": "image/png"}]},
        {"content": [{"type": "audio", "data": "A" * 50_000, "mimeType": "audio/wav"}]},
        {"content": [{"type": "resource", "resource": {"uri": "f:///a", "blob": "A" * 50_000}}]},
        {"content": "not a list"},
        {"content": [None, 3, {"type": "resource"}, {"type": "new"}]},
    ],
)
def test_a_result_within_the_limit_stays_as_it_is(result: dict[str, Any]) -> None:
    before = deepcopy(result)
    assert fit(result, 1000, never) == before
    assert result == before


def test_the_limit_is_exact() -> None:
    result = {"content": [text_item("ü" * 100)]}
    assert fit(result, size(result), never) == result
    kept = list[str]()
    assert fit(result, size(result) - 1, keeper(kept)) != result
    assert kept == ["ü" * 100]


def test_a_long_text_is_cut_and_the_rest_continues_where_the_head_ended() -> None:
    store = PageStore(MEGABYTE)
    text = "".join(f'row {n} "quoted" ☃\n' for n in range(4000))
    result = {"content": [text_item(text)], "isError": True, "_meta": {"k": "v"}, "newField": [1]}
    fitted = fit(result, 8000, lambda kept: store.keep(ME, kept))
    assert {key: fitted[key] for key in ("isError", "_meta", "newField")} == {
        "isError": True,
        "_meta": {"k": "v"},
        "newField": [1],
    }
    (item,) = fitted["content"]
    header, _, head = item["text"].partition("\n")
    said = re.fullmatch(
        r"\[toolatlas: ([\d,]+) characters, the first ([\d,]+) are below; "
        r'read_result\(id="(r_\w+)", offset=(\d+)\) gives the rest\]',
        header,
    )
    assert said
    assert int(said[1].replace(",", "")) == len(text)
    assert int(said[2].replace(",", "")) == int(said[4]) == len(head)
    assert text.startswith(head)
    assert 7500 < size(fitted) <= 8000
    rest = store.read(ME, said[3], offset=int(said[4]), length=len(text)).partition("\n")[2]
    assert head + rest == text


def test_the_given_result_is_not_changed() -> None:
    result = {"content": [text_item("x" * 9000), {"type": "image", "data": "A" * 2_000_000}], "structuredContent": {}}
    before = deepcopy(result)
    fit(result, 1000, keeper([]))
    assert result == before


def test_texts_and_text_resources_are_joined_and_other_items_follow() -> None:
    image = {"type": "image", "data": "A" * 5000, "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///b", "name": "b"}
    result = {
        "content": [
            text_item("one"),
            image,
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two " * 1000}},
            link,
            text_item("three"),
        ]
    }
    kept = list[str]()
    fitted = fit(result, 1500, keeper(kept))
    assert fitted["content"][1:] == [image, link]
    assert kept == ["one\n[resource file:///a]\n" + "two " * 1000 + "\nthree"]


def test_structured_content_that_the_text_repeats_goes_first_and_silently() -> None:
    value = {"rows": list(range(300))}
    for structured, text in [(value, json.dumps(value)), ({"result": "x" * 900}, "x" * 900)]:
        item = {**text_item(text), "annotations": {"priority": 1}}
        result = {"content": [item], "structuredContent": structured, "isError": False}
        assert fit(result, len(text) + 300, never) == {"content": [item], "isError": False}


def test_structured_content_that_the_text_does_not_repeat_is_named_when_it_goes() -> None:
    result = {"content": [text_item("300 rows")], "structuredContent": {"rows": list(range(300))}}
    note, text = fit(result, 500, never)["content"]
    assert note["text"].startswith("[toolatlas: structuredContent of 1,")
    assert text == text_item("300 rows")


def test_structured_content_becomes_the_text_where_there_is_none() -> None:
    structured = {"rows": [2**60] * 300}
    kept = list[str]()
    fitted = fit({"content": [], "structuredContent": structured}, 1000, keeper(kept))
    assert json.loads(kept[0]) == structured
    assert "structuredContent" not in fitted
    assert fitted["content"][0]["text"].partition("\n")[2].startswith('{"rows": [1152921504606846976')


def test_a_huge_payload_of_a_result_that_is_too_long_is_named_and_left_out() -> None:
    data = "A" * (MAX_PAYLOAD_CHARS + 4)
    result = {
        "content": [
            text_item("x" * 5000),
            {"type": "image", "data": data, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "f:///a", "blob": data, "mimeType": "application/pdf"}},
            {"type": "audio", "data": "A" * MAX_PAYLOAD_CHARS, "mimeType": "audio/wav"},
        ]
    }
    _, image, resource, audio = fit(result, 2000, keeper([]))["content"]
    assert image == text_item("[toolatlas: image image/png of 750,003 bytes left out, too large]")
    assert resource["text"].startswith("[toolatlas: resource application/pdf of 750,003 bytes")
    assert audio == result["content"][3]


def test_so_many_other_items_that_they_are_too_long_can_be_read_as_text() -> None:
    links = [{"type": "resource_link", "uri": f"file:///{n}", "name": str(n)} for n in range(500)]
    kept = list[str]()
    fitted = fit({"content": links}, 4000, keeper(kept))
    shown = fitted["content"][1:]
    assert shown == links[: len(shown)]
    assert [json.loads(line) for line in kept[0].splitlines()] == links[len(shown) :]
    assert size(fitted) <= 4000


def test_a_head_does_not_end_between_a_letter_and_its_accent() -> None:
    text = "e\u0301" * 3000
    for limit in range(1000, 1010):
        kept = list[str]()
        head = fit({"content": [text_item(text)]}, limit, keeper(kept))["content"][0]["text"].partition("\n")[2]
        assert head.endswith("e\u0301")
        assert kept == [text]


def test_text_that_is_not_valid_unicode_is_cut_like_any_other() -> None:
    kept = list[str]()
    fitted = fit({"content": [text_item("\ud800" * 3000)]}, 1000, keeper(kept))
    assert kept == ["\ud800" * 3000]
    assert size(fitted) <= 1000


def test_a_result_whose_meta_is_above_the_limit_still_shows_text() -> None:
    result = {"content": [text_item("word " * 1000)], "_meta": {"x": "y" * 5000}}
    fitted = fit(result, 1000, keeper([]))
    assert fitted["_meta"] == result["_meta"]
    assert "word word" in fitted["content"][0]["text"]


def test_content_that_is_not_a_list_can_still_be_read() -> None:
    kept = list[str]()
    fitted = fit({"content": "word " * 1000}, 500, keeper(kept))
    assert json.loads(kept[0]) == "word " * 1000
    assert size(fitted) <= 500
