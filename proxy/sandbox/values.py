"""What a tool answered, as a value that code can use: plain JSON data, or the text of an error.

Above: metatools/. Below: nothing. The raw result is not changed; what code has no use for, such as base64,
is kept by whoever calls and stands in the value as a small dict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

from proxy.catalog.schema_reader import mapping, sequence
from proxy.sandbox.base import Reply

WRAPPED = "x-fastmcp-wrap-result"
"""FastMCP's mark in an output schema: the value is under the key `result`, since structured content is an object."""

Keep = Callable[[Mapping[str, Any]], str]
"""Keeps a content item that holds base64, and returns the handle to find it by."""


def reply_of(
    tool: str, result: Mapping[str, Any], output_schema: Mapping[str, Any] | None, max_bytes: int, keep: Keep
) -> Reply:
    """The reply to a call of `tool` that the server answered with `result`.

    `max_bytes` is what the value may take as JSON: a larger one is an error that says its size.
    """
    if result.get("isError") is True:
        return Reply(ok=False, value=_words(result) or f"{tool} failed and did not say why", tool=tool)
    value = value_of(result, output_schema, keep)
    size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        text = (
            f"{tool} has run, but its result of {size:,} bytes is larger than the {max_bytes:,} that code can be "
            "given; ask for less at a time"
        )
        return Reply(ok=False, value=text, tool=tool)
    return Reply(ok=True, value=value)


def value_of(result: Mapping[str, Any], output_schema: Mapping[str, Any] | None, keep: Keep) -> Any:
    """What a result that is no failure means, as plain JSON data."""
    structured = result.get("structuredContent")
    if structured is not None:
        wraps = output_schema is not None and output_schema.get(WRAPPED) is True
        inner = mapping(structured)
        return inner["result"] if wraps and inner is not None and set(inner) == {"result"} else structured
    items = [_of_item(item, output_schema is None, keep) for item in sequence(result.get("content"))]
    return items[0] if len(items) == 1 else items or None


def _of_item(item: Any, parse: bool, keep: Keep) -> Any:
    """One content item. `parse` says that text may be JSON that nobody described."""
    given = mapping(item)
    if given is None:
        return item
    resource = mapping(given.get("resource"))
    match given.get("type"):
        case "text" if isinstance(given.get("text"), str):
            return _parsed(given["text"]) if parse else given["text"]
        case "image" | "audio" if isinstance(given.get("data"), str):
            return _handle(given.get("mimeType"), given["data"], keep(given))
        case "resource" if resource is not None and isinstance(resource.get("blob"), str):
            uri = {"uri": resource.get("uri")}
            return uri | _handle(resource.get("mimeType"), resource["blob"], keep(given))
        case "resource" if resource is not None and isinstance(resource.get("text"), str):
            return {"uri": resource.get("uri"), "mime": resource.get("mimeType"), "text": resource["text"]}
        case _:
            return dict(given)


def _handle(mime: Any, payload: str, handle: str) -> dict[str, Any]:
    return {"mime": mime, "bytes": len(payload) * 3 // 4 - payload[-2:].count("="), "handle": handle}


def _parsed(text: str) -> Any:
    """What `text` holds if it is a JSON object or list that Python can hold exactly, else `text`."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return text
    try:
        value = json.loads(text, parse_constant=_refuse)
        # Numbers beyond a double, and halves of surrogate pairs, do not survive the way to an interpreter.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return text
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _words(result: Mapping[str, Any]) -> str:
    """The text of a failure, whole: what of it is shown is decided later."""
    items = [mapping(item) or {} for item in sequence(result.get("content"))]
    texts = [cast(str, item["text"]) for item in items if isinstance(item.get("text"), str)]
    if not texts and result.get("structuredContent") is not None:
        return json.dumps(result["structuredContent"], ensure_ascii=False)
    return "\n".join(texts)
