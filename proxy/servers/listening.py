"""Streams on which a 2026-07-28 server tells of changes, kept open over its restarts for as long as the connection.

Above: connection.py. Below: the SDK's `listen`. What a stream says arrives at the session as notifications as well, and
is passed on from there; here it only has to go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

FIRST_PAUSE_S, MAX_PAUSE_S = 0.2, 30.0
"""Before a stream that has ended is opened again; a stream that lasted longer than the second was a good one."""
REFUSALS = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INVALID_REQUEST})


async def keep_listening(
    session: ClientSession,
    wanted: Mapping[str, Any],
    opened: Callable[[], None],
    missed: Callable[[], Awaitable[None]],
) -> None:
    """Listen for what `wanted` says, in the words of the SDK's `listen`; returns when the server offers no such stream.

    `opened` is called whenever the server has begun a stream, `missed` when the one before it broke off: nobody
    repeats what was said in between.
    """
    pause_s, worked, broken = FIRST_PAUSE_S, False, False
    while True:
        began = anyio.current_time()
        try:
            async with listen(session, **wanted) as events:
                opened()
                if broken:
                    await missed()
                worked, broken = True, False
                async for _ in events:
                    pass
        except ListenNotSupportedError:
            return
        except MCPError as error:
            if not worked and error.code in REFUSALS:
                return
            broken = worked
        except (SubscriptionLost, TimeoutError):
            broken = worked
        if anyio.current_time() - began > MAX_PAUSE_S:
            pause_s = FIRST_PAUSE_S
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)


def announced(capabilities: Mapping[str, Any]) -> Set[str]:
    """Of which of its lists a server says that it tells changes."""
    found: set[str] = set()
    for kind in ("tools", "prompts", "resources"):
        declared = capabilities.get(kind)
        if isinstance(declared, Mapping) and cast(Mapping[str, Any], declared).get("listChanged"):
            found.add(kind)
    return found
