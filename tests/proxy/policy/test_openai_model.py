"""A model behind an OpenAI-compatible server over HTTP: with tool calls, without them, and when it fails."""

from __future__ import annotations

import json

import pytest
from starlette.responses import JSONResponse, Response

from proxy.errors import ConfigurationError, ModelError
from proxy.policy.base import Action, Asked, Conversation, Exchange
from proxy.policy.openai_model import OpenAIModel
from proxy.settings import ModelSettings
from tests.fixtures.openai_server import Asked as Request
from tests.fixtures.openai_server import Dropped, failure, openai_server
from tests.proxy.policy.scripted import MEMBERS, doing, in_order, model_of, saying, settings_of

pytestmark = pytest.mark.anyio
PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}}
ACTIONS = (
    Action(name="search_tools", description="Find tools.", parameters=PARAMETERS),
    Action(name="finish_task", description="End.", parameters={"type": "object"}),
)
LINE = 'search_tools {"query": "time"}'
CONVERSATION = Conversation(
    system="Rules.",
    task="The time?",
    exchanges=(
        Exchange(said="Hm.", asked=(), observed=("That was no action.",)),
        Exchange(
            said="",
            asked=(
                Asked(id="a1", name="search_tools", arguments={"query": "Zeit"}),
                Asked(id="a2", name="search_tools", arguments={}),
            ),
            observed=("time.now()", "[error]\nquery is missing"),
        ),
    ),
)


async def test_tool_calls_are_asked_for_and_read() -> None:
    async with model_of(lambda _: doing(("search_tools", {"query": "time"}), said="Let me look.")) as (model, served):
        answer = await model.answer(CONVERSATION, ACTIONS)
    assert answer.said == "Let me look."
    assert [(each.id, each.name, each.arguments) for each in answer.asked] == [
        ("id0", "search_tools", {"query": "time"})
    ]
    assert (answer.tokens_in, answer.tokens_out) == (100, 10)
    body = served.asked[0].body
    assert [each["function"]["name"] for each in body["tools"]] == ["search_tools", "finish_task"]
    assert body["tools"][0]["function"]["parameters"] == PARAMETERS
    assert [each["role"] for each in body["messages"]] == [
        *("system", "user", "assistant", "user", "assistant", "tool", "tool"),
    ]
    calls = body["messages"][4]["tool_calls"]
    assert [json.loads(each["function"]["arguments"]) for each in calls] == [{"query": "Zeit"}, {}]
    assert [each["tool_call_id"] for each in body["messages"][5:]] == ["a1", "a2"]


async def test_an_endpoint_that_refuses_tools_is_asked_in_text_from_then_on() -> None:
    def answering(asked: Request) -> Response:
        if "tools" in asked.body:
            return failure(400, '"auto" tool choice requires --enable-auto-tool-choice')
        return saying(LINE)

    async with model_of(answering) as (model, served):
        first = await model.answer(CONVERSATION, ACTIONS)
        await model.answer(CONVERSATION, ACTIONS)
    assert [each.arguments for each in first.asked] == [{"query": "time"}]
    assert ["tools" in each.body for each in served.asked] == [True, False, False]
    roles = [each["role"] for each in served.asked[1].body["messages"]]
    assert roles == ["system", "user", *["assistant", "user"] * 3]
    assert served.asked[1].body["messages"][-2]["content"] == "search_tools {}"


async def test_an_action_in_the_text_of_an_endpoint_that_ignores_tools_is_read() -> None:
    async with model_of(lambda _: saying(f"I look.\n{LINE}")) as (model, _):
        answer = await model.answer(CONVERSATION, ACTIONS)
    assert answer.said == "I look."
    assert [each.name for each in answer.asked] == ["search_tools"]


async def test_reasoning_is_no_part_of_what_was_said() -> None:
    async with model_of(lambda _: saying(f"<think>{LINE}</think>It is noon.")) as (model, _):
        answer = await model.answer(CONVERSATION, ACTIONS)
    assert (answer.said, answer.asked) == ("It is noon.", ())


@pytest.mark.parametrize("arguments", ['{"query": ', "[1, 2]", "query=time"])
async def test_arguments_that_cannot_be_read_are_a_problem_and_no_error(arguments: str) -> None:
    call = {"id": "x", "type": "function", "function": {"name": "search_tools", "arguments": arguments}}
    async with model_of(lambda _: saying(None, tool_calls=[call])) as (model, _):
        (asked,) = (await model.answer(CONVERSATION, ACTIONS)).asked
    assert asked.arguments == {}
    assert asked.problem is not None


@pytest.mark.parametrize("arguments", [{"query": "time"}, '"{\\"query\\": \\"time\\"}"'])
async def test_arguments_as_an_object_or_as_text_in_text_are_understood(arguments: object) -> None:
    call = {"type": "function", "function": {"name": "search_tools", "arguments": arguments}}
    async with model_of(lambda _: saying(None, tool_calls=[call])) as (model, _):
        (asked,) = (await model.answer(CONVERSATION, ACTIONS)).asked
    assert (asked.arguments, asked.id) == ({"query": "time"}, "call00001")


async def test_tokens_are_estimated_where_the_endpoint_does_not_count_them() -> None:
    message = {"role": "assistant", "content": "x" * 400}
    response = JSONResponse({**MEMBERS, "choices": [{"index": 0, "message": message}]})
    async with model_of(lambda _: response) as (model, _):
        answer = await model.answer(CONVERSATION, ACTIONS)
    assert 100 <= answer.tokens_out <= 120
    assert 40 <= answer.tokens_in <= 200


async def test_parameters_that_an_endpoint_does_not_know_are_left_out() -> None:
    def answering(asked: Request) -> Response:
        for name in ("max_tokens", "temperature"):
            if name in asked.body:
                return failure(400, f"Unsupported parameter: '{name}'", param=name)
        return saying("Hello.")

    async with model_of(answering) as (model, served):
        assert (await model.answer(CONVERSATION, ACTIONS)).said == "Hello."
        await model.answer(CONVERSATION, ACTIONS)
    assert len(served.asked) == 4
    assert served.asked[-1].body["max_completion_tokens"] == 500


@pytest.mark.parametrize("passing", [failure(429, "slow down"), failure(503, "loading"), Dropped(), JSONResponse([])])
async def test_what_may_pass_is_tried_again(passing: Response) -> None:
    async with model_of(in_order(passing, "Hello.")) as (model, _):
        assert (await model.answer(CONVERSATION, ACTIONS)).said == "Hello."


async def test_a_failure_that_stays_names_model_endpoint_and_words_but_never_the_key() -> None:
    def answering(asked: Request) -> Response:
        return failure(400, f"model not found; you sent {asked.headers['authorization']}")

    async with openai_server(answering) as served:
        model = OpenAIModel(settings_of(served, "sk-secret"), 500)
        with pytest.raises(ModelError) as raised:
            await model.answer(CONVERSATION, ACTIONS)
        await model.close()
    assert f"the model scripted at {served.url} answered 400: model not found" in str(raised.value)
    assert "sk-secret" not in str(raised.value)
    assert len(served.asked) == 1


async def test_retries_end() -> None:
    async with model_of(lambda _: failure(500, "broken")) as (model, served):
        with pytest.raises(ModelError, match="answered 500: broken"):
            await model.answer(CONVERSATION, ACTIONS)
    assert len(served.asked) == 4


async def test_a_refused_key_says_which_variable_to_correct() -> None:
    async with model_of(lambda _: failure(401, "bad key")) as (model, _):
        with pytest.raises(ModelError, match="TOOLATLAS_AGENT_API_KEY"):
            await model.answer(CONVERSATION, ACTIONS)


async def test_nothing_of_the_environment_reaches_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another")
    async with model_of(lambda _: saying("Hello.")) as (model, served):
        await model.answer(CONVERSATION, ACTIONS)
    assert "authorization" not in served.asked[0].headers
    assert "of-another" not in str(served.asked[0].headers)


def test_an_address_or_a_key_that_cannot_be_meant_is_refused() -> None:
    for given in ({"url": "localhost:8000"}, {"url": "http://u:p@x/v1"}, {"api_key": "with\nbreak"}):
        with pytest.raises(ConfigurationError):
            ModelSettings(model="m", **given)
    assert "sk-secret" not in repr(ModelSettings(model="m", api_key="sk-secret"))
