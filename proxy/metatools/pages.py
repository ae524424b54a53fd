"""Results that are too long for an agent: the head goes to it at once, the whole is kept and read in pages.

Above: call_tool, run_python and read_result. Below: nothing. Not for several threads.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import sys
import unicodedata
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from proxy.errors import UnknownName

MAX_MATCHES = 10
CONTEXT_CHARS = 60
"""Before and after a match."""
MAX_PAYLOAD_CHARS = 1_000_000
"""Of base64, in a result that is too long anyway."""
STRING_BYTES = 80
"""What any string takes in memory, beside at most four bytes a character."""
HEADER_BYTES = 200
"""Room for the line that says what was cut."""


@dataclass(frozen=True, slots=True)
class _Kept:
    owner: str
    text: str
    total: int
    """Characters of the text before it was kept; more than are here if it alone was above the store's size."""
    size: int


class PageStore:
    """Texts in memory, each for one owner; the least recently used go when there are more than `total_bytes`."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._used = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def keep(self, owner: str, text: str) -> str:
        """Keep `text` for `owner`; the id to read it with."""
        fits = sys.getsizeof(text) <= self._total_bytes
        head = text if fits else text[: max(0, self._total_bytes - STRING_BYTES) // 4]
        kept = _Kept(owner, head, len(text), sys.getsizeof(head))
        while self._kept and self._used + kept.size > self._total_bytes:
            self._used -= self._kept.popitem(last=False)[1].size
        result_id = f"r_{base64.b32encode(secrets.token_bytes(5)).decode().lower()}"
        self._kept[result_id] = kept
        self._used += kept.size
        return result_id

    def read(self, owner: str, result_id: str, *, length: int, offset: int = 0, find: str | None = None) -> str:
        """`length` characters from `offset` on, or the places from `offset` on where `find` stands, under a header."""
        kept = self._kept.get(result_id)
        if kept is None or kept.owner != owner:
            raise UnknownName(
                f"no result {result_id!r}: results are kept for the running task only, and old ones make room for new; "
                "call the tool again"
            )
        self._kept.move_to_end(result_id)
        available = len(kept.text)
        lost = f"; only the first {available} were kept" if available < kept.total else ""
        if not 0 <= offset < max(1, available):
            return (
                f"[offset {offset} is outside this result of {kept.total} characters{lost}; "
                f"valid offsets are 0 to {max(0, available - 1)}]"
            )
        if find:
            return _matches(kept.text, find, offset)
        end = min(available, offset + max(1, length))
        onward = f"next: offset={end}" if end < available else "end"
        return f"[characters {offset}-{end} of {kept.total}; {onward}{lost}]\n{kept.text[offset:end]}"

    def drop(self, owner: str) -> None:
        """Forget everything of `owner`."""
        for result_id in [result_id for result_id, kept in self._kept.items() if kept.owner == owner]:
            self._used -= self._kept.pop(result_id).size


def fit(result: Mapping[str, Any], limit: int, keep: Callable[[str], str]) -> dict[str, Any]:
    """`result` of a tools/call in at most about `limit` bytes, base64 not counted; the same content if it fits already.

    `keep` is given the whole text where it was cut, and returns the id to read it with.
    """
    content = result.get("content")
    items = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    if _json_bytes({**result, "content": _without_payloads(items)}) <= limit:
        return dict(result)

    kept = {key: value for key, value in result.items() if key not in ("content", "structuredContent")}
    texts, others = _divide(items, limit // 2)
    text, note = "\n".join(texts), ""
    structured = result.get("structuredContent")
    if structured is not None and not texts:
        text = _json(structured)
    elif structured is not None and not _says_the_same(text, structured):
        note = f"[toolatlas: structuredContent of {len(_json(structured)):,} characters left out]\n"

    light = {**kept, "content": [*_text_items(note), *_without_payloads(items)]}
    if texts and _json_bytes(light) <= limit:
        return {**kept, "content": [*_text_items(note), *map(_small, items)]}

    used = _json_bytes({**kept, "content": _without_payloads(others)}) + len(note)
    # A result whose _meta alone is above the limit still shows something.
    end = _head(text, max(limit - used - HEADER_BYTES, limit // 4))
    if end < len(text):
        more = f'read_result(id="{keep(text)}", offset={end}) gives the rest'
        note = f"[toolatlas: {len(text):,} characters, the first {end:,} are below; {more}]\n{note}"
    return {**kept, "content": [*_text_items(f"{note}{text[:end]}"), *map(_small, others)]}


def _divide(items: list[Any], room: int) -> tuple[list[str], list[Any]]:
    """The texts, and the other items; of those, what takes more than `room` bytes in all becomes text, as JSON."""
    texts: list[str] = []
    others: list[Any] = []
    for item in items:
        text = _text_of(item)
        if text is None:
            light = _without_payload(item)
            size = _json_bytes(light)
            if size <= room:
                room -= size
                others.append(item)
                continue
            text = _json(light)
        texts.append(text)
    return texts, others


def _matches(text: str, find: str, offset: int) -> str:
    found = re.compile(re.escape(find), re.IGNORECASE).finditer(text, offset)
    places = [match.start() for match in islice(found, MAX_MATCHES + 1)]
    if not places:
        return f"[{find[:CONTEXT_CHARS]!r} is not in characters {offset}-{len(text)} of {len(text)}]"
    shown = places[:MAX_MATCHES]
    onward = f"more from offset={places[MAX_MATCHES]} on" if len(places) > MAX_MATCHES else "no more"
    sought = repr(find[:CONTEXT_CHARS])
    lines = [f"[{len(shown)} matches of {sought} from offset {offset} on, {onward}; offset and surroundings:]"]
    for place in shown:
        around = text[max(0, place - CONTEXT_CHARS) : place + min(len(find), CONTEXT_CHARS) + CONTEXT_CHARS]
        lines.append(f"{place}: {' '.join(around.split())}")
    return "\n".join(lines)


def _text_of(item: Any) -> str | None:
    """The text of a text item or of an embedded text resource."""
    if not isinstance(item, Mapping):
        return _json(item)
    item = cast("Mapping[str, Any]", item)
    resource = item.get("resource")
    if item.get("type") == "resource" and isinstance(resource, Mapping):
        resource = cast("Mapping[str, Any]", resource)
        text = resource.get("text")
        return f"[resource {resource.get('uri')}]\n{text}" if isinstance(text, str) else None
    text = item.get("text")
    return text if item.get("type") == "text" and isinstance(text, str) else None


def _payload(item: Mapping[str, Any]) -> str:
    """The base64 of an image, a sound or a binary resource; empty if there is none."""
    kind, resource = item.get("type"), item.get("resource")
    if kind in ("image", "audio"):
        data = item.get("data")
    elif kind == "resource" and isinstance(resource, Mapping):
        data = cast("Mapping[str, Any]", resource).get("blob")
    else:
        data = None
    return data if isinstance(data, str) else ""


def _without_payloads(items: list[Any]) -> list[Any]:
    return [_without_payload(item) for item in items]


def _without_payload(item: Any) -> Any:
    if not isinstance(item, Mapping) or not _payload(item := cast("Mapping[str, Any]", item)):
        return item
    if item["type"] == "resource":
        return {**item, "resource": {**item["resource"], "blob": ""}}
    return {**item, "data": ""}


def _small(item: Any) -> Any:
    payload = _payload(item)
    if len(payload) <= MAX_PAYLOAD_CHARS:
        return item
    kind = item["resource"].get("mimeType") if item["type"] == "resource" else item.get("mimeType")
    size = len(payload) * 3 // 4
    return {"type": "text", "text": f"[toolatlas: {item['type']} {kind or ''} of {size:,} bytes left out, too large]"}


def _head(text: str, budget: int) -> int:
    """How many characters of `text` take `budget` bytes as JSON, not ending within a letter and its accents."""
    if budget <= 0:
        return 0
    start = text[:budget]
    count = bisect_right(range(1, len(start) + 1), budget, key=lambda end: _json_bytes(start[:end]) - 2)
    whole = count
    while 0 < whole < len(text) and count - whole < 16 and _joins(text, whole):
        whole -= 1
    return whole or count


def _joins(text: str, at: int) -> bool:
    """Whether the character here belongs to the one before it."""
    return bool(unicodedata.combining(text[at])) or "\u200d" in text[at - 1 : at + 1] or text[at] in "\ufe0e\ufe0f"


def _says_the_same(text: str, structured: Any) -> bool:
    """Servers send structured content as text as well, and a plain value wrapped as `{"result": value}`."""
    if structured == {"result": text}:
        return True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return structured in (value, {"result": value})


def _text_items(text: str) -> list[Any]:
    return [{"type": "text", "text": text}] if text else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_bytes(value: Any) -> int:
    # A server may have sent half of a surrogate pair.
    return len(_json(value).encode("utf-8", "surrogatepass"))
