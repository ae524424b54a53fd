"""What a server asks reaches the agent whose call it is, and its answer the server, both as they were written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.fixtures.primitives import CONSENT, SAMPLE, URL_REQUIRED, VENDOR, form
from tests.primitives.agent import Asked, accept, error_of, text_of, until
from tests.primitives.conftest import Place, Way, ways

pytestmark = pytest.mark.anyio


@ways()
async def test_elicitation_form(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        answer = await agent.json("elicit_form", message="Which one?")
        assert answer["colour"] == {"action": "accept", "content": {"colour": "green"}, "vendor": "Which one?"}
        (asked,) = agent.asked
        assert (asked.method, asked.params) == form("Which one?", **VENDOR)


@ways()
async def test_elicitation_url(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        answer = await agent.json("elicit_url")
        assert answer["consent"] == {"action": "accept", "vendor": CONSENT["message"]}
        (asked,) = agent.asked
        assert (asked.method, asked.params) == ("elicitation/create", CONSENT)
        if (way.agent, way.server) == ("2025", "2025"):
            # The newer era has no such message.
            await until(lambda: bool(agent.of("notifications/elicitation/complete")), "the server says it is done")
            assert agent.of("notifications/elicitation/complete") == [{"elicitationId": CONSENT["elicitationId"]}]


@ways()
async def test_an_address_that_must_be_visited_first_is_told_to_the_client(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        error = await error_of(agent.call("url_required"))
        assert error.code == URL_REQUIRED
        assert "sign in first" in error.message
        assert error.error.data == {"elicitations": [CONSENT], **VENDOR}


@ways()
async def test_sampling(shared: Place, way: Way) -> None:
    async def answer(asked: Asked) -> Any:
        if asked.context is not None:
            await asked.context.progress(1, 2, "thinking")
        return await accept(asked)

    async with shared.agent(way, answer=answer) as agent:
        answered = await agent.json("sample")
        assert answered["hello"]["content"] == {"type": "text", "text": "hello"}
        assert answered["hello"]["vendor"] == 1
        (asked,) = agent.asked
        method, params = SAMPLE
        meta = asked.params["_meta"]
        token = meta.pop("progressToken", None)
        assert (asked.method, asked.params) == (method, params)
        if (way.agent, way.server) == ("2025", "2025"):
            # Nobody reports progress of an answer that is given with the next request.
            assert token is not None
            assert answered["progress"] == [[1.0, 2.0, "thinking"]]


@ways()
async def test_roots(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        if way.server == "2025":
            # Roots are kept for a connection, so they are told on an agent's own; the first question makes it one.
            await agent.call("elicit_form")
        answered = await agent.json("roots")
        assert answered["folders"] == {"roots": [{"uri": "file:///work", "name": "work", "vendor": 1}]}
        assert agent.asked[-1].method == "roots/list"


@ways()
async def test_two_questions_one_after_the_other(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        answered = await agent.json("ask_twice")
        assert (answered["first"]["vendor"], answered["second"]["vendor"]) == ("First?", "Second?")
        assert [asked.params["message"] for asked in agent.asked] == ["First?", "Second?"]


@ways()
async def test_two_questions_at_once(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        answered = await agent.json("ask_both")
        assert (answered["first"]["vendor"], answered["second"]["vendor"]) == ("First?", "Second?")
        assert sorted(asked.params["message"] for asked in agent.asked) == ["First?", "Second?"]


@ways()
async def test_what_the_user_declines_or_cancels_is_told_as_that(shared: Place, way: Way) -> None:
    actions = iter(("decline", "cancel"))

    async def answer(asked: Asked) -> Any:
        return {"action": next(actions)}

    async with shared.agent(way, answer=answer) as agent:
        assert (await agent.json("elicit_form"))["colour"] == {"action": "decline"}
        assert (await agent.json("elicit_form"))["colour"] == {"action": "cancel"}


@ways()
async def test_a_server_is_told_what_the_agent_can_be_asked(shared: Place, way: Way) -> None:
    declared = {"elicitation": {"form": {}}, "sampling": {}}
    async with shared.agent(way, capabilities=declared) as agent:
        await agent.call("elicit_form")
        assert await agent.json("capabilities") == declared


@ways()
async def test_an_agent_without_the_capability_is_not_asked(shared: Place, way: Way) -> None:
    async with shared.agent(way, capabilities={}) as agent:
        for tool, kind in (("elicit_form", "elicitation"), ("sample", "sampling"), ("roots", "roots")):
            if way.server == "2025":
                # The server learns it, and goes on as it wants to.
                result = await agent.call(tool)
                assert result["isError"] is True
                assert "not answered" in text_of(result)
                assert kind in text_of(result)
            elif way.agent == "2025":
                assert kind in await refusal(agent, tool)
            else:
                # Both speak the era in which the question is part of the result, so the agent sees it.
                assert (await agent.begin(tool))["resultType"] == "input_required"
        assert agent.asked == []


async def refusal(agent: Any, tool: str) -> str:
    """The words of an error, which `search` gives as a result for the model to read."""
    try:
        result = await agent.call(tool)
    except MCPError as error:
        return error.message
    assert result["isError"] is True
    return text_of(result)


@ways()
async def test_only_forms_are_put_to_an_agent_that_cannot_open_addresses(shared: Place, way: Way) -> None:
    async with shared.agent(way, capabilities={"elicitation": {}}) as agent:
        assert (await agent.json("elicit_form"))["colour"]["action"] == "accept"
        if way.server == "2025":
            assert "url elicitation" in text_of(await agent.call("elicit_url"))
        elif way.agent == "2025":
            assert "url elicitation" in await refusal(agent, "elicit_url")
        assert len(agent.asked) == 1


@ways(agent="2025")
async def test_a_client_that_fails_at_a_question_is_heard_by_the_server(shared: Place, way: Way) -> None:
    # In the newer era an answer is part of a request: there is nothing that could be an error.
    async def answer(asked: Asked) -> Any:
        raise MCPError(-1, "the user threw the laptop away")

    async with shared.agent(way, answer=answer) as agent:
        assert "threw the laptop away" in await refusal(agent, "elicit_form")


@ways()
async def test_a_prompt_may_ask(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        result = await agent.complete("prompts/get", {"name": agent.prompt("asking")})
        answer = json.loads(result["messages"][0]["content"]["text"])
        assert answer == {"action": "accept", "content": {"colour": "green"}, "vendor": "Which colour for the prompt?"}


@ways()
async def test_a_resource_may_ask(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        result = await agent.complete("resources/read", {"uri": agent.uri("test://asking")})
        answer = json.loads(result["contents"][0]["text"])
        assert (answer["action"], answer["vendor"]) == ("accept", "Which colour for the resource?")
