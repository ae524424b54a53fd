"""What clients insist on, in `direct` mode and at `/mcp/{server}`: names, schemas, descriptions, results.

The rules of the TypeScript SDK 1.x are written down here as `typescript_takes`; the Python SDK is used itself.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp import types as t
from mcp_types import _v2025_11_25 as initialize_era
from mcp_types import _v2026_07_28 as newer_era

from proxy.catalog.names import EXPOSED_LIMIT, exposed_names
from proxy.endpoint.plain_schema import COMPOSING, plain_schema
from proxy.endpoint.shown_tools import DESCRIPTION_BYTES, direct, passed_through
from proxy.store.recorder import Outcome
from tests.fixtures import generated
from tests.fixtures.running import entry
from tests.proxy.endpoint.conftest import StartGateway
from tests.proxy.endpoint.test_http import serving as on_a_port

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "auto"]
MIRROR = Path(__file__).parents[2] / "fixtures" / "mirror.py"
EXPOSED = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
OBJECT = {"type": "object"}
many = settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])


def serving(folder: Path, *tools: dict[str, Any], era: str = "legacy") -> dict[str, Any]:
    """The entry of a server with these tools, each of which answers with the parameters it was called with."""
    (folder / "tools.json").write_text(json.dumps(tools), "utf-8")
    return {"command": sys.executable, "args": ["-I", "-S", str(MIRROR), era, str(folder / "tools.json")]}


async def called(client: Client, name: str, arguments: dict[str, Any]) -> t.CallToolResult:
    with anyio.fail_after(30):
        return await client.call_tool(name, arguments)


def text(result: t.CallToolResult) -> str:
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


# Names


@pytest.mark.parametrize("era", ERAS)
async def test_every_exposed_name_suits_every_client_and_leads_to_its_tool(
    start_gateway: StartGateway, tmp_path: Path, era: str
) -> None:
    long = "n" * 59
    names = [
        "calendar.update",
        "GET:/x",
        "工具",
        "a-b",
        "a_b",
        "class",
        "1st",
        "_x",
        "-",
        "😀",
        "A",
        "a",
        " ",
        "x\u0000y",
    ]
    names += [long + "1", long + "2", "n" * 64 + "first", "n" * 64 + "second"]
    server = serving(tmp_path, *({"name": name, "inputSchema": OBJECT} for name in names))
    servers = {"my.srv:1": server, "s" * 60: server, "s" * 59 + "t": server, "工具": server}
    async with (
        start_gateway(servers, mode="direct") as running,
        Client(running.app.server, mode=era) as client,
    ):
        exposed = [tool.name for tool in (await client.list_tools()).tools]
        assert len(exposed) == len(set(exposed)) == len(names) * len(servers)
        for name in exposed:
            assert EXPOSED.fullmatch(name)
            assert len(name) <= EXPOSED_LIMIT
        reached: set[tuple[str | None, str]] = set()
        for name in exposed:
            took = json.loads(text(await called(client, name, {})))
            reached.add((running.steps.last.server, took["name"]))
        assert reached == {(server, name) for server in servers for name in names}


@many
@given(st.sets(st.from_regex(r"[a-z_]{1,60}\.[A-Za-z_0-9]{1,64}", fullmatch=True), max_size=30))
def test_exposed_names_are_unique_and_within_the_limits(written: set[str]) -> None:
    exposed = exposed_names(written)
    assert set(exposed.values()) == written
    assert all(EXPOSED.fullmatch(name) and len(name) <= EXPOSED_LIMIT for name in exposed)


# Schemas


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (None, OBJECT),
        ([], OBJECT),
        ({}, OBJECT),
        ({"type": ["object", "null"], "properties": {"a": True}}, {"type": "object", "properties": {"a": {}}}),
        (
            {"properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"type": "object", "properties": {"a": {"type": "string"}}},
        ),
        (
            {
                "description": "A shape.",
                "oneOf": [
                    {
                        "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
                        "required": ["kind", "radius"],
                        "additionalProperties": False,
                    },
                    {
                        "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                        "required": ["kind", "side"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ],
            },
            {
                "type": "object",
                "description": "A shape.",
                "properties": {
                    "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}]},
                    "radius": {"type": "number"},
                    "side": {"type": "number"},
                },
                "required": ["kind"],
                "additionalProperties": False,
            },
        ),
        (
            {
                "$ref": "#/$defs/Args",
                "$defs": {
                    "Args": {"title": "Args", "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
                    "A": {},
                },
            },
            {
                "type": "object",
                "title": "Args",
                "properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {
                    "Args": {"title": "Args", "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
                    "A": {},
                },
            },
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"properties": {"b": {"$ref": "#/allOf/0/properties/a"}}},
                ]
            },
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/allOf_0_properties_a"}},
                "required": ["a"],
                "$defs": {"allOf_0_properties_a": {"type": "integer"}},
            },
        ),
        (
            {
                "anyOf": [
                    {"properties": {"a": {}}, "additionalProperties": False},
                    {"properties": {"b": {"type": "null"}}},
                ]
            },
            {"type": "object", "properties": {"a": {}, "b": {"type": "null"}}},
        ),
        (
            {"if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "string"}}}},
            {"type": "object", "properties": {"b": {"anyOf": [{"type": "string"}, {}]}}},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone", "title": "A"}}},
            {"type": "object", "properties": {"a": {"title": "A"}}},
        ),
    ],
    ids=[
        "absent",
        "list",
        "empty",
        "types",
        "required",
        "union",
        "reference",
        "all of",
        "half closed",
        "condition",
        "dangling",
    ],
)
def test_a_schema_is_shown_as_one_plain_object(schema: Any, shown: dict[str, Any]) -> None:
    assert plain_schema(schema) == shown


PLAIN = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "node": {"$ref": "#/definitions/node"},
        "other": {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"type": "null"}], "default": {"$ref": "#/not/a/reference"}},
        "again": {"$ref": "#"},
        "$ref": {"type": "string"},
        "remote": {"$ref": "https://example.com/schema.json"},
        "apart": {"$id": "https://example.com/apart", "$ref": "#/definitions/only-there"},
    },
    "definitions": {"node": {"properties": {"children": {"items": {"$ref": "#/definitions/node"}}}}},
    "$defs": {"a/b": {"additionalProperties": False, "x-vendor": 1}},
    "x-vendor": {"anyOf": []},
}


def test_a_schema_that_is_plain_already_stays_the_same_object() -> None:
    assert plain_schema(PLAIN) is PLAIN


def test_a_schema_that_refers_to_its_own_root_still_means_that_root() -> None:
    schema = {
        "properties": {"child": {"$ref": "#"}, "name": {}},
        "anyOf": [{"required": ["name"]}, {"required": ["id"]}],
    }
    shown = plain_schema(schema)
    assert shown["properties"]["child"] == {"$ref": "#/$defs/root"}
    validator = jsonschema_rs.validator_for(dict(shown))
    assert validator.is_valid({"child": {"id": 1, "child": {"name": "x"}}})
    assert not validator.is_valid({"child": {"child": {"name": "x"}}})


@many
@given(schema=generated.root_schemas)
def test_what_is_shown_accepts_at_least_what_the_original_accepts(schema: dict[str, Any]) -> None:
    try:
        original = jsonschema_rs.validator_for(schema, offline=True)
        fitting = [arguments for arguments in generated.ARGUMENTS if original.is_valid(arguments)]
    except ValueError:
        assume(False)
        return
    shown = jsonschema_rs.validator_for(dict(plain_schema(schema)), offline=True)
    assert [arguments for arguments in fitting if not shown.is_valid(arguments)] == []


@many
@given(schema=st.one_of(generated.root_schemas, generated.values))
def test_whatever_a_server_sends_becomes_a_plain_object_whose_references_lead_somewhere(schema: Any) -> None:
    before = json.dumps(schema)
    assert_plain(plain_schema(schema))
    assert json.dumps(schema) == before


def assert_plain(shown: Mapping[str, Any]) -> None:
    assert COMPOSING.isdisjoint(shown)
    assert typescript_takes_schema(shown)
    for node, reference in references(shown):
        target: Any = shown
        if reference.startswith("#/"):
            for part in reference[2:].split("/"):
                target = target[int(part)] if isinstance(target, list) else target[part.replace("~1", "/")]
        elif reference != "#":
            assert f'"$anchor": "{reference[1:]}"' in json.dumps(shown), node
        assert isinstance(target, dict | bool), node


def references(value: Any) -> Iterator[tuple[Any, str]]:
    """Every local `$ref`. The generated schemas have none where it would be data."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str) and value["$ref"].startswith("#"):
            yield value, value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
def test_a_schema_that_doubles_at_every_level_is_shown_as_an_open_object(keyword: str) -> None:
    definitions = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(60)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d60": {"properties": {"a": {}}}}}
    assert plain_schema(schema) == OBJECT


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_checked_against_the_real_schema_and_it_can_be_read(
    start_gateway: StartGateway, tmp_path: Path, era: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    }
    servers = {"srv": serving(tmp_path, {"name": "find", "inputSchema": schema})}
    async with (
        start_gateway(servers, mode="direct") as running,
        Client(running.app.server, mode=era) as client,
    ):
        (shown,) = (await client.list_tools()).tools
        assert shown.input_schema == {key: schema[key] for key in ("type", "properties")}
        refused = await called(client, "srv__find", {})
        assert refused.is_error
        assert running.steps.last.outcome is Outcome.INVALID_ARGUMENTS
        assert not (await called(client, "srv__find", {"name": "x"})).is_error
    async with start_gateway(servers) as running, Client(running.app.server, mode=era) as client:
        described = await called(client, "describe_tools", {"tools": ["srv.find"], "format": "json"})
        assert json.loads(text(described).partition("\n[task_id")[0])["inputSchema"] == schema


# Whole tool objects


def typescript_takes(tool: Mapping[str, Any]) -> bool:
    """Whether the TypeScript SDK 1.x parses this tool; one that it does not costs the whole list."""
    hints = tool.get("annotations", {})
    return (
        isinstance(tool["name"], str)
        and all(isinstance(tool.get(key, ""), str) for key in ("title", "description"))
        and typescript_takes_schema(tool["inputSchema"])
        and typescript_takes_schema(tool.get("outputSchema", OBJECT))
        and isinstance(tool.get("_meta", {}), dict)
        and isinstance(hints, dict)
        and isinstance(hints.get("title", ""), str)
        and all(isinstance(value, bool) for key, value in hints.items() if key.endswith("Hint"))
        and isinstance(tool.get("icons", []), list)
        and all(isinstance(icon, dict) and isinstance(icon.get("src"), str) for icon in tool.get("icons", []))
        and isinstance(tool.get("execution", {}), dict)
    )


def typescript_takes_schema(schema: Any) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and isinstance(schema.get("properties", {}), dict)
        and all(isinstance(inner, dict) for inner in schema.get("properties", {}).values())
        and isinstance(schema.get("required", []), list)
        and all(isinstance(name, str) for name in schema.get("required", []))
    )


_something = st.one_of(generated.values, generated.root_schemas, st.just(OBJECT))
_strange_tools = st.fixed_dictionaries(
    {"name": generated.texts.filter(bool)},
    optional={
        "description": _something,
        "title": _something,
        "inputSchema": _something,
        "outputSchema": _something,
        "annotations": st.one_of(
            _something, st.dictionaries(st.sampled_from(("readOnlyHint", "title", "x")), _something)
        ),
        "_meta": _something,
        "icons": st.one_of(_something, st.lists(st.one_of(_something, st.just({"src": "x"})), max_size=2)),
        "execution": st.sampled_from((None, 1, {})),
        "x-vendor": _something,
    },
)


@many
@given(raw=_strange_tools)
def test_whatever_a_server_lists_typed_clients_of_both_eras_take_it(raw: dict[str, Any]) -> None:
    in_direct_mode = direct(raw, "srv__tool")
    for shown in (in_direct_mode, passed_through(raw, False)):
        assert typescript_takes(shown)
        initialize_era.Tool.model_validate(shown)
    for shown in (in_direct_mode, passed_through(raw, True)):
        newer_era.Tool.model_validate(shown)
    assert in_direct_mode.get("x-vendor") == raw.get("x-vendor")
    assert passed_through(raw, True)["name"] == raw["name"]


@given(tools=generated.tool_lists)
def test_a_valid_tool_is_passed_through_as_the_same_object(tools: list[dict[str, Any]]) -> None:
    for tool in tools:
        assert passed_through(tool, False) is tool
        assert passed_through(tool, True) is tool


@pytest.mark.parametrize(
    ("schema", "initialize_agent", "newer_agent"),
    [
        ({"type": "object", "anyOf": [{}]}, True, True),
        ({"type": "array"}, False, True),
        ({}, False, True),
        ("none", False, False),
        (None, False, False),
    ],
)
def test_an_output_schema_is_passed_through_where_the_era_allows_it(
    schema: Any, initialize_agent: bool, newer_agent: bool
) -> None:
    raw = {"name": "x", "inputSchema": OBJECT, "outputSchema": schema}
    assert ("outputSchema" in passed_through(raw, False), "outputSchema" in passed_through(raw, True)) == (
        initialize_agent,
        newer_agent,
    )


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", [None, "bad"])
async def test_one_invalid_tool_costs_a_typed_client_neither_the_list_nor_the_tool(
    tmp_path: Path, era: str, server: str | None
) -> None:
    names = {
        *("fine", "list_schema", "empty_schema", "null_schema", "absent_schema"),
        *("untyped_output", "remote_reference"),
    }
    async with on_a_port(tmp_path, {"bad": entry("bad_schema")}, mode="direct") as (base, app, _):
        await app.gateway.pool.wait_for_first_listings(30)
        async with Client(f"{base}/mcp/{server}" if server else f"{base}/mcp", mode=era) as client:
            with anyio.fail_after(30):
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {name if server else f"bad__{name}" for name in names}
            name = "null_schema" if server else "bad__null_schema"
            assert tools[name].input_schema["type"] == "object"
            assert "null_schema" in text(await called(client, name, {"any": "thing"}))


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_is_not_as_its_output_schema_says_reaches_a_typed_client(
    start_gateway: StartGateway, tmp_path: Path, era: str
) -> None:
    reading = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
    tool = {"name": "give", "inputSchema": OBJECT, "outputSchema": reading}
    answers: list[dict[str, Any]] = [
        {"content": [], "structuredContent": {"celsius": 21.5}},
        {"content": [], "structuredContent": {"celsius": "warm"}},
        {"content": [{"type": "text", "text": "broken"}], "structuredContent": {"why": 1}, "isError": True},
        {"content": [{"type": "text", "text": "21.5"}]},
    ]
    servers = {"srv": serving(tmp_path, tool)}
    for mode, name in (("direct", "srv__give"), ("search", "call_tool")):
        async with start_gateway(servers, mode=mode) as running, Client(running.app.server, mode=era) as client:
            await client.list_tools()
            for answer in answers:
                given: dict[str, Any] = {"result": answer}
                if mode == "search":
                    given = {"tool": "srv.give", "arguments": given}
                result = await called(client, name, given)
                assert result.structured_content == answer.get("structuredContent")
                assert text(result) == "".join(item["text"] for item in answer["content"])
                assert bool(result.is_error) == answer.get("isError", False)


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_said_of_a_tool_is_kept(start_gateway: StartGateway, tmp_path: Path, era: str) -> None:
    tool = {
        "name": "find",
        "title": "Find",
        "description": "Finds.",
        "inputSchema": PLAIN,
        "annotations": {"readOnlyHint": True, "x-vendor": 1},
        "_meta": {"anthropic/maxResultSizeChars": 200000, "vendor.example/id": 2**60 + 1},
        "icons": [{"src": "https://example.com/i.png"}],
        "x-vendor": {"rank": 1},
    }
    async with start_gateway({"srv": serving(tmp_path, tool)}) as running:
        (shown,) = [direct(tool.raw, name) for name, tool in running.app.gateway.catalog.exposed.items()]
    assert shown == {**tool, "name": "srv__find"}


@pytest.mark.parametrize("words", ["word " * 1000, "đường 😀 " * 500, "\ud83d" * 3000])
def test_a_long_description_is_cut_below_2_kb_and_says_so(words: str) -> None:
    shown = direct({"name": "x", "description": words, "inputSchema": OBJECT}, "s__x")["description"]
    assert len(shown.encode()) <= DESCRIPTION_BYTES < 2048
    kept, cut, note = shown.partition("… [cut by toolatlas; ")
    assert cut
    assert note == f"{len(words):,} characters in all]"
    assert words.encode("utf-8", "ignore").decode().startswith(kept)
    short = {"name": "x", "description": words[:300], "inputSchema": OBJECT}
    assert direct(short, "s__x")["description"] == words[:300]
    assert passed_through({**short, "description": words}, False)["description"] == words
