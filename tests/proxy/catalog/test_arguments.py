"""Arguments as agents send them: understood, and complained about in words that can be acted on."""

import gc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.catalog.arguments import ArgumentChecker, understand
from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import signature
from proxy.catalog.text import one_line
from proxy.errors import InvalidArguments

TIME: dict[str, Any] = {
    "type": "object",
    "properties": {
        "timezone": {"type": "string", "description": "IANA timezone name"},
        "limit": {"type": "integer", "minimum": 1},
        "mode": {"enum": ["fast", "slow"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {
            "anyOf": [
                {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                 "additionalProperties": False},
                {"type": "null"},
            ]
        },
    },
    "required": ["timezone"],
}  # fmt: skip
OK = {"timezone": "Europe/Oslo"}


def a_tool(schema: Any) -> ToolRecord:
    return ToolRecord("Time", "get-time", "time.get_time", {"name": "get-time", "inputSchema": schema})


def complaints(schema: Any, arguments: dict[str, Any]) -> list[str]:
    """The lines between the first, which names the tool, and the last, which gives its signature."""
    tool = a_tool(schema)
    try:
        ArgumentChecker().check(tool, arguments)
    except InvalidArguments as error:
        first, *lines, last = str(error).split("\n")
        assert "time.get_time" in first
        assert last.endswith(signature(tool))
        return lines
    return []


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"a": 1}, {"a": 1}),
        (None, {}),
        ("", {}),
        ("{}", {}),
        ('{"a": [9007199254740993]}', {"a": [9007199254740993]}),
        ({"arguments": {"timezone": "x"}}, {"timezone": "x"}),
        ({"args": {}}, {}),
        ({"parameters": {"limit": 1}}, {"limit": 1}),
        ({"input": '{"limit": 1}'}, {"limit": 1}),
        ('{"arguments": {"limit": 1}}', {"limit": 1}),
        ({"arguments": {"args": {}}}, {"args": {}}),
        ({"arguments": {}, "limit": 1}, {"arguments": {}, "limit": 1}),
        ({"input": "text"}, {"input": "text"}),
        ({"input": "{text"}, {"input": "{text"}),
        ({"args": [1]}, {"args": [1]}),
        ({"body": {"limit": 1}}, {"body": {"limit": 1}}),
    ],
)
def test_arguments_are_understood(sent: Any, meant: dict[str, Any]):
    assert understand(sent, TIME) == meant


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"input": {"type": "object"}}},
        {"$ref": "#/$defs/In", "$defs": {"In": {"properties": {"input": {}}}}},
        {"required": ["input"]},
        {"type": "object", "additionalProperties": True},
    ],
)
def test_a_parameter_that_is_called_like_a_wrapper_stays(schema: dict[str, Any]):
    assert understand({"input": {"a": 1}}, schema) == {"input": {"a": 1}}


@pytest.mark.parametrize(
    "sent", [[], [{"timezone": "x"}], 5, True, "timezone", "[1]", '"{}"', "null", '{"a": NaN}', "[" * 100_000]
)
def test_what_is_no_object_is_refused_with_what_to_send(sent: Any):
    with pytest.raises(InvalidArguments, match=r'Send a JSON object .*"timezone": \.\.\.'):
        understand(sent, TIME)


def test_what_is_understood_is_a_copy():
    sent = {"a": 1}
    understand(sent, {})["b"] = 2
    assert sent == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, ["timezone: required, missing (string: IANA timezone name)"]),
        (OK | {"limit": "5"}, ['limit: expected integer, got the string "5": send 5 without quotes']),
        (OK | {"limit": "five"}, ['limit: expected integer, got the string "five"']),
        (OK | {"limit": 0}, ["limit: expected at least 1, got the number 0"]),
        (OK | {"limit": None}, ["limit: expected integer, got null: leave it out if you have no value for it"]),
        ({"timezone": 5}, ["timezone: expected string, got the number 5: send '5' with quotes"]),
        (OK | {"mode": "fsat"},
         ['mode: expected one of "fast", "slow", got the string "fsat": did you mean \'fast\'?']),
        (OK | {"tags": "a"}, ['tags: expected array, got the string "a": send a list, even of one item']),
        (OK | {"tags": '["a"]'},
         ['tags: expected array, got the string "[\\"a\\"]": send the JSON itself, not a string of it']),
        (OK | {"tags": ["a", {}, []]},
         ["tags[1]: expected string, got an empty object", "tags[2]: expected string, got an empty list"]),
        (OK | {"where": 3}, ["where: expected object or null, got the number 3"]),
        (OK | {"where": {}}, ["where.city: required, missing (string)"]),
        (OK | {"where": {"city": "x", "citi": 1}}, ["where.citi: not a parameter"]),
        (OK | {"where": {"cty": 1}}, ["where.city: required, missing (string)",
                                      "where.cty: not a parameter; did you mean 'city'?"]),
        ({"tmezone": "x"}, ["timezone: required, missing (string: IANA timezone name)",
                            "tmezone: not a parameter; did you mean 'timezone'?"]),
        ({"zone": "x"}, ["timezone: required, missing (string: IANA timezone name)",
                         "zone: not a parameter; did you mean 'timezone'?"]),
        (OK | {"Limit": 1}, ["Limit: not a parameter; did you mean 'limit'?"]),
        ({"": 1}, ["timezone: required, missing (string: IANA timezone name)",
                   "'': not a parameter; did you mean 'timezone'?"]),
        (OK | {"limit": 1, "limits": 1}, []),
        (OK | {"verbose": True}, []),
        (OK | {"limit": 10**30, "mode": "slow", "tags": [], "where": None}, []),
    ],
)  # fmt: skip
def test_complaints_name_the_parameter_what_was_expected_and_what_was_given(
    arguments: dict[str, Any], lines: list[str]
):
    assert sorted(complaints(TIME, arguments)) == sorted(lines)


def test_every_unknown_name_is_named_where_the_schema_allows_no_others():
    closed = TIME | {"additionalProperties": False}
    assert complaints(closed, OK | {"verbose": True, "Mode": "fast"}) == [
        "verbose: not a parameter",
        "Mode: not a parameter; did you mean 'mode'?",
    ]


def test_free_names_are_free_where_the_schema_says_what_they_hold():
    assert complaints(TIME | {"additionalProperties": {"type": "string"}}, OK | {"limits": "x"}) == []


def test_five_problems_are_shown_and_the_rest_counted():
    schema = {"properties": {f"p{i}": {"type": "integer"} for i in range(9)}}
    lines = complaints(schema, {f"p{i}": "x" for i in range(9)})
    assert lines[:5] == [f'p{i}: expected integer, got the string "x"' for i in range(5)]
    assert lines[5:] == ["and 4 more"]


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ({"minLength": 3}, "ab", "a: expected at least 3 characters, got 2"),
        ({"maxItems": 1}, [1, 2], "a: expected at most 1 items, got a list of 2 items"),
        ({"pattern": "^x"}, "y", 'a: expected text that matches ^x, got the string "y"'),
        ({"multipleOf": 2}, 3, "a: expected a multiple of 2, got the number 3"),
        ({"const": "x"}, "y", 'a: expected "x", got the string "y"'),
        ({"maximum": 2**53 + 1}, 2**53 + 2, "a: expected at most 9007199254740993, got the number 9007199254740994"),
        ({"const": 2**53 + 1}, 2**53, "a: expected 9007199254740993, got the number 9007199254740992"),
        ({"type": "boolean"}, "True", 'a: expected boolean, got the string "True": send true without quotes'),
        ({"type": ["number", "null"]}, "1", 'a: expected null or number, got the string "1": send 1 without quotes'),
        (False, 1, "a: not allowed here"),
        ({"oneOf": [
            {"properties": {"t": {"const": "a"}, "v": {"type": "integer"}}, "required": ["t", "v"]},
            {"properties": {"t": {"const": "b"}, "w": {"type": "integer"}}, "required": ["t", "w"]},
        ]}, {"t": "b", "v": 1}, "a.w: required, missing (integer)"),
        ({"type": "string"}, "\u202e\x00", ""),
        ({"type": "integer"}, "b\u202e\nc" * 50, 'a: expected integer, got the string "' + ("b c" * 50)[:0]),
    ],
)  # fmt: skip
def test_complaints_of_other_keywords(schema: Any, value: Any, line: str):
    lines = complaints({"properties": {"a": schema}}, {"a": value})
    assert len(lines) == bool(line)
    assert "".join(lines).startswith(line)
    assert "".join(lines).isprintable()
    assert len("".join(lines)) < 300


def test_an_empty_name_leads_nowhere_wrong():
    schema = {"properties": {"": {"properties": {"a": {"type": "integer"}}}}}
    assert complaints(schema, {"": {"a": "x"}}) == ['a: expected integer, got the string "x"']


def test_one_of_several_parameters_is_asked_for():
    schema = {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert complaints(schema, {}) == ["a or b: one of these is required"]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {},
        {"type": "strange"},
        {"type": "string"},
        {"type": "object", "required": True, "properties": {"timezone": {"type": "integer"}}},
        {"properties": {"timezone": {"$ref": "https://example.com/schema"}}},
        {"properties": {"timezone": {"$ref": "file:///etc/hostname"}}},
        {"properties": {"timezone": {"$ref": "#/nowhere"}}},
        {"$schema": "https://example.com/own", "properties": {"timezone": {"type": "integer"}}},
        {"properties": {"timezone": {"type": "integer"}}, "patternProperties": {"(?=a)": {}}},
    ],
)
def test_a_schema_that_cannot_be_used_checks_nothing(schema: Any):
    ArgumentChecker().check(a_tool(schema), OK)


def test_a_pattern_without_a_linear_matcher_is_passed_over_and_the_rest_checked():
    schema = {"properties": {"a": {"type": "string", "pattern": r"^(?=(a+)+\1)$"}, "b": {"type": "integer"}}}
    assert complaints(schema, {"a": "b"}) == []
    assert complaints(schema, {"a": "a" * 10_000 + "!", "b": "x"}) == ['b: expected integer, got the string "x"']


def test_formats_are_left_to_the_server():
    assert complaints({"properties": {"a": {"type": "string", "format": "date-time"}}}, {"a": "tomorrow"}) == []


def test_references_within_a_schema_are_followed():
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "required": ["kids"]}  # fmt: skip
    schema = {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}}
    assert complaints(schema, {"tree": {"kids": [{"kids": []}, {}]}}) == [
        "tree.kids[1].kids: required, missing (array)"
    ]


def test_schemas_made_to_take_long_do_not():
    def doubling(apply: Any) -> dict[str, Any]:
        defs = {f"d{i}": {"anyOf": [apply(f"#/$defs/d{i + 1}"), apply(f"#/$defs/d{i + 1}")]} for i in range(60)}
        return {"$defs": defs | {"d60": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}

    deep: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"type": "object", "properties": {"a": deep}}
    for _ in range(60):
        nested = {"a": nested}
    for schema in (
        deep,
        {"$ref": "#"},
        doubling(lambda reference: {"$ref": reference}),
        doubling(lambda reference: {"properties": {"a": {"$ref": reference}}}),
        {"$defs": {"x": {"$anchor": "x", "anyOf": [{"$ref": "#x"}, {"$ref": "#x"}]}}, "$ref": "#x"},
        {"properties": {"a": {"pattern": "(((a{99}){99}){99})*"}}},
    ):
        ArgumentChecker().check(a_tool(schema), nested)
    assert complaints({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50_000 + "!"}) != []


def test_many_faults_of_large_arguments_are_not_listed():
    schema = {"properties": {}, "required": [f"r{i}" for i in range(1_000)]}
    with pytest.raises(InvalidArguments, match=r"do not fit time\.get_time\.\n"):
        ArgumentChecker().check(a_tool(schema), {"a": "x" * 1_000_000})


def test_a_full_cache_forgets_and_never_mixes_schemas_up():
    checker = ArgumentChecker(capacity=2)
    for number in range(20):
        kind = "integer" if number % 2 else "string"
        tool = a_tool({"properties": {"a": {"type": kind}}})
        checker.check(tool, {"a": 1 if number % 2 else "x"})
        with pytest.raises(InvalidArguments, match=f"expected {kind}"):
            checker.check(tool, {"a": []})
        del tool
        gc.collect()


def test_checking_changes_nothing():
    arguments = {"timezone": "x", "limit": 2**60 + 1}
    ArgumentChecker().check(a_tool(TIME), arguments)
    assert arguments == {"timezone": "x", "limit": 2**60 + 1}


NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(st.characters(exclude_categories=()), max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
LEAVES = st.sampled_from(
    [{"$ref": "#"}, {"$ref": "#/properties/a"}, {"minLength": 2}, {"uniqueItems": True}, True, False]
)
IN_PLACE = st.sampled_from(["anyOf", "oneOf", "allOf"])
INSIDE = st.sampled_from(["additionalProperties", "unevaluatedProperties", "propertyNames", "items", "contains", "not"])
USABLE = st.recursive(
    LEAVES | TYPES.map(lambda kind: {"type": kind}) | SCALARS.map(lambda value: {"enum": [value, 1]}),
    lambda inner: (
        st.dictionaries(IN_PLACE, st.lists(inner, min_size=1, max_size=2), max_size=1)
        | st.dictionaries(INSIDE, inner, max_size=2)
        | st.tuples(st.dictionaries(NAMES, inner, max_size=3), st.lists(NAMES, max_size=2, unique=True)).map(
            lambda both: {"properties": both[0], "required": both[1]}
        )
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(USABLE | VALUES, st.dictionaries(NAMES | TEXTS, VALUES, max_size=3))
def test_whatever_the_schema_and_the_arguments_a_check_passes_or_complains_in_few_lines(schema: Any, arguments: Any):
    tool = a_tool(schema)
    try:
        ArgumentChecker().check(tool, arguments)
    except InvalidArguments as error:
        lines = str(error).split("\n")
        assert 3 <= len(lines) <= 8
        assert all(one_line(line, 800) == line for line in lines)
        assert lines[-1].endswith(signature(tool))
