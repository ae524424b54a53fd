"""Makes long contents short enough to keep: of the same shape, and saying what was left out and how much it was.

Above: rows.py. Below: records.py for what the size of a value is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from proxy.store.records import encoded

CUT = "toolatlas/cut"
"""Stands where something was left out: as the key of an object with its sizes, and in a long text."""
Clean = Callable[[str], str]
_PAYLOADS = {"image": "data", "audio": "data"}
_NOTE_BYTES = 80
"""Room for one note of what was left out."""
_MARGIN = 20_000
"""Characters beside the cut of a text that are redacted with the rest and then left out: longer than any secret."""
_SHORTEST = 200
"""Bytes of a text that are kept where anything of it is."""


def without_payloads(value: Any, digest: Callable[[bytes], str]) -> Any:
    """The same result with size and hash in the place of each picture, sound and binary resource."""
    if isinstance(value, list):
        return [without_payloads(item, digest) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    known = cast("dict[str, Any]", value)
    key = _payload(known)
    return {
        name: _replaced(item, digest) if name == key and isinstance(item, str) else without_payloads(item, digest)
        for name, item in known.items()
    }


def cut(value: Any, limit: int, clean: Clean) -> Any:
    """`value`, of which about `limit` bytes of JSON are left: long parts are shortened before short ones.

    `clean` redacts: what is left of a text that is shortened is redacted here, since a secret of which only a part is
    left cannot be recognized later.
    """
    return _cut(value, len(encoded(value)), limit, clean)


def shortened(text: str, limit: int, clean: Clean) -> str:
    """Redacted head and tail of a text of which about `limit` characters are to stay, with a note between them."""
    if len(text) <= limit:
        return clean(text)
    half = max(0, (limit - _NOTE_BYTES) // 2)
    head, tail = clean(text[: half + _MARGIN]), clean(text[-half - _MARGIN :])
    if len(text) > half + _MARGIN:
        head, tail = head[:-_MARGIN], tail[_MARGIN:]
    head, tail = head[:half], tail[max(0, len(tail) - half) :]
    return f"{head}[{CUT}: {len(text) - 2 * half} characters]{tail}"


def _cut(value: Any, size: int, limit: int, clean: Clean) -> Any:
    if size <= limit:
        return value
    if isinstance(value, str):
        # Escapes and characters beyond ASCII take more than a byte each.
        return shortened(value, min(len(value) - 1, max(_SHORTEST, limit * len(value) // size)), clean)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        sizes = [len(encoded(item)) + 1 for item in items]
        head, tail = _ends(sizes, limit)
        end = len(items) - tail
        kept = [*items[:head], *items[end:]]
        parts = [_cut(*part, clean) for part in _shares(kept, [*sizes[:head], *sizes[end:]], limit)]
        note = [{CUT: {"items": end - head, "bytes": sum(sizes[head:end])}}] if head < end else []
        return [*parts[:head], *note, *parts[head:]]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        sizes = [len(encoded(item)) + len(encoded(name)) + 2 for name, item in members.items()]
        head = _head(sizes, limit)
        kept = list(members.values())[:head]
        shares = _shares(kept, sizes[:head], limit)
        parts = {name: _cut(*part, clean) for name, part in zip(members, shares, strict=False)}
        if head < len(members):
            parts[CUT] = {"members": len(members) - head, "bytes": sum(sizes[head:])}
        return parts
    return value


def _shares(parts: Sequence[Any], sizes: Sequence[int], limit: int) -> list[tuple[Any, int, int]]:
    """Each part with its size and the bytes that it may keep: what is small keeps all, the rest is divided evenly
    among the others."""
    left, share = limit, limit
    for rank, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rank)
        if size > share:
            break
        left -= size
    return [(part, size, max(size if size <= share else share, 0)) for part, size in zip(parts, sizes, strict=True)]


def _head(sizes: Sequence[int], limit: int) -> int:
    """How many from the start on are kept, so that each has room for something to be recognized by."""
    room = limit - _NOTE_BYTES
    for index, size in enumerate(sizes):
        room -= min(size, _SHORTEST)
        if room < 0:
            return max(1, index)
    return len(sizes)


def _ends(sizes: Sequence[int], limit: int) -> tuple[int, int]:
    """How many from the start and from the end are kept; half of the room each, where it is not enough for all."""
    if _head(sizes, limit) == len(sizes):
        return len(sizes), 0
    head = _head(sizes, limit // 2)
    return head, min(len(sizes) - head, _head(sizes[::-1], limit // 2))


def _payload(value: dict[str, Any]) -> str | None:
    if (kind := value.get("type")) in _PAYLOADS:
        return _PAYLOADS[kind]
    return "blob" if "blob" in value and "uri" in value else None


def _replaced(payload: str, digest: Callable[[bytes], str]) -> Any:
    content = payload.encode("utf-8", "surrogatepass")
    return {CUT: {"bytes": len(content), "hash": digest(content)}}
