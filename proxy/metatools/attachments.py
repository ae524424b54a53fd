"""Images, sounds and files that tools gave to code, which sees a handle in their place.

Above: code_calls.py keeps them here, read_result gives them to the agent. Below: nothing. Not for several threads.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.catalog.schema_reader import mapping

PREFIX = "a_"


@dataclass(frozen=True, slots=True)
class _Attachment:
    owner: str
    item: Mapping[str, Any]
    size: int


class Attachments:
    """Content items in memory, each for one owner; the oldest go when they are of more than `total_bytes`."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._used = 0
        self._kept: OrderedDict[str, _Attachment] = OrderedDict()

    def keep(self, owner: str, item: Mapping[str, Any]) -> str:
        """Keep a content item for `owner`; the handle to get it with. One that alone is too large is not kept."""
        handle = f"{PREFIX}{secrets.token_hex(6)}"
        size = _size(item)
        if size <= self._total_bytes:
            self._kept[handle] = _Attachment(owner, item, size)
            self._used += size
        while self._used > self._total_bytes:
            self._used -= self._kept.popitem(last=False)[1].size
        return handle

    def get(self, owner: str, handle: str) -> Mapping[str, Any] | None:
        """The content item as the server sent it; None where it is gone, or somebody else's."""
        kept = self._kept.get(handle)
        return kept.item if kept is not None and kept.owner == owner else None

    def drop(self, owner: str) -> None:
        """Forget everything of `owner`."""
        for handle in [handle for handle, kept in self._kept.items() if kept.owner == owner]:
            self._used -= self._kept.pop(handle).size


def _size(item: Mapping[str, Any]) -> int:
    """About what it takes in memory; nearly all of it is one base64 text."""
    payload = item.get("data") or (mapping(item.get("resource")) or {}).get("blob")
    return 500 + len(payload) if isinstance(payload, str) else 500
