"""A server that speaks OpenAI's chat completions and tells log-probabilities: which letter its model would answer with.

Above: language_endpoint.py. Below: proxy/openai_client.py. A question is put once: an agent waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from pydantic import BaseModel, Field, ValidationError

from proxy.openai_client import openai_client
from proxy.router.unanswered import Why

LETTERS = "ABCDEFGHIJKLMNOPQRST"
"""As many as there are log-probabilities in an answer."""
LEAST = -30.0
"""Lower log-probabilities say no more; some servers write -9999 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Likely:
    """What an endpoint said of letters; natural logarithms of probabilities."""

    letters: tuple[float | None, ...]
    """None for those that it did not name."""
    bound: float
    """Those are no likelier than this."""


class Unscored(Exception):
    """The endpoint did not say how likely the letters are."""

    def __init__(self, why: Why, note: str) -> None:
        super().__init__(note)
        self.why = why


class LogprobEndpoint:
    """One model of one server. Belongs to one event loop; `close` it there.

    Args:
        url: Its base, `http://host:port/v1`.
        model: What the server calls it; may be an adapter that the server has loaded.
        api_key: None sends none.
        timeout_s: How long one answer may take.

    Raises:
        ConfigurationError: The `openai` package is missing, or URL or key cannot be used.
    """

    def __init__(self, url: str, model: str, *, api_key: str | None = None, timeout_s: float = 5.0) -> None:
        self.model = model
        self.timeout_s = timeout_s
        self._url = url
        self._client = openai_client(url, api_key, timeout_s=timeout_s, whose="the router's endpoint")

    async def close(self) -> None:
        await self._client.close()

    async def letters(self, question: str, count: int) -> Likely:
        """How likely each of the first `count` of `LETTERS` is as the answer; one of them at least is named.

        Raises:
            Unscored: The server is down, late or refuses, or tells no log-probabilities of letters.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": len(LETTERS),
            # Some servers tell the log-probabilities that are left after it.
            "temperature": 1,
        }
        return _of_letters(await self._top(body), LETTERS[:count])

    async def _top(self, body: dict[str, Any]) -> Sequence[_Token]:
        import httpx2
        import openai

        try:
            # The package's own limit is for each part of an answer, and a server can send many.
            with anyio.fail_after(self.timeout_s):
                answer = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
            told = _Completion.model_validate_json(answer.content)
        except (TimeoutError, openai.APITimeoutError):
            raise Unscored(Why.LATE, f"gave no answer in {self.timeout_s:g} s") from None
        except ValidationError:
            raise Unscored(Why.FAILING, "answered without log-probabilities: it may not have them") from None
        except openai.APIStatusError as error:
            # Servers quote keys and questions in what they say.
            raise Unscored(Why.FAILING, f"answered {error.status_code}") from None
        except openai.OpenAIError as error:
            cause = type(error.__cause__ or error).__name__
            raise Unscored(Why.DOWN, f"could not be reached ({cause}); is it running?") from None
        return told.choices[0].logprobs.content[0].top_logprobs


class _Token(BaseModel):
    token: str
    logprob: float = Field(allow_inf_nan=False)


class _Place(BaseModel):
    top_logprobs: list[_Token] = Field(min_length=1)


class _Logprobs(BaseModel):
    content: list[_Place] = Field(min_length=1)


class _Choice(BaseModel):
    logprobs: _Logprobs


class _Completion(BaseModel):
    """What is read of a chat completion. The package itself would pass on anything."""

    choices: list[_Choice] = Field(min_length=1)


def _of_letters(top: Sequence[_Token], letters: str) -> Likely:
    told = [(each.token.strip(), min(0.0, max(LEAST, each.logprob))) for each in top]
    # `A` and ` A` are two tokens, and one answer.
    found = [[logprob for token, logprob in told if token == letter] for letter in letters]
    if not any(found):
        raise Unscored(Why.FAILING, "answered with no letter: its model may be one that thinks first")
    likely = tuple(math.log(sum(map(math.exp, each))) if each else None for each in found)
    return Likely(letters=likely, bound=min(logprob for _, logprob in told))
