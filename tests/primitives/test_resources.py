"""Resources, prompts and completion, as a server has them, under the addresses of the agent's mode."""

from __future__ import annotations

import pytest

from tests.fixtures.primitives import COLOURS, TONES, VENDOR
from tests.primitives.agent import error_of
from tests.primitives.conftest import Place, Way, ways

pytestmark = pytest.mark.anyio


@ways()
async def test_resources_are_listed(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        listed = {each["uri"]: each for each in (await agent.request("resources/list", {}))["resources"]}
        own = agent.uri("test://static")
        assert listed[own] == {"uri": own, "name": "static", **VENDOR}
        # Both servers have the same URIs; an agent of both must be able to say which it means.
        seen = [uri for uri in listed if uri.endswith("test://static")]
        both = ["toolatlas://s2025/test://static", "toolatlas://s2026/test://static"]
        assert seen == ([own] if way.mode == "server" else both)


@ways()
async def test_templates_are_listed(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        listed = (await agent.request("resources/templates/list", {}))["resourceTemplates"]
        template = agent.uri("test://item/{id}")
        known = {"uriTemplate": template, "name": "item", "mimeType": "text/plain", **VENDOR}
        assert [each for each in listed if each["uriTemplate"] == template] == [known]
        assert len(listed) == (1 if way.mode == "server" else 2)


@ways()
@pytest.mark.parametrize(
    ("uri", "contents"),
    [
        ("test://static", {"mimeType": "text/plain", "text": "static text"}),
        ("test://binary", {"mimeType": "application/octet-stream", "blob": "AAEC/w=="}),
        ("test://item/7%20a/b?c=ü", {"mimeType": "text/plain", "text": "item 7%20a/b?c=ü"}),
    ],
    ids=["text", "binary", "template"],
)
async def test_a_resource_is_read(shared: Place, way: Way, uri: str, contents: dict[str, str]) -> None:
    async with shared.agent(way) as agent:
        result = await agent.request("resources/read", {"uri": agent.uri(uri)})
        assert result["contents"] == [{"uri": agent.uri(uri), **contents, **VENDOR}]
        assert result["vendor.example/kept"] == VENDOR["vendor.example/kept"]


@ways()
async def test_a_resource_that_does_not_exist_is_the_servers_own_error(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        error = await error_of(agent.request("resources/read", {"uri": agent.uri("test://nowhere")}))
        assert "there is no such resource" in error.message
        assert error.error.data == {"uri": "test://nowhere", **VENDOR}


@ways()
async def test_prompts_are_listed(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        listed = {each["name"]: each for each in (await agent.request("prompts/list", {}))["prompts"]}
        name = agent.prompt("greet")
        arguments = [{"name": "name", "required": True}, {"name": "tone"}]
        assert listed[name] == {"name": name, "description": "Greets somebody.", "arguments": arguments, **VENDOR}


@ways()
async def test_a_prompt_is_got_with_its_arguments(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        params = {"name": agent.prompt("greet"), "arguments": {"name": "Zoë", "tone": "formal"}}
        result = await agent.request("prompts/get", params)
        text = {"type": "text", "text": "Greet Zoë in a formal tone", **VENDOR}
        assert result["messages"] == [{"role": "user", "content": text}]
        assert result["vendor.example/kept"] == VENDOR["vendor.example/kept"]


@ways()
async def test_a_prompt_without_a_required_argument_is_the_servers_own_error(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        error = await error_of(agent.request("prompts/get", {"name": agent.prompt("greet")}))
        assert "an argument is missing" in error.message


@ways()
async def test_an_argument_of_a_prompt_is_completed(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        ref = {"type": "ref/prompt", "name": agent.prompt("greet")}
        params = {"ref": ref, "argument": {"name": "tone", "value": "f"}, "context": {"arguments": {"name": "Zoë"}}}
        completion = (await agent.request("completion/complete", params))["completion"]
        assert completion == {"values": list(TONES), "total": 2, "hasMore": False, **VENDOR}
        (sent,) = [seen for seen in shared.behind(way).seen if seen["method"] == "completion/complete"][-1:]
        assert sent["params"]["context"] == params["context"]


@ways()
async def test_a_part_of_a_resources_address_is_completed(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        ref = {"type": "ref/resource", "uri": agent.uri("test://item/{id}")}
        params = {"ref": ref, "argument": {"name": "id", "value": "b"}}
        completion = (await agent.request("completion/complete", params))["completion"]
        assert completion["values"] == [colour for colour in COLOURS if colour.startswith("b")]


@ways(mode="search")
async def test_in_search_mode_asking_for_the_lists_starts_no_server(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        before = [len(server.seen) for server in shared.servers.values()]
        for method in ("resources/list", "resources/templates/list", "prompts/list", "tools/list"):
            await agent.request(method, {})
        assert [len(server.seen) for server in shared.servers.values()] == before
