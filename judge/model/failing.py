"""What it means when an endpoint fails: for people in one sentence, and whether asking again may help.

Above: openai_endpoint.py. Below: the exceptions of the `openai` package, by their attributes. A server's words about a
failure may quote the key, so that they are shortened and without it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

from judge.settings import EndpointSettings
from judge.verdict import Why
from proxy.store.rendering import visible

if TYPE_CHECKING:
    import openai

NOTE_CHARS = 200
_AGAIN = frozenset({408, 409, 429})
_REFUSED_PARAMETER = frozenset({400, 404, 422})
_FILTERED = frozenset({"content_filter", "content_policy_violation"})


class Garbage(Exception):
    """An answer of status 200 that is no chat completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One attempt that came to nothing."""

    note: str
    why: Why = Why.UNREACHABLE
    again: bool = False
    """Whether the same question may get an answer later."""
    pause_s: float = 0.0
    """How long the server asks to wait; 0 where it does not say."""
    complaint: str | None = None
    """What it says of parameters, where it may have been one that it refused."""


def failure_of(error: Exception, settings: EndpointSettings) -> Failure:
    """`error` is TimeoutError, Garbage or what the package raises."""
    import openai

    match error:
        case TimeoutError() | openai.APITimeoutError():
            return Failure(note=f"the endpoint gave no answer in {settings.timeout_s:g} s", again=True)
        case openai.APIStatusError():
            return _of_status(error, settings)
        case openai.APIConnectionError():
            cause = type(error.__cause__ or error).__name__
            return Failure(note=f"the endpoint could not be reached ({cause})", again=True)
        case _:
            return Failure(note="the endpoint answered with something that is no chat completion", again=True)


def shown(text: str, settings: EndpointSettings) -> str:
    """Words of a server on one line, shortened, without the key."""
    if settings.api_key:
        text = text.replace(settings.api_key, "[key]")
    return " ".join(visible(text[:NOTE_CHARS]).split())


def _of_status(error: openai.APIStatusError, settings: EndpointSettings) -> Failure:
    status = error.status_code
    if status in (401, 403):
        # Servers quote the key here, and some mask only a part of it.
        return Failure(note=f"the endpoint does not accept the key ({status})")
    body: Any = error.body
    told = cast("Mapping[str, Any]", body).get("message") if isinstance(body, Mapping) else None
    note = f"the endpoint answered {status}" + (f": {shown(told, settings)}" if isinstance(told, str) else "")
    if error.code in _FILTERED:
        return Failure(why=Why.REFUSED, note=note)
    if status in _REFUSED_PARAMETER:
        return Failure(note=note, complaint=f"{error.param} {told}")
    return Failure(note=note, again=status in _AGAIN or status >= 500, pause_s=_asked_pause(error.response.headers))


def _asked_pause(headers: Mapping[str, str]) -> float:
    """In seconds; 0 where it cannot be read."""
    told = headers.get("retry-after", "")[:100]
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(told))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
