"""A catalogue as records for the log: its tools' definitions, each once a stream, and the order they stood in.

Above: recording.py; the gateway gives the view. Below: records.py. It runs on the event loop and gives way often.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import anyio.lowlevel

from proxy.store.records import line_of

SLICE_S = 0.002
"""Work on the event loop at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogView:
    """One catalogue, as the gateway shows it to the log."""

    hash: str
    servers: Sequence[Mapping[str, Any]]
    """`{"name", "written", "purpose"}` each, in catalogue order."""
    tools: Sequence[tuple[str, str, str, Mapping[str, Any]]]
    """`server.tool`, configured name of the server, its own name of the tool, definition as it sent it."""
    introduction: str
    """What `search` mode says and offers first: instructions, and the meta-tools' definitions as JSON."""


async def records_of(view: CatalogView, known: set[str]) -> AsyncIterator[bytes]:
    """Lines for the writer, the snapshot last. `known`: hashes of definitions that were sent; grows.

    A tool whose definition is no JSON is left out.
    """
    tools: list[bytes] = []
    began = time.perf_counter()
    for written, server, tool, definition in view.tools:
        try:
            content = line_of(dict(definition))[:-1]
        except (TypeError, ValueError, RecursionError):
            continue
        head = line_of({"kind": "definition", "server": server, "tool": tool})[:-2]
        # Named by all that its row holds.
        digest = sha256(head + content).hexdigest()
        tools.append(line_of([written, digest])[:-1])
        if digest not in known:
            known.add(digest)
            yield b'%s,"hash":"%s","definition":%s}\n' % (head, digest.encode(), content)
        if time.perf_counter() - began > SLICE_S:
            await anyio.lowlevel.checkpoint()
            began = time.perf_counter()
    head = line_of(
        {
            "kind": "snapshot",
            "hash": view.hash,
            "taken_at": datetime.now(UTC).isoformat(),
            "servers": [dict(server) for server in view.servers],
            "introduction": view.introduction,
        }
    )[:-2]
    yield b'%s,"tools":[%s]}\n' % (head, b",".join(tools))
