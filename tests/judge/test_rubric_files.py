"""Rubrics as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.rubric import Category, Criterion, Kind, Need, Rubric, RubricError
from judge.rubric_files import MAX_BYTES, parse, read, write

TEXT = """\
# What a file may look like.
format: 1
criteria:
  - id: answered
    category: task_fulfilment
    text: The agent gave an answer.
    weight: 9
    kind: check
    check: answer_given
    essential: true   # nothing counts without
  - id: named
    category: parameter_accuracy
    text: >-
      The right country,
      at the right time.
    weight: 4
    kind: judge
    needs: [task]
  - id: wrong
    category: parameter_accuracy
    text: Norway was asked for.
    weight: 4
    kind: check
    check: argument_equals
    parameters: {tools: [a.b], parameter: country, values: [no, 14:05, 2026-03-05, 010, 1e3, 1.5, 7, true, ~]}
    pitfall: true
"""


def test_a_file_says_what_a_rubric_is(tmp_path: Path) -> None:
    path = tmp_path / "rubric.yaml"
    path.write_text("\ufeff" + TEXT, "utf-8")
    answered, named, wrong = read(path).criteria
    assert (answered.essential, answered.check, answered.weight) == (True, "answer_given", 9)
    assert (named.kind, named.needs, named.text) == (
        Kind.JUDGE,
        frozenset({Need.TASK}),
        "The right country, at the right time.",
    )
    assert wrong.pitfall


def test_plain_values_are_what_they_look_like() -> None:
    values = parse(TEXT, "a").criteria[2].parameters["values"]
    assert values == ["no", "14:05", "2026-03-05", "010", 1000.0, 1.5, 7, True, None]
    assert [type(value) for value in values[4:7]] == [float, float, int]


def _line(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_line("weight: 9", "weight: 11"), "a.yaml, line 4: criterion answered: a weight is a whole number"),
        (_line("weight: 9", "weight: high"), "a.yaml, line 7: criterion answered: `weight`"),
        (_line("weight: 9", "wight: 9"), "a.yaml, line 7: criterion answered: 'wight' is not known"),
        (_line("needs: [task]", "needs: [tasks]"), "a.yaml, line 18: criterion named: `needs` is one of"),
        (_line("category: parameter_accuracy", "category: none"), "a.yaml, line 12: criterion named: `category`"),
        (_line("id: named", "id: answered"), "a.yaml: two criteria have the id answered"),
        (_line("    pitfall: true", "  pitfall: true"), "a.yaml, line "),
        (_line("weight: 9", "weight: 9\n    weight: 8"), "a.yaml, line 8: 'weight' stands here twice"),
        (_line("format: 1", "format: 2"), "a rubric of format 2 is not known"),
        (_line("[task]", "&a [task]").replace("[a.b]", "*a"), "aliases"),
        (_line("weight: 9", "weight: !!python/object/apply:os.getcwd []"), "a.yaml, line 7: could not determine"),
        (_line("kind: check", "[kind]: check"), "a name here has to be a text"),
        ("", "a rubric is an object"),
        ("- 1", "a rubric is an object"),
        ("criteria: {a: 1}\nformat: 1", "a rubric is an object"),
        ("format: 1\ncriteria: []", "1 to 40 criteria"),
        ("a: b\0", "no YAML"),
        ("[" * 5_000, "no YAML"),
        (f"format: {'9' * 5_000}", "no YAML"),
        ("a: b\n--- \nc: d", "a.yaml, line 2"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(RubricError) as caught:
        parse(text, "a.yaml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("a.yaml")


def test_a_file_that_cannot_be_read_is_an_error_for_people(tmp_path: Path) -> None:
    with pytest.raises(RubricError, match=r"missing\.yaml cannot be read"):
        read(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"text: caf\xe9")
    with pytest.raises(RubricError, match="not UTF-8: byte 9"):
        read(tmp_path / "latin.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(RubricError, match="cannot be meant"):
        read(tmp_path / "big.yaml")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["no", "1e3", "0x1F", "1_0", "2026-03-05", "14:05", "~", "<<", "=", ".inf", "- a", "a: b", "#", "|"]
    )
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def criterion(
    number: int, text: str, weight: int, flags: tuple[bool, bool, bool], parameters: dict[str, Any]
) -> Criterion:
    by_code, essential, pitfall = flags
    return Criterion(
        id=f"c{number}",
        category=list(Category)[number % 4],
        text=text,
        weight=weight,
        kind=Kind.CHECK if by_code else Kind.JUDGE,
        check="some_check" if by_code else None,
        parameters=parameters if by_code else {},
        needs=frozenset() if by_code else frozenset(list(Need)[: number % 3]),
        essential=essential and not pitfall,
        pitfall=pitfall,
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip())),
            st.integers(1, 10),
            st.tuples(st.booleans(), st.booleans(), st.booleans()),
            st.dictionaries(st.text(max_size=8), JSON, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_rubric_comes_back_as_it_was(
    told: list[tuple[str, int, tuple[bool, bool, bool], dict[str, Any]]],
) -> None:
    rubric = Rubric(tuple(criterion(number, *each) for number, each in enumerate(told)))
    text = write(rubric)
    assert parse(text, "again") == rubric
    assert parse(text, "again").hash == rubric.hash


def test_other_readers_of_yaml_read_the_same() -> None:
    rubric = parse(TEXT, "a")
    assert Rubric.of_content(yaml.safe_load(write(rubric))) == rubric


def test_a_rubric_that_is_no_json_is_not_written() -> None:
    odd = criterion(0, "a", 1, (True, False, False), {"a": float("inf")})
    with pytest.raises(RubricError, match="no JSON"):
        write(Rubric((odd,)))
    with pytest.raises(RubricError, match="no JSON"):
        write(Rubric((criterion(0, "a", 1, (True, False, False), {"a": object()}),)))


def test_json_is_yaml() -> None:
    rubric = parse(TEXT, "a")
    assert parse(json.dumps(rubric.content()), "b") == rubric
