"""Function stubs of tools: right for good schemas, harmless for any other."""

import ast
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import parameters, signature, stub

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "integer"}}, "required": ["v"]}


def a_tool(schema: Any, description: Any = "", output: Any = None) -> ToolRecord:
    raw = {"name": "do-it", "description": description, "inputSchema": schema, "outputSchema": output}
    return ToolRecord("My Server", "do-it", "my_server.do_it", raw)


def of_one(schema: Any, **more: Any) -> ToolRecord:
    return a_tool({"type": "object", "properties": {"a": schema}, "required": ["a"], **more})


def function_of(tool: ToolRecord) -> ast.FunctionDef:
    source = stub(tool)
    compile(source, "<stub>", "exec")
    *classes, function = ast.parse(source).body
    assert all(isinstance(each, ast.ClassDef | ast.Assign) for each in classes)
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "do_it"
    assert len(function.body) == 1
    assert isinstance(function.body[0], ast.Expr)
    return function


def test_a_stub_in_full():
    tool = a_tool(
        {
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 50},
                "x-y": {"type": "string", "description": "Where\nfrom."},
                "sort": {"type": "object", "properties": {"by": {"enum": ["a", "b"]}, "up": {"type": "boolean"}},
                         "required": ["by"]},
            },
            "required": ["x-y"],
        },
        "Finds things.\r\n\r\n\r\nSlowly.",
        {"type": "object", "properties": {"hits": {"type": "array", "items": {"type": "string"}}}},
    )  # fmt: skip
    assert (
        stub(tool)
        == '''\
class Sort(TypedDict):
    by: Literal['a', 'b']
    up: NotRequired[bool]
class DoItResult(TypedDict, total=False):
    hits: list[str]
def do_it(*, x_y: str, limit: int = 10, sort: Sort = ...) -> DoItResult:
    """Finds things.

    Slowly.

    Args:
        x_y: Where from. [sent as 'x-y']
        limit: [>= 1; <= 50]
    """'''
    )
    assert parameters(tool) == {"x_y": "x-y", "limit": "limit", "sort": "sort"}
    assert signature(tool) == "do_it(x_y: str, limit: int = 10, sort: dict = ...) -> dict"


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "str"),
        ({"type": "number"}, "float"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, "list[str | int]"),
        ({"type": "array", "items": [{"type": "string"}, {"type": "null"}]}, "list[str | None]"),
        ({"type": "array", "prefixItems": [{"type": "boolean"}]}, "list[bool]"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"enum": ["a", "it's", 1, True, None]}, """Literal['a', "it's", 1, True, None]"""),
        ({"const": "only"}, "Literal['only']"),
        ({"type": "number", "enum": [0.5, 1]}, "float"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "Literal['a', 'b']"),
        ({"allOf": [{"$ref": "#/$defs/Text"}], "default": "x"}, "str"),
        ({"$ref": "#/$defs/Node"}, "Node"),
        ({"$ref": "#/definitions/Old"}, "int"),
        ({"$ref": "#/$defs/a~1b%20c"}, "bool"),
        ({"$ref": "#/$defs/Loop"}, "Any"),
        ({"$ref": "#/$defs/Nest"}, "list"),
        ({"$ref": "https://example.com/schema"}, "Any"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"type": "object", "properties": {"x-y": {}}}, "A"),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, "dict"),
        (True, "Any"),
        ({"type": "strange"}, "Any"),
        ({"type": {"no": "type"}}, "Any"),
        ([], "Any"),
    ],
)  # fmt: skip
def test_types(schema: Any, written: str):
    tool = of_one(
        schema,
        definitions={"Old": {"type": "integer"}},
        **{"$defs": {"Node": NODE, "Text": {"type": "string"}, "a/b c": {"type": "boolean"},
                     "Loop": {"$ref": "#/$defs/Loop"}, "Nest": {"type": "array", "items": {"$ref": "#/$defs/Nest"}}}},
    )  # fmt: skip
    (argument,) = function_of(tool).args.kwonlyargs
    assert argument.annotation is not None
    assert ast.unparse(argument.annotation) == ast.unparse(ast.parse(written))


def test_a_recursive_object_is_one_class_that_names_itself():
    assert stub(of_one({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": NODE}})).startswith(
        "class Node(TypedDict):\n    v: int\n    next: NotRequired[Node]\ndef do_it("
    )


def test_a_recursive_root_is_a_class_of_its_own():
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}, "v": {"type": "integer"}}}
    assert "child: Child" in stub(a_tool(schema))


def test_objects_that_look_alike_share_a_class():
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    source = stub(a_tool({"type": "object", "properties": {"start": point, "end": dict(point)}}))
    assert source.count("TypedDict") == 1


def test_keys_that_are_no_identifiers_are_written_as_they_are_sent():
    source = stub(of_one({"type": "object", "properties": {"x-y": {"type": "string"}, "class": {}}}))
    assert source.startswith("A = TypedDict('A', {\n    'x-y': str,\n    'class': Any,\n}, total=False)\n")


@pytest.mark.parametrize(
    ("schema", "head"),
    [
        (None, "do_it(**arguments)"),
        ([1], "do_it(**arguments)"),
        (7, "do_it(**arguments)"),
        ({}, "do_it(**arguments)"),
        ({"properties": []}, "do_it(**arguments)"),
        ({"type": "object", "additionalProperties": True}, "do_it(**arguments)"),
        ({"$ref": "#"}, "do_it(**arguments)"),
        ({"type": "object"}, "do_it()"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "do_it()"),
        ({"properties": {"a": {}}, "additionalProperties": True}, "do_it(*, a: Any=..., **arguments)"),
        ({"required": ["a", 3, None]}, "do_it(*, a: Any)"),
        ({"properties": {"a": None, "arguments": 1}, "additionalProperties": {"type": "string"}},
         "do_it(*, a: Any=..., arguments: Any=..., **arguments_2)"),
        ({"$ref": "#/$defs/In", "$defs": {"In": {"properties": {"a": {"type": "string"}}}}}, "do_it(*, a: str=...)"),
        ({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]},
         "do_it(*, a: Any, b: Any=...)"),
        ({"anyOf": [{"properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
                    {"properties": {"b": {}}, "required": ["b"]}]}, "do_it(*, b: Any, a: Any=...)"),
        ({"properties": {"a": {"default": {"k": [None, "x"]}}, "b": {"default": "y" * 99}}},
         "do_it(*, a: Any={'k': [None, 'x']}, b: Any=...)"),
    ],
)  # fmt: skip
def test_parameters_of_good_and_bad_schemas(schema: Any, head: str):
    function = function_of(a_tool(schema))
    assert f"{function.name}({ast.unparse(function.args)})" == head


def test_names_lead_back_to_what_the_server_knows():
    raw = [
        "a-b",
        "a_b",
        "a.b",
        "class",
        "2nd",
        "größe",
        "ﬁ",
        "fi",
        "日期-始",
        "",
        "-",
        "__debug__",
        "x\u200b",
        "x" * 99,
    ]
    names = parameters(a_tool({"properties": dict.fromkeys(raw, True)}))
    assert sorted(names.values()) == sorted(raw)
    assert names["a_b"] == "a_b"
    assert names["fi"] == "fi"
    assert names["größe"] == "größe"
    assert names["class_"] == "class"
    assert names["p_2nd"] == "2nd"
    assert names["日期_始"] == "日期-始"
    written = [
        argument.arg for argument in function_of(a_tool({"properties": dict.fromkeys(raw, True)})).args.kwonlyargs
    ]
    assert written == list(names)


@pytest.mark.parametrize(
    "text",
    [
        '"""\nimport os\n"""', 'ends with "', 'ends with ""', "ends with \\", '\\"""', '"', '""""""', "\'\'\'",
        'odd " ""', '\\""', "\\N{BULLET} \\x \\u12",
    ],
)  # fmt: skip
def test_text_of_a_server_stays_in_the_docstring(text: str):
    for tool in (a_tool({}, text), a_tool({"properties": {"a": {"description": text}}}, f"{text} {text}")):
        assert text.split("\n")[0] in (ast.get_docstring(function_of(tool)) or "")
    nested = {"type": "object", "properties": {"k": {"description": f"{text}\r\nimport os", "enum": [text, 0.5]}}}
    function_of(of_one(nested))


def test_invisible_text_is_not_shown():
    tool = a_tool({"properties": {"a\u202e": {"enum": ["b\u200b"], "description": "c\u2066"}}}, "d\U000e0041")
    assert stub(tool).isascii()
    assert "'b\\u200b'" in stub(tool)


def test_a_signature_gives_up_optional_parameters_then_types():
    schema = {
        "properties": {**{f"needed_{i}": {"type": "string"} for i in range(3)}, **{f"maybe_{i}": {} for i in range(9)}},
        "required": [f"needed_{i}" for i in range(3)],
    }
    assert signature(a_tool(schema), 100) == (
        "do_it(needed_0: str, needed_1: str, needed_2: str, maybe_0: Any = ..., maybe_1: Any = ..., …) -> Any"
    )
    assert signature(a_tool(schema), 45) == "do_it(needed_0, needed_1, needed_2, …) -> Any"
    assert signature(a_tool(schema), 20) == "do_it(needed_0, nee…"


def test_schemas_made_to_take_long_do_not():
    deep: Any = {}
    for _ in range(10_000):
        deep = {"type": "object", "properties": {"a": deep}, "anyOf": [deep], "items": deep}
    doubling = {
        f"d{i}": {"anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}, {"$ref": f"#/$defs/d{i + 1}"}]}
        for i in range(60)
    }
    wide = {"properties": {f"p{i}": {"type": "string", "enum": ["x" * 50] * 9} for i in range(5_000)}}
    for schema in (deep, {"$defs": doubling, "properties": {"a": {"$ref": "#/$defs/d0"}}}, wide):
        function_of(a_tool(schema, "x" * 1_000_000, schema))
        assert len(stub(a_tool(schema))) < 60_000
        assert len(signature(a_tool(schema))) <= 160
    assert len(parameters(a_tool(wide))) == 5_000


KEYWORDS = ["type", "properties", "required", "items", "anyOf", "allOf", "oneOf", "enum", "const", "$ref", "$defs",
            "default", "description", "additionalProperties", "minimum", "maxLength", "pattern", "format", "nullable",
            "prefixItems", "a", "x-y", "class"]  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=()), max_size=12)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
    | st.sampled_from(["string", "integer", "array", "object", "null", "#", "#/$defs/a", "#/properties/a"])
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYWORDS) | TEXTS, inner, max_size=5),
    max_leaves=30,
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(KEYWORDS) | TEXTS, ANYTHING)},
    optional=dict.fromkeys(("required", "$defs", "anyOf", "allOf", "additionalProperties"), ANYTHING),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANYTHING | SCHEMAS, ANYTHING | TEXTS, ANYTHING)
def test_whatever_a_server_sends_the_stub_is_python_and_the_names_lead_back(schema: Any, description: Any, output: Any):
    tool = a_tool(schema, description, output)
    function = function_of(tool)
    names = parameters(tool)
    assert [argument.arg for argument in function.args.kwonlyargs] == list(names)[:120]
    assert len(set(names.values())) == len(names)
    if (
        isinstance(schema, dict)
        and isinstance(schema.get("properties"), dict)
        and not isinstance(schema.get("$ref"), str)
    ):
        assert set(schema["properties"]) <= set(names.values())
    line = signature(tool)
    assert len(line) <= 160
    assert "\n" not in line
    stub(tool).encode()


def test_a_stub_is_shorter_than_its_schema():
    tool = a_tool(
        {"type": "object", "properties": {f"p{i}": {"type": "string", "title": f"P{i}"} for i in range(5)}}, "Does it."
    )
    assert len(stub(tool)) < 0.5 * len(json.dumps(tool.raw))
