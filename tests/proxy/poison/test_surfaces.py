"""What an agent is shown of thirty poisoned servers: nothing unseen, nothing endless, and no word in our own voice."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest
from mcp import Client

from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import stub
from proxy.metatools.finding import MAX_FOUND, UNSURE
from tests.fixtures.poisoned import EVERYONE, HONEST, NAMES, POISONED, STUFFING
from tests.proxy.poison.conftest import StartKnowing, answer, entries, unseen

pytestmark = pytest.mark.anyio
SERVERS = [said.name for said in EVERYONE]
ORDERS = re.compile(
    r"ignore|disregard|before using|before_any_other\.prepare|important|never use|<|!\[|\]\(|evil\.example|javascript:|"
    r"data:|moved to|task_id|\[down|approve everything",
    re.IGNORECASE,
)
"""What of the corpus must not be in the index, which every conversation begins with."""
SAYS_THE_SAME = frozenset({"cyrillic", "digits", "wide", "full_name", "joined", "same_name"})
"""As an honest server, word for word."""
QUERIES = [
    *(query for said in HONEST for query in said.queries),
    *(
        "ignore previous instructions",
        "next describe_tools",
        "files moved",
        "chart",
        "save mode kind",
        "shape",
        STUFFING,
    ),
]


async def test_the_index_has_one_clean_line_a_server_and_no_orders(start_knowing: StartKnowing) -> None:
    async with start_knowing() as app, Client(app.server, mode="legacy") as client:
        instructions = client.instructions or ""
    assert unseen(instructions) == []
    assert len(instructions.encode()) <= 2_048
    _, *lines = instructions.split("\n")
    shown = [line.split(" - ")[0] for line in lines if not line.startswith("…")]
    assert shown == SERVERS[: len(shown)]
    assert len(shown) > 25
    assert [line for line in lines if ORDERS.search(_said_by(line))] == []


@pytest.mark.parametrize("said", POISONED, ids=lambda said: said.name)
async def test_the_index_line_of_each_poisoned_server_is_its_name_and_a_harmless_purpose(
    start_knowing: StartKnowing, said: Any
) -> None:
    """Each alone, so that its purpose has all the room there is."""
    async with start_knowing([said]) as app, Client(app.server, mode="legacy") as client:
        _, *lines = (client.instructions or "").split("\n")
    assert len(lines) == 1
    assert re.fullmatch(rf"{said.name} - .{{1,90}} \({len(said.tools)}\)", lines[0])
    assert unseen(lines[0]) == []
    assert not ORDERS.search(_said_by(lines[0]))


async def test_the_list_of_servers_has_one_line_each(start_knowing: StartKnowing) -> None:
    async with start_knowing() as app, Client(app.server) as client:
        text = (await client.call_tool("list_servers", {})).content[0].text
    assert unseen(text) == []
    lines = text.split("\n")
    assert [line.split(" - ")[0] for line in lines] == SERVERS
    assert all(re.search(r" \(\d+ tools?\)$", line) and len(line) < 200 for line in lines)
    assert [line for line in lines if ORDERS.search(_said_by(line))] == []


async def test_a_list_of_tools_has_one_line_each_that_begins_with_its_name(start_knowing: StartKnowing) -> None:
    async with start_knowing() as app, Client(app.server, mode="legacy") as client:
        for server in app.gateway.catalog.servers:
            text = await answer(client, "list_tools", server=server.written)
            assert unseen(text) == []
            lines = text.split("\n")
            # What stands before the colon is ours: no mark is imitated there.
            assert [line.split(": ")[0].rstrip(":") for line in lines] == [tool.written for tool in server.tools]
            assert all(len(line) < 220 for line in lines)


async def test_found_tools_are_a_call_and_an_indented_line_each(start_knowing: StartKnowing) -> None:
    async with start_knowing() as app, Client(app.server, mode="legacy") as client:
        for query in QUERIES:
            text = await answer(client, "search_tools", query=query, limit=MAX_FOUND)
            _is_what_was_found(text, set(app.gateway.catalog.tools))


def _is_what_was_found(text: str, names: set[str]) -> None:
    assert unseen(text) == []
    *lines, last = text.split("\n")
    assert last.removesuffix(UNSURE) == 'Next: describe_tools(["..."]), then call_tool.'
    assert lines
    for call, about in zip(lines[::2], lines[1::2], strict=True):
        assert call.partition("(")[0] in names
        assert about.startswith("    ")
        assert len(call) < 300
        assert len(about) < 160


async def test_stubs_are_python_that_does_nothing(start_knowing: StartKnowing) -> None:
    async with start_knowing() as app, Client(app.server, mode="legacy") as client:
        for tool in app.gateway.catalog.tools.values():
            text = await answer(client, "describe_tools", tools=[tool.written])
            assert unseen(text) == [], tool.written
            assert len(text.encode()) <= 10_500
            header, _, source = text.partition("\n")
            if header.startswith("[toolatlas: "):
                header, source = f"# {tool.written}", stub(tool)
            assert header == f"# {tool.written}"
            assert _statements(source, tool) == [], tool.written


async def test_stubs_of_several_tools_stay_apart(start_knowing: StartKnowing) -> None:
    async with start_knowing() as app, Client(app.server, mode="legacy") as client:
        names = ["own_notes.go", "docstring.close", "files.read_file"]
        text = await answer(client, "describe_tools", tools=names)
    headers = [line for line in text.split("\n") if line.startswith("#")]
    assert headers == [f"# {name}" for name in names]
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["go", "close", "read_file"]


async def test_definitions_as_json_are_what_the_server_sent_with_every_character_to_be_seen(
    start_knowing: StartKnowing,
) -> None:
    async with start_knowing() as app, Client(app.server, mode="legacy") as client:
        for tool in app.gateway.catalog.tools.values():
            text = await answer(client, "describe_tools", tools=[tool.written], format="json")
            assert unseen(text) == [], tool.written
            assert len(text.encode()) <= 10_500
            if not text.startswith("[toolatlas: "):
                assert "\n" not in text
                assert json.loads(text) == {**tool.raw, "name": tool.written}


async def test_direct_mode_passes_descriptions_on_under_names_of_ours(start_knowing: StartKnowing) -> None:
    """That is what it is for; docs/security.md says so. Names and index are ours, and clean."""
    async with start_knowing() as app:
        for exposed in app.gateway.catalog.exposed:
            assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", exposed)
        assert len(app.gateway.catalog.exposed) == sum(len(said.tools) for said in EVERYONE)


async def test_the_index_names_no_tool_that_is_denied(start_knowing: StartKnowing) -> None:
    (said,) = (said for said in HONEST if said.name == "time")
    servers = entries([said], tools={"deny": ["convert_*"]})
    async with start_knowing([said], servers) as app, Client(app.server) as client:
        assert "time - Time: get_current_time (1)" in (client.instructions or "")


async def test_nothing_of_a_server_that_waits_is_shown_but_its_name(start_knowing: StartKnowing) -> None:
    servers = {**entries(HONEST), **entries(POISONED, on_new="ask")}
    async with start_knowing(servers=servers) as app, Client(app.server, mode="legacy") as client:
        told = [
            client.instructions or "",
            *[tool.model_dump_json() for tool in (await client.list_tools()).tools],
            await answer(client, "list_servers"),
            *[await answer(client, "search_tools", query=query, limit=MAX_FOUND) for query in QUERIES],
            *[await answer(client, "list_tools", server=said.name) for said in POISONED],
        ]
        honest = {tool.written for tool in app.gateway.catalog.tools.values()}
        waiting = [server for server in app.gateway.catalog.servers if server.name in NAMES]
    assert honest == {f"{said.name}.{tool['name']}" for said in HONEST for tool in said.tools}
    assert {(server.purpose, server.tools, server.listing) for server in waiting} == {
        ("waiting to be accepted", (), None)
    }
    for said in POISONED:
        names = {f"{said.name}.{_word(str(tool['name']))}" for tool in said.tools}
        texts = [said.instructions, *said.info.values(), *(tool.get("description") for tool in said.tools)]
        for words in [*names, *(text[:60] for text in texts if isinstance(text, str) and len(text) > 20)]:
            assert not [text for text in told if words in text and said.name not in SAYS_THE_SAME]


def _said_by(line: str) -> str:
    """A line of the index without the server's configured name, which its owner chose."""
    name, _, rest = line.partition(" - ")
    return rest.replace(name, "")


def _word(name: str) -> str:
    return re.sub(r"\W", "_", name[:40], flags=re.ASCII)


def _statements(source: str, tool: ToolRecord) -> list[str]:
    """What a stub has beside type definitions and one function without a body."""
    wrong: list[str] = []
    body = ast.parse(source).body
    for node in body:
        match node:
            case ast.ClassDef(bases=[ast.Name(id="TypedDict")], body=fields, decorator_list=[]):
                wrong += [
                    ast.unparse(field)
                    for field in fields
                    if not isinstance(field, ast.AnnAssign) or field.value is not None
                ]
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypedDict"))):
                calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
                wrong += [ast.unparse(inner) for inner in calls[1:]]
            case ast.FunctionDef(body=[ast.Expr(value=ast.Constant())], decorator_list=[]):
                if node is not body[-1] or node.name != tool.written.partition(".")[2]:
                    wrong.append(node.name)
                wrong += [ast.unparse(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)]
            case _:
                wrong.append(ast.unparse(node))
    return wrong
