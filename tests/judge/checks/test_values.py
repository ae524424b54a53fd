"""Reading of values: whatever their format, they are the same, and found where they stand."""

from __future__ import annotations

from datetime import date, time, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.checks.reading import MAX_SEEN, Reading, Seen
from judge.checks.values import MAX_CHARACTERS, MAX_VALUES, Value, ValueKind, as_one, same, values_in

MONTHS = [f"{date(2026, month, 1):%B}" for month in range(1, 13)]


def only(text: str) -> Value:
    """The one value of a text."""
    found = values_in(text)
    assert len(found) == 1, found
    return found[0]


def written(text: Any) -> list[tuple[str, str]]:
    return [(value.kind.value, value.written) for value in values_in(text)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1,200", 1200),
        ("1'200.50", 1200.5),
        ("1.200,50", 1200.5),
        ("1\u202f200", 1200),
        ("1.2k", "1200"),
        ("1.2 million", 1_200_000),
        ("2.50", 2.5),
        ("-7", -7),
        ("−7", -7),
        ("1e3", 1000),
        ("50 %", 0.5),
        ("50%", 50),
        ("3 km", "3000 m"),
        ("2 h", "120 minutes"),
        ("1.5 KB", "1536 bytes"),
        ("$12.50", 12.5),
        ("2026-03-05", "5 March 2026"),
        ("2026-03-05", "March 5th, 2026"),
        ("2026-03-05", "03/05/2026"),
        ("2026-03-05", "05.03.2026"),
        ("2026-03-05", "2026/3/5"),
        ("5 March", "2026-03-05"),
        ("March 2026", "2026-03"),
        ("5. März 2026", "2026-03-05"),
        ("14:05", "2:05 PM"),
        ("14:05", "2:05 p.m."),
        ("14:05", "14:05:33"),
        ("2 pm", "14:00"),
        ("7:05", "19:05"),
        ("2026-03-05T14:05:00Z", "2026-03-05 14:05Z"),
        ("“Oslo”", '"oslo"'),
        ("Anna\u00a0Holm", "anna holm"),
        ("Zu\u0308rich", "Zürich"),
        (True, "true"),
        (None, "null"),
        (12345678901234567890, "12345678901234567890"),
        ("007", 7),
    ],
)
def test_values_are_the_same_in_whatever_format(first: Any, second: Any) -> None:
    assert same(first, second)
    assert same(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1,200", 1201),
        (3, 3.1),
        ("7", "-7"),
        ("3 km", "3 m"),
        ("3 km", "3 kg"),
        ("50%", 0.51),
        ("2026-03-05", "2026-03-06"),
        ("2026-03-05", "March 2026"),
        ("5 March", "6 March 2026"),
        ("14:05", "2:05 am"),
        ("14:05:33", "14:05:34"),
        ("14:05", 14.05),
        ("07:05", "19:05"),
        ("Oslo", "Rome"),
        ("IN-2041", "IN-2042"),
        (True, 1),
        (None, "nothing"),
        (12345678901234567890, "12345678901234567891"),
        (10**400, 10**401),
        ("", "0"),
    ],
)
def test_other_values_are_not(first: Any, second: Any) -> None:
    assert not same(first, second)
    assert not same(second, first)


@settings(deadline=None)
@given(st.integers(-(10**14), 10**14))
def test_a_whole_number_is_itself_with_groups_and_with_decimals(number: int) -> None:
    assert same(f"{number:,}", number)
    assert same(f"{number}.00", number)
    assert not same(number, number + 1)


@settings(deadline=None)
@given(st.decimals(min_value=-10_000_000, max_value=10_000_000, places=2))
def test_an_amount_is_itself_with_groups_and_in_a_text(number: Any) -> None:
    assert same(f"{number:,}", float(number))
    seen = Reading(f'{{"rows": [{{"amount": {number}}}]}}')
    assert seen.has(only(f"it is {number:,} now") if number not in (0, 1) else as_one(float(number)))


@settings(deadline=None)
@given(st.dates(date(1000, 1, 1), date(2999, 12, 31)))
def test_a_day_is_itself_in_every_way_to_write_it(day: date) -> None:
    month = MONTHS[day.month - 1]
    ways = [
        day.isoformat(),
        f"{day.day} {month} {day.year:04}",
        f"{month} {day.day}, {day.year:04}",
        f"{day.day:02} {month[:3]} {day.year:04}",
        f"{day.day:02}/{day.month:02}/{day.year:04}",
        f"{day.month:02}/{day.day:02}/{day.year:04}",
    ]
    other = day + timedelta(days=1)
    for way in ways:
        assert same(way, day.isoformat()), way
        assert Reading(f"at {day.isoformat()}T09:30:00Z").has(only(f"on {way}")), way
        if way in ways[:4]:
            assert not same(way, other.isoformat()), way


@settings(deadline=None)
@given(st.times())
def test_a_time_is_itself_with_twelve_hours_and_with_seconds(moment: time) -> None:
    twelve = f"{moment.hour % 12 or 12}:{moment.minute:02} {'PM' if moment.hour >= 12 else 'AM'}"
    assert same(f"{moment:%H:%M}", twelve)
    assert Reading(f"2026-03-05T{moment:%H:%M:%S}+01:00").has(only(f"at {twelve}"))


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_read_and_stands_in_itself(text: str) -> None:
    reading = Reading(text)
    for value in values_in(text):
        assert value.written
        if "\\" not in text:
            assert reading.has(value), value


PLAIN = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@settings(deadline=None)
@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_can_be_read(value: Any) -> None:
    values_in(value)


def test_the_values_of_a_sentence_are_its_numbers_dates_names_and_identifiers() -> None:
    text = "On 5 March 2026 Anna Holm paid 1,200.50 EUR for ORD-1042, see `notes/a.txt`, a.holm@example.org, 14:05."
    assert written(text) == [
        ("date", "5 March 2026"),
        ("name", "Anna"),
        ("name", "Holm"),
        ("number", "1,200.50"),
        ("identifier", "ORD-1042"),
        ("text", "notes/a.txt"),
        ("identifier", "notes/a.txt"),
        ("identifier", "a.holm@example.org"),
        ("time", "14:05"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Everything is well-known and up-to-date, and/or read-only, e.g. there.",
        "1. First\n2. Second\n3) Third",
        "The sum is what it is. It is fine.",
        "Die Datei ist in dem Ordner und die Zeile ist nicht leer.",
        "",
        "?!",
    ],
)
def test_ordinary_words_and_numbered_lines_are_no_values(text: str) -> None:
    assert written(text) == []


def test_an_argument_that_is_one_value_is_one() -> None:
    given = {"city": "New York", "day": "2026-03-05", "limit": 10, "path": "notes/a.txt", "deep": [{"id": "x1"}]}
    assert [(value.place, value.kind) for value in values_in(given)] == [
        ("/city", ValueKind.NAME),
        ("/city", ValueKind.NAME),
        ("/day", ValueKind.DATE),
        ("/limit", ValueKind.NUMBER),
        ("/path", ValueKind.IDENTIFIER),
        ("/deep/0/id", ValueKind.IDENTIFIER),
    ]


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ("0.3", "0.30000000000000004"),
        ("260.45", '{"result": "260.45000000000005"}'),
        ("about 1.2k", "1,234"),
        ("down by 5", "change: -5"),
        ("100 and", "[100,200]"),
        ("1042 then", "ORD-1042"),
        ("`Zürich`", '{"city": "Z\\u00fcrich"}'),
        ("`second`", '{"text": "first\\nsecond"}'),
        ("`Oslo`", "\u200foslo\u200f"),
        ("`New_York`", "new york"),
        ("`America/New_York`", "What time is it in New York?"),
        ("commit baf5b72", "baf5b724fa25bfe4564fa4ec2b520424c85214ff"),
        ("`./notes/a.txt`", "notes/a.txt"),
        ("14:05", "2026-03-05T14:05:33+01:00"),
        ("5 March", "2026-03-05"),
        ("March 2026", "2026-03-05"),
    ],
)
def test_a_value_is_found_however_it_stands_there(told: str, seen: str) -> None:
    assert all(Reading(seen).has(value) for value in values_in(told))


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ("15 and", "14.4"),
        ("-5 is", "5"),
        ("12 of", "120 and 312"),
        ("`slo`", "Oslo"),
        ("`a.txt`", "aa.txt"),
        ("05:14", "14:05"),
        ("2026-03-06", "2026-03-05"),
        ("`baf5b72`", "1baf5b72"),
        ("12 of", "abc12def34"),
        ("01:00", "2026-03-05T14:05:33+01:00"),
        ("`Asia/Tokyo`", "the time in Japan"),
    ],
)
def test_a_value_is_not_found_in_what_only_looks_like_it(told: str, seen: str) -> None:
    assert not any(Reading(seen).has(value) for value in values_in(told))


def test_what_the_agent_had_put_in_is_no_evidence() -> None:
    assert not Reading("no such file: a7.txt", echoed=Reading("path: a7.txt")).has(only("`a7.txt`".strip("`")))
    assert Reading("did you mean b7.txt", echoed=Reading("path: a7.txt")).has(only("b7.txt"))


def test_seen_says_where_a_value_stood_first() -> None:
    seen = Seen()
    seen.add("nothing here", "s_1")
    seen.add('{"total": 1200.5}', "s_2")
    seen.add("1200.5 again", "s_3")
    assert seen.find(only("it is 1,200.50 now")) == "s_2"
    assert seen.find(only("it is 1,200.51 now")) is None


def test_a_path_is_seen_where_its_folder_and_its_rest_are() -> None:
    seen = Seen()
    seen.add("Allowed directories:\n/home/x/files", "s_1")
    seen.add("Please read harbour/march.csv", "task")
    assert seen.find(only("/home/x/files/harbour/march.csv")) is not None
    assert seen.find(only("/home/x/files/harbour/april.csv")) is None
    assert seen.find(only("/home/x/../harbour/march.csv")) is None


def test_what_is_too_long_is_not_looked_through_and_says_so() -> None:
    seen = Seen()
    for place in range(8):
        seen.add("x" * 2 * MAX_CHARACTERS, f"s_{place}")
    assert len(seen) == MAX_SEEN // MAX_CHARACTERS
    assert not seen.whole
    assert not Reading("y" * 1_000_000).whole


@pytest.mark.parametrize(
    "text",
    [
        "1e999999",
        "1e999 1e-999 1e308 1e+99",
        "-1e-999999",
        "9" * 1_000_000,
        "1," * 500_000,
        "1.1" * 300_000,
        "1-1-1:1:" * 100_000,
        "'" * 1_000_000,
        '"a' * 500_000,
        "a_" * 500_000,
        "A " * 500_000,
        "\\u" * 500_000,
        "\\ud800" * 100_000,
        "\ufdfa" * 200_000,
        "\u202e" * 1_000_000,
        "/" * 1_000_000,
        "99 march " * 100_000,
        "12:30:00.123456789+" * 50_000,
    ],
    ids=lambda text: text[:8].encode("unicode_escape").decode(),
)
def test_hostile_texts_are_read_in_bounded_work(text: str) -> None:
    assert len(values_in(text)) <= MAX_VALUES
    reading = Reading(text)
    assert reading.has(as_one("17.5")) in (True, False)
    assert not reading.has(as_one("zzz"))


def test_deeply_nested_and_huge_json_is_read_as_far_as_it_is_allowed() -> None:
    deep: Any = "needle7"
    for _ in range(1_000):
        deep = {"a": [deep]}
    assert values_in(deep) == ()
    assert len(values_in({"rows": list(range(100_000))})) <= MAX_VALUES
    assert len(values_in([10**5_000, float("inf"), float("nan"), 5])) == 2
