"""JSON at the border to servers: what cannot be carried exactly becomes an error of its one call, never silence.

Above: process.py and transports.py. Below: the SDK's models. JSON has corners that its implementations treat
differently: numbers beyond a double, half surrogate pairs, thousands of levels. Python and pydantic would lose such a
message, turn the number into null, or end the connection with all its calls (docs/decisions/0012).
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

import mcp_types as types
import pydantic_core
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from pydantic import ValidationError

from proxy.catalog.text import one_line
from proxy.errors import InvalidArguments

_MAY_OVERFLOW = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
SHALLOW = 200
"""Objects and arrays in a message that cannot be too deep, however they lie in each other."""
_ID = r'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_VERSION = r'"jsonrpc"\s*:\s*"2\.0"\s*'
_OUTCOME = r'"(?:result|error)"\s*:'
# The id of an answer too deep or too broken to be parsed, in the places where it is usually written.
_ID_FIRST = re.compile(rf"\s*\{{\s*(?:{_VERSION},\s*)?{_ID},\s*(?:{_VERSION},\s*)?{_OUTCOME}")
_OUTCOME_FIRST = re.compile(rf"\s*\{{\s*(?:{_VERSION},\s*)?{_OUTCOME}")
_ID_LAST = re.compile(rf",\s*{_ID}(?:,\s*{_VERSION})?\}}\s*\Z")


def read_message(line: str | bytes) -> JSONRPCMessage | None:
    """The message of a line; an error in place of an answer that cannot be read; None for what is no message."""
    try:
        value = pydantic_core.from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return _unreadable(line, f"it is not valid JSON: {error}")
    if _MAY_OVERFLOW.search(line if isinstance(line, bytes) else line.encode()) and not _finite(value):
        return _unreadable(line, "it has a number beyond the range of a double")
    try:
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return _unreadable(line, "it has neither a result nor an error that is an object")


def checked(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """What a transport received, with an error in place of an answer that was not exact or could not be read."""
    if isinstance(item, SessionMessage):
        message = item.message
        if isinstance(message, JSONRPCResponse) and not _finite(message.result):
            return SessionMessage(_error(message.id, "it has a number that is none or beyond the range of a double"))
        return item
    if isinstance(item, ValidationError):
        # The older SSE transport hands on the error alone, with the text that caused it.
        text = item.errors(include_url=False)[0]["input"]
        if isinstance(text, str | bytes) and (message := read_message(text)) is not None:
            return SessionMessage(message)
    return item


class ExactWriter:
    """A transport's write stream that refuses what would not arrive as it was given."""

    def __init__(self, inner: WriteStream[SessionMessage]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage, /) -> None:
        """Raises InvalidArguments: an agent wrote it, so it is the agent's to correct."""
        if (problem := _not_exact(item.message)) is not None:
            raise InvalidArguments(f"The arguments cannot be sent to the server: {problem}.")
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> ExactWriter:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _not_exact(message: JSONRPCMessage) -> str | None:
    content: object = getattr(message, "params", None) or getattr(message, "result", None)
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        text.encode()
        if text.count("{") + text.count("[") > SHALLOW:
            # Only now can it be deeper than the SDK writes.
            message.model_dump_json(by_alias=True, exclude_unset=True)
    except UnicodeEncodeError:
        return "they hold half of a surrogate pair, which is no character"
    except (ValueError, RecursionError) as error:
        if "JSON compliant" in str(error):
            return "they hold a number that is none or beyond the range of a double"
        if "depth" in str(error) or isinstance(error, RecursionError):
            return "they are nested more than 250 levels deep"
        return one_line(str(error), 200)
    return None


def _finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _unreadable(line: str | bytes, reason: str) -> JSONRPCError | None:
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    answered = _answered(text)
    return None if answered is None else _error(answered, reason)


def _answered(text: str) -> int | str | None:
    """The id of the request that `text` answers, read as leniently as can be."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text, strict=False, parse_int=_short_int)
        if not isinstance(value, dict):
            return None
        answer = cast(dict[str, Any], value)
        named = answer.get("id")
        is_answer = answer.get("jsonrpc") == "2.0" and "method" not in answer
        return named if is_answer and isinstance(named, int | str) and not isinstance(named, bool) else None
    if not text.rstrip().endswith("}") or '"jsonrpc"' not in text:
        return None
    found = _ID_FIRST.match(text) or (_ID_LAST.search(text[-600:]) if _OUTCOME_FIRST.match(text) else None)
    return None if found is None else json.loads(found[1])


def _short_int(digits: str) -> int:
    # Python refuses to read integers of thousands of digits; only the id matters here.
    return int(digits) if len(digits) < 20 else 0


def _error(request: int | str, reason: str) -> JSONRPCError:
    text = f"the server's answer cannot be handed on: {one_line(reason, 200)}"
    return JSONRPCError(jsonrpc="2.0", id=request, error=types.ErrorData(code=types.INTERNAL_ERROR, message=text))
