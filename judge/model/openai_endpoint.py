"""Any server that speaks OpenAI's chat completions: vLLM, Ollama, llama.cpp, a vendor.

Above: commands/, which makes one of settings. Below: manner.py, failing.py, proxy/openai_client.py.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from judge.model.endpoint import Cost, Reply
from judge.model.failing import Failure, Garbage, failure_of, shown
from judge.model.manner import Manner
from judge.settings import EndpointSettings
from judge.verdict import Why
from proxy.openai_client import is_loopback, openai_client

CHARS_A_TOKEN = 4
"""Where an endpoint does not say how many tokens it took."""


class OpenAIEndpoint:
    """Implements `Endpoint`. Belongs to one event loop; `close` it there.

    Args:
        settings: Where it is, and its limits.
        first_pause_s: Before the first retry; doubles with each, up to `longest_pause_s`, less up to half by chance.
        longest_pause_s: A server that asks for a longer one is not asked again.
        sleep: Waits so many seconds.

    Raises:
        ConfigurationError: The `openai` package is missing, or URL or key cannot be used.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        *,
        first_pause_s: float = 1.0,
        longest_pause_s: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._sleep = sleep
        self._client = openai_client(
            settings.url,
            settings.api_key,
            timeout_s=settings.timeout_s,
            whose="the judge's endpoint",
            connections=settings.at_once,
        )
        self._remote = not is_loopback(self._client.base_url.host)
        self._places = asyncio.Semaphore(settings.at_once)
        self._first = asyncio.Lock()
        self._manner = Manner()
        self._settled = False

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def remote(self) -> bool:
        return self._remote

    @property
    def manner(self) -> Manner:
        """As the first question that was answered had to be put; before, the best there is."""
        return self._manner

    async def close(self) -> None:
        await self._client.close()

    async def ask(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any],
        *,
        name: str,
        seed: int | None = None,
        temperature: float = 0.0,
    ) -> Reply:
        """See `Endpoint`."""

        def parameters(manner: Manner) -> dict[str, Any]:
            most = self._settings.max_output_tokens
            return {
                "model": self._settings.model,
                "messages": list(messages),
                **manner.parameters(schema, name=name, most_tokens=most, temperature=temperature, seed=seed),
            }

        async with self._places:
            if not self._settled:
                # One question finds out what the endpoint understands, instead of all at once.
                async with self._first:
                    if not self._settled:
                        return await self._put(parameters)
            return await self._put(parameters)

    async def _put(self, parameters: Callable[[Manner], Mapping[str, Any]]) -> Reply:
        manner, retries, asked = self._manner, 0, 0
        while True:
            asked += 1
            outcome = await self._attempt(parameters(manner))
            if isinstance(outcome, _Completion):
                if not self._settled:
                    self._manner, self._settled = manner, True
                return self._reply(outcome, parameters(manner)["messages"], asked - 1)
            lesser = None if outcome.complaint is None else manner.without_what(outcome.complaint)
            if lesser is not None:
                manner = lesser
                continue
            if not outcome.again or retries == self._settings.retries or outcome.pause_s > self._longest_pause_s:
                return Reply(text=None, why=outcome.why, note=outcome.note, cost=Cost(questions=1, retries=asked - 1))
            await self._sleep(max(outcome.pause_s, self._back_off(retries)))
            retries += 1

    async def _attempt(self, parameters: Mapping[str, Any]) -> _Completion | Failure:
        import httpx2
        import openai

        try:
            # The package's own limit is for each part of an answer, and a server can send many.
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=parameters)
            return _completion(answer.content)
        except (TimeoutError, Garbage, openai.OpenAIError) as error:
            return failure_of(error, self._settings)

    def _back_off(self, retries: int) -> float:
        # A float has no power of two beyond 1023.
        longest = min(self._longest_pause_s, self._first_pause_s * 2.0 ** min(retries, 64))
        return longest * random.uniform(0.5, 1.0)

    def _reply(self, completion: _Completion, messages: Sequence[Mapping[str, str]], retries: int) -> Reply:
        choice = completion.choices[0]
        text, refusal = choice.message.content, choice.message.refusal
        cost, note = self._cost(completion, messages, retries)
        if refusal or choice.finish_reason == "content_filter":
            said = f": {shown(refusal, self._settings)}" if refusal else ""
            return Reply(text=None, why=Why.REFUSED, note=f"the model declined{said}", cost=cost)
        if choice.finish_reason == "length":
            note = f"the answer was cut off at {self._settings.max_output_tokens} tokens"
            return Reply(text=None, why=Why.UNREADABLE, note=note, cost=cost)
        if text is None or not text.strip():
            return Reply(text=None, why=Why.UNREADABLE, note="the answer was empty", cost=cost)
        return Reply(text=text, note=note, cost=cost)

    def _cost(self, completion: _Completion, messages: Sequence[Mapping[str, str]], retries: int) -> tuple[Cost, str]:
        note = ""
        try:
            used = _Usage.model_validate(completion.usage)
            read, written = used.prompt_tokens, used.completion_tokens
        except ValidationError:
            read = sum(len(message["content"]) for message in messages) // CHARS_A_TOKEN
            written = len(completion.choices[0].message.content or "") // CHARS_A_TOKEN
            note = "the endpoint did not tell its tokens: they are estimated"
        money = (read * self._settings.input_price + written * self._settings.output_price) / 1_000_000
        return Cost(questions=1, retries=retries, input_tokens=read, output_tokens=written, money=money), note


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: NonNegativeInt
    completion_tokens: NonNegativeInt


class _Completion(BaseModel):
    """What is read of a chat completion. The package itself would pass on anything."""

    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None
    """Not every server tells it."""


def _completion(body: bytes) -> _Completion:
    try:
        return _Completion.model_validate_json(body)
    except ValidationError:
        raise Garbage from None
