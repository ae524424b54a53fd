"""The endpoint against a real HTTP server: what it asks, what it makes of answers, and what it keeps back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from judge.model.endpoint import Cost, Reply
from judge.model.manner import Manner, Rung
from judge.model.openai_endpoint import OpenAIEndpoint
from judge.settings import EndpointSettings
from judge.verdict import Why
from proxy.errors import ConfigurationError
from tests.fixtures.openai_server import (
    Answering,
    Asked,
    Dropped,
    OpenAIServer,
    busy,
    completion,
    failure,
    first,
    only_understanding,
    openai_server,
    refusing,
    telling_no_tokens,
)
from tests.fixtures.running import dead_port_entry

pytestmark = pytest.mark.anyio
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
MESSAGES = [{"role": "system", "content": "s" * 40}, {"role": "user", "content": "u" * 40}]
KEY = "sk-never-seen-0123456789"


@asynccontextmanager
async def endpoint(answering: Answering, **settings: Any) -> AsyncIterator[tuple[OpenAIEndpoint, OpenAIServer]]:
    given: dict[str, Any] = {"model": "small", "timeout_s": 20.0, "retries": 2, **settings}
    async with openai_server(answering) as server:
        asking = OpenAIEndpoint(EndpointSettings(url=server.url, **given), first_pause_s=0.001, longest_pause_s=0.05)
        try:
            with anyio.fail_after(60):
                yield asking, server
        finally:
            await asking.close()


async def ask(asking: OpenAIEndpoint, **more: Any) -> Reply:
    return await asking.ask(MESSAGES, SCHEMA, name="thing", **more)


async def test_a_question_holds_the_answer_to_its_schema_and_its_cost_is_counted() -> None:
    async with endpoint(lambda _: completion('{"x": 1}'), input_price=2.0, output_price=30.0) as (asking, server):
        reply = await ask(asking, seed=7, temperature=0.5)
    assert reply.text == '{"x": 1}'
    assert reply.why is None
    assert reply.cost == Cost(questions=1, input_tokens=100, output_tokens=10, money=0.0005)
    [asked] = server.asked
    assert asked.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True},
    }
    assert asked.body["model"] == "small"
    assert asked.body["messages"] == MESSAGES
    assert (asked.body["seed"], asked.body["temperature"], asked.body["max_tokens"]) == (7, 0.5, 2_000)


@pytest.mark.parametrize(("form", "rung"), [("json_object", Rung.OBJECT), (None, Rung.WORDS)])
async def test_an_endpoint_that_refuses_a_form_is_asked_for_a_lesser_one_and_this_is_remembered(
    form: str | None, rung: Rung
) -> None:
    async with endpoint(only_understanding(form=form, then=lambda _: completion("{}"))) as (asking, server):
        first_reply, second = await ask(asking), await ask(asking)
    assert first_reply.text == second.text == "{}"
    assert asking.manner == Manner(rung=rung)
    assert second.cost.retries == 0
    assert len(server.asked) == first_reply.cost.retries + 2


async def test_an_endpoint_that_does_not_say_what_it_refused_is_asked_for_a_lesser_form_too() -> None:
    def answer(asked: Asked) -> Response:
        if "response_format" in asked.body:
            return PlainTextResponse("unprocessable", 422)
        return completion("{}")

    async with endpoint(answer) as (asking, _):
        assert (await ask(asking)).text == "{}"
    assert asking.manner.rung is Rung.WORDS


async def test_parameters_that_a_model_does_not_know_are_given_up_one_by_one() -> None:
    def answer(asked: Asked) -> Response:
        if "max_tokens" in asked.body:
            return failure(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in asked.body:
            return failure(400, "Unsupported value", param="temperature")
        if "seed" in asked.body:
            return failure(400, "unknown field seed")
        return completion("{}")

    async with endpoint(answer) as (asking, server):
        assert (await ask(asking, seed=1)).text == "{}"
    assert asking.manner == Manner(length="max_completion_tokens", temperature=False, seed=False)
    assert server.asked[-1].body["max_completion_tokens"] == 2_000


async def test_a_question_that_no_form_makes_acceptable_leaves_the_next_one_as_it_was() -> None:
    def answer(asked: Asked) -> Response:
        return failure(400, "This model's maximum context length is 8 tokens") if asked.place < 3 else completion("{}")

    async with endpoint(answer) as (asking, server):
        reply = await ask(asking)
        assert (await ask(asking)).text == "{}"
    assert (reply.text, reply.why, reply.cost.retries) == (None, Why.UNREACHABLE, 2)
    assert reply.note == "the endpoint answered 400: This model's maximum context length is 8 tokens"
    assert asking.manner == Manner()
    assert len(server.asked) == 4


async def test_the_first_question_finds_out_the_form_for_those_asked_at_the_same_time() -> None:
    async with endpoint(only_understanding(form=None, then=lambda _: completion("{}")), at_once=8) as (asking, server):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(ask, asking)
    assert len(server.asked) == 6 + 2


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_a_failure_that_may_pass_is_asked_again(status: int) -> None:
    answering = first(lambda _: failure(status, "not now"), lambda _: completion("{}"))
    async with endpoint(answering) as (asking, _):
        reply = await ask(asking)
    assert (reply.text, reply.cost.retries) == ("{}", 1)


async def test_a_failure_that_stays_ends_after_the_retries() -> None:
    async with endpoint(lambda _: failure(503, "overloaded")) as (asking, server):
        reply = await ask(asking)
    assert (reply.why, reply.note) == (Why.UNREACHABLE, "the endpoint answered 503: overloaded")
    assert reply.cost == Cost(questions=1, retries=2)
    assert len(server.asked) == 3


async def test_a_connection_that_drops_is_tried_again() -> None:
    async with endpoint(first(lambda _: Dropped(), lambda _: completion("{}"))) as (asking, _):
        reply = await ask(asking)
    assert (reply.text, reply.cost.retries) == ("{}", 1)


async def test_a_port_that_nobody_listens_on_is_unreachable() -> None:
    settings = EndpointSettings(url=dead_port_entry()["url"], model="m", retries=1)
    asking = OpenAIEndpoint(settings, first_pause_s=0.001)
    with anyio.fail_after(60):
        reply = await ask(asking)
    await asking.close()
    assert reply.why is Why.UNREACHABLE
    assert reply.note.startswith("the endpoint could not be reached (")
    assert reply.cost.retries == 1


async def test_an_answer_that_does_not_come_in_time_is_given_up() -> None:
    never = anyio.Event()

    async def answer(asked: Asked) -> Response:
        await never.wait()
        return completion("{}")

    async with endpoint(answer, timeout_s=0.1, retries=1) as (asking, server):
        reply = await ask(asking)
        never.set()
    assert (reply.why, reply.note) == (Why.UNREACHABLE, "the endpoint gave no answer in 0.1 s")
    assert len(server.asked) == 2


async def test_an_answer_that_drips_is_given_up_though_something_comes_all_the_time() -> None:
    given_up = anyio.Event()

    class Dripping(Response):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while not given_up.is_set():
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await checkpoint()

    async with endpoint(lambda _: Dripping(), timeout_s=0.2, retries=0) as (asking, _):
        assert (await ask(asking)).note == "the endpoint gave no answer in 0.2 s"
        given_up.set()


@pytest.mark.parametrize(
    ("asked_for", "pause_s"), [("7", 7), ("soon", 0), ("-5", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)]
)
async def test_the_pause_that_a_server_asks_for_is_kept(asked_for: str, pause_s: float) -> None:
    paused = await pauses(first(busy(asked_for), lambda _: completion("{}")))
    assert paused == [pause_s] if pause_s else 0.5 <= paused[0] <= 1.0


async def test_pauses_double_up_to_a_limit_less_something_by_chance() -> None:
    paused = await pauses(lambda _: failure(500, "broken"))
    assert len(paused) == 6
    assert all(most / 2 <= each <= most for each, most in zip(paused, [1, 2, 4, 8, 10, 10], strict=True))


async def pauses(answering: Answering) -> list[float]:
    """What an endpoint with six retries waited, a second at first and ten at most, asked once."""
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    async with openai_server(answering) as server:
        settings = EndpointSettings(url=server.url, model="m", retries=6)
        asking = OpenAIEndpoint(settings, longest_pause_s=10, sleep=sleep)
        with anyio.fail_after(60):
            await ask(asking)
        await asking.close()
    return paused


async def test_a_server_that_asks_for_a_longer_pause_than_makes_sense_is_not_asked_again() -> None:
    async with endpoint(busy("3600")) as (asking, server):
        reply = await ask(asking)
    assert reply.why is Why.UNREACHABLE
    assert len(server.asked) == 1


async def test_no_more_questions_are_open_at_once_than_were_allowed() -> None:
    all_in, running = anyio.Event(), 0

    async def answer(asked: Asked) -> Response:
        nonlocal running
        if asked.place == 0:
            return completion("{}")
        running += 1
        if running == 2:
            all_in.set()
        await all_in.wait()
        return completion("{}")

    async with endpoint(answer, at_once=2) as (asking, server):
        await ask(asking)
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(ask, asking)
    assert (server.at_once, len(server.asked)) == (2, 9)


async def test_a_model_that_declines_has_refused() -> None:
    for answering in (refusing, lambda _: completion("…", finish="content_filter")):
        async with endpoint(answering) as (asking, server):
            reply = await ask(asking)
        assert reply.why is Why.REFUSED
        assert reply.cost.output_tokens == 10
        assert len(server.asked) == 1
    async with endpoint(lambda _: failure(400, "filtered", code="content_filter")) as (asking, server):
        assert (await ask(asking)).why is Why.REFUSED
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("text", "finish", "note"),
    [
        (None, "stop", "the answer was empty"),
        (" \n", "stop", "the answer was empty"),
        ('{"x"', "length", "the answer was cut off at 2000 tokens"),
        (None, "length", "the answer was cut off at 2000 tokens"),
    ],
)
async def test_an_answer_of_nothing_or_of_a_part_is_unreadable(text: str | None, finish: str, note: str) -> None:
    async with endpoint(lambda _: completion(text, finish=finish)) as (asking, _):
        reply = await ask(asking)
    assert (reply.text, reply.why, reply.note) == (None, Why.UNREADABLE, note)
    assert reply.cost.input_tokens == 100


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"choices": []},
        {"choices": {"a": 1}},
        {"choices": "abc"},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 5}}]},
        [1],
        None,
    ],
)
async def test_what_is_no_chat_completion_is_a_failure_and_never_an_error(content: Any) -> None:
    async with endpoint(lambda _: JSONResponse(content), retries=1) as (asking, server):
        reply = await ask(asking)
    assert (reply.why, reply.note) == (
        Why.UNREACHABLE,
        "the endpoint answered with something that is no chat completion",
    )
    assert len(server.asked) == 2


async def test_tokens_that_are_not_told_are_estimated_and_the_reply_says_so() -> None:
    async with endpoint(telling_no_tokens("x" * 40), input_price=1.0) as (asking, _):
        reply = await ask(asking)
    assert (reply.cost.input_tokens, reply.cost.output_tokens) == (20, 10)
    assert reply.cost.money == 20 / 1_000_000
    assert "estimated" in reply.note

    def strange(asked: Asked) -> Response:
        told = json.loads(bytes(completion("{}").body))
        return JSONResponse({**told, "usage": {"prompt_tokens": -5, "completion_tokens": "many"}})

    async with endpoint(strange) as (asking, _):
        assert "estimated" in (await ask(asking)).note


async def test_the_key_goes_to_the_endpoint_and_into_no_note() -> None:
    for status in (400, 401, 403, 429, 500):
        async with endpoint(lambda _, s=status: failure(s, f"bad key {KEY}"), api_key=KEY, retries=0) as (
            asking,
            server,
        ):
            reply = await ask(asking)
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in repr(reply)
        assert str(status) in reply.note
    assert KEY not in repr(EndpointSettings(url="http://x", model="m", api_key=KEY))


async def test_nothing_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "private-of-another")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Api-Key: private-of-another\nAuthorization: private-of-another")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    for key in (None, KEY):
        async with endpoint(lambda _: completion("{}"), api_key=key) as (asking, server):
            assert (await ask(asking)).text == "{}"
        headers = server.asked[0].headers
        assert "private-of-another" not in json.dumps(dict(headers))
        assert headers.get("authorization") == (None if key is None else f"Bearer {KEY}")
        assert not [name for name in headers if name.startswith("x-")]


async def test_a_redirect_leads_nowhere() -> None:
    async with openai_server(lambda _: completion("{}")) as other:
        async with endpoint(lambda _: RedirectResponse(f"{other.url}/chat/completions", 307), retries=0) as (asking, _):
            assert (await ask(asking)).why is Why.UNREACHABLE
    assert other.asked == []


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000/v1", False),
        ("http://localhost:11434/v1", False),
        ("https://api.example.com/v1", True),
        ("http://localhost.example.com/v1", True),
    ],
)
async def test_an_endpoint_is_remote_by_its_host(url: str, remote: bool) -> None:
    asking = OpenAIEndpoint(EndpointSettings(url=url, model="m"))
    assert asking.remote is remote
    await asking.close()


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://localhost@example.com/v1", None),
        ("http://user:private@example.com/v1", None),
        ("http://[::1/v1", None),
        ("http://x/v1", "pri\nvate"),
        ("http://x/v1", "privâte"),
        ("http://x/v1", " private"),
        ("http://x/v1", ""),
    ],
)
def test_what_cannot_be_used_is_told_without_the_secret_in_it(url: str, key: str | None) -> None:
    with pytest.raises(ConfigurationError) as told:
        OpenAIEndpoint(EndpointSettings(url=url, model="m", api_key=key))
    assert "pri" not in str(told.value)
