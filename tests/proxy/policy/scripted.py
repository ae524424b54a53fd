"""Answers of a scripted endpoint, and models of `proxy/policy` that ask it over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.responses import JSONResponse, Response

from proxy.policy.openai_model import OpenAIModel
from proxy.settings import ModelSettings
from tests.fixtures.openai_server import Answering, Asked, OpenAIServer, openai_server

LIMIT_S = 60.0
Turn = tuple[str, Mapping[str, Any]]
MEMBERS: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 0, "model": "scripted"}


def doing(*turns: Turn, said: str | None = None) -> Response:
    """One completion with these tool calls."""
    calls = [
        {"id": f"id{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(turns)
    ]
    return saying(said, tool_calls=calls)


def saying(text: str | None, **more: Any) -> Response:
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return JSONResponse({**MEMBERS, "choices": [{"index": 0, "message": message}], "usage": usage})


def in_order(*answers: Turn | str | Response) -> Answering:
    """The k-th request gets the k-th answer; further ones the last."""

    def answer(asked: Asked) -> Response:
        given = answers[min(asked.place, len(answers) - 1)]
        if isinstance(given, Response):
            return given
        return saying(given) if isinstance(given, str) else doing(given)

    return answer


@asynccontextmanager
async def model_of(answering: Answering, **more: Any) -> AsyncGenerator[tuple[OpenAIModel, OpenAIServer]]:
    async with openai_server(answering) as served:
        model = OpenAIModel(settings_of(served), 500, first_pause_s=0.001, **more)
        try:
            yield model, served
        finally:
            await model.close()


def settings_of(served: OpenAIServer, key: str | None = None) -> ModelSettings:
    return ModelSettings(model="scripted", url=served.url, api_key=key)


def observations(asked: Asked) -> Sequence[str]:
    """What the model has read so far of what its tools answered."""
    return [each["content"] for each in asked.body["messages"] if each["role"] == "tool"]


def done(answer: str) -> Turn:
    return "finish_task", {"outcome": "done", "answer": answer}
