"""A model behind any server that speaks OpenAI's chat completions: vLLM, Ollama, llama.cpp, a vendor.

Above: making.py. Below: proxy/openai_client.py, and text_calls.py where the server has no tool calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from proxy.errors import ModelError
from proxy.openai_client import openai_client
from proxy.policy.base import Action, Answer, Asked, Conversation
from proxy.policy.counting import tokens_of, tokens_of_actions, tokens_of_conversation
from proxy.policy.text_calls import SAID_CHARS, asked_of, found, messages, read_arguments, without_reasoning
from proxy.settings import ModelSettings
from proxy.store.rendering import visible

if TYPE_CHECKING:
    import openai

RETRIES = 3
LONGEST_PAUSE_S = 30.0
NOTE_CHARS = 300
_AGAIN = frozenset({408, 409, 429})


class OpenAIModel:
    """Implements `Model`.

    Args:
        settings: Where it is asked; `url` is set.
        output_tokens: The most of one answer.
        timeout_s: How long one answer may take.
        first_pause_s: Before the first retry; doubles with each.

    Raises:
        ConfigurationError: The `openai` package is missing, or URL or key cannot be used.
    """

    def __init__(
        self, settings: ModelSettings, output_tokens: int, *, timeout_s: float = 120.0, first_pause_s: float = 1.0
    ) -> None:
        self._settings = settings
        self._output_tokens = output_tokens
        self._timeout_s = timeout_s
        self._first_pause_s = first_pause_s
        assert settings.url is not None
        self._client = openai_client(settings.url, settings.api_key, timeout_s=timeout_s, whose="the agent's endpoint")
        self._ids = count(1)
        self._in_text = False
        """The endpoint was found to have no tool calls."""
        self._length = "max_tokens"
        """What the endpoint calls the most tokens of an answer."""
        self._temperature = True
        """Whether it takes one."""

    @property
    def identity(self) -> str:
        return self._settings.identity

    async def close(self) -> None:
        await self._client.close()

    async def answer(self, conversation: Conversation, actions: tuple[Action, ...]) -> Answer:
        """See `Model`."""
        retries = 0
        while True:
            body = self._body(conversation, actions)
            outcome = await self._attempt(body)
            if isinstance(outcome, _Completion):
                return self._answer(outcome, conversation, actions)
            if outcome.complaint is not None and self._give_way(outcome.complaint):
                continue
            if not outcome.again or retries == RETRIES:
                raise ModelError(f"the model {self._settings.model} at {self._settings.url} {outcome.note}")
            await anyio.sleep(min(LONGEST_PAUSE_S, self._first_pause_s * 2**retries))
            retries += 1

    def _body(self, conversation: Conversation, actions: tuple[Action, ...]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._settings.model, self._length: self._output_tokens}
        if self._temperature:
            body["temperature"] = 0
        if self._in_text:
            return {**body, "messages": messages(conversation, actions)}
        tools = [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.description, "parameters": each.parameters},
            }
            for each in actions
        ]
        return {**body, "messages": _native(conversation), "tools": tools}

    def _give_way(self, complaint: str) -> bool:
        """Ask for less of what the endpoint refused; False where nothing is left."""
        complaint = complaint.lower()
        if "tool" in complaint or "function" in complaint:
            changed, self._in_text = not self._in_text, True
        elif "max_tokens" in complaint or "max_completion_tokens" in complaint:
            changed, self._length = self._length == "max_tokens", "max_completion_tokens"
        elif "temperature" in complaint:
            changed, self._temperature = self._temperature, False
        else:
            return False
        return changed

    async def _attempt(self, body: Mapping[str, Any]) -> _Completion | _Failure:
        import httpx2
        import openai

        try:
            # The package's own limit is for each part of an answer, and a server can send many.
            with anyio.fail_after(self._timeout_s):
                answer = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
            return _Completion.model_validate_json(answer.content)
        except (TimeoutError, openai.APITimeoutError):
            return _Failure(note=f"gave no answer in {self._timeout_s:g} s", again=True)
        except ValidationError:
            return _Failure(note="answered with something that is no chat completion", again=True)
        except openai.APIStatusError as error:
            return self._refused(error)
        except openai.OpenAIError as error:
            cause = type(error.__cause__ or error).__name__
            return _Failure(note=f"could not be reached ({cause}); is it running?", again=True)

    def _refused(self, error: openai.APIStatusError) -> _Failure:
        status, body = error.status_code, cast("Any", error.body)
        if status in (401, 403):
            # Servers quote the key here.
            return _Failure(note=f"does not accept the key ({status}): correct TOOLATLAS_AGENT_API_KEY")
        told = cast("Mapping[str, Any]", body).get("message") if isinstance(body, Mapping) else None
        said = self._shown(told) if isinstance(told, str) else ""
        note = f"answered {status}{': ' if said else ''}{said}"
        if status in (400, 404, 422, 501) or (status == 500 and "tool" in said.lower()):
            return _Failure(note=note, complaint=f"{error.param} {said}")
        return _Failure(note=note, again=status in _AGAIN or status >= 500)

    def _shown(self, text: str) -> str:
        if self._settings.api_key:
            text = text.replace(self._settings.api_key, "[key]")
        return " ".join(visible(text[:NOTE_CHARS]).split())

    def _answer(self, completion: _Completion, conversation: Conversation, actions: tuple[Action, ...]) -> Answer:
        message = completion.choices[0].message
        said = without_reasoning(message.content or "")
        asked = [self._asked(call) for call in message.tool_calls or () if call.function.name]
        if not asked and (meant := found(said, {each.name for each in actions})) is not None:
            asked, said = [asked_of(meant, self._id())], meant.said
        try:
            used = _Usage.model_validate(completion.usage)
            tokens_in, tokens_out = used.prompt_tokens, used.completion_tokens
        except ValidationError:
            tokens_in = tokens_of_conversation(conversation) + tokens_of_actions(actions)
            tokens_out = tokens_of(message.model_dump_json(exclude_none=True))
        return Answer(said=said[:SAID_CHARS], asked=tuple(asked), tokens_in=tokens_in, tokens_out=tokens_out)

    def _asked(self, call: _ToolCall) -> Asked:
        arguments, problem = read_arguments(call.function.arguments)
        return Asked(id=call.id or self._id(), name=call.function.name, arguments=arguments, problem=problem)

    def _id(self) -> str:
        # Nine letters and digits, which is all that the strictest take.
        return f"call{next(self._ids):05d}"


def _native(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation with tool calls, each answered by a message of its own."""
    from json import dumps

    written: list[dict[str, Any]] = [
        {"role": "system", "content": conversation.system},
        {"role": "user", "content": conversation.task},
    ]
    for exchange in conversation.exchanges:
        if not exchange.asked:
            written.append({"role": "assistant", "content": exchange.said or "…"})
            written += [{"role": "user", "content": text} for text in exchange.observed]
            continue
        calls = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.name, "arguments": dumps(each.arguments, ensure_ascii=False)},
            }
            for each in exchange.asked
        ]
        written.append({"role": "assistant", "content": exchange.said or None, "tool_calls": calls})
        written += [
            {"role": "tool", "tool_call_id": each.id, "content": text}
            for each, text in zip(exchange.asked, exchange.observed, strict=True)
        ]
    return written


class _Failure(BaseModel):
    """One attempt that came to nothing."""

    note: str
    again: bool = False
    complaint: str | None = None
    """What was said of parameters, where one of them may have been refused."""


class _Function(BaseModel):
    name: str = ""
    arguments: Any = None


class _ToolCall(BaseModel):
    id: str | None = None
    function: _Function = Field(default_factory=_Function)


class _Message(BaseModel):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    prompt_tokens: NonNegativeInt
    completion_tokens: NonNegativeInt


class _Completion(BaseModel):
    """What is read of a chat completion. The package itself would pass on anything."""

    choices: Sequence[_Choice] = Field(min_length=1)
    usage: Any = None
    """Not every server tells it."""
