"""How much may be written of a call that came to no tool: it may have been meant for one that is not logged in full.

Above: steps.py. Below: the configuration, through the gateway. Arguments with a misspelled name of a private tool are
as private as with the right one; so is code that was to call it. In doubt the least that holds for any server holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from proxy.catalog.names import squashed
from proxy.gateway import Gateway
from proxy.store.recorder import Level

_SEPARATOR = re.compile(r"\.|__")
OPEN = frozenset(
    {
        *("search_tools", "list_servers", "list_tools", "describe_tools", "read_result", "finish_task"),
        "delegate_task",
    }
)
"""Meta-tools whose arguments are for no server."""


def level_of_unreached(
    gateway: Gateway, mode: str, name: str, arguments: Any, server: str | None, *, astray: bool
) -> Level:
    """The most that may be written of it.

    `server` is the configured name of the only one that it can have been for, if there is only one. `astray`: it was
    for a task that is not there, so that nobody knows any more what that task had come to.
    """
    private = gateway.private
    if not private:
        return Level.FULL
    if server is not None:
        return private.get(server, Level.FULL)
    if astray:
        return Level.least(private.values())
    if mode == "search" and name in OPEN:
        return Level.FULL
    # Models send arguments as text, too.
    given: Mapping[str, Any] = cast("Mapping[str, Any]", arguments) if isinstance(arguments, Mapping) else {}
    if mode == "search" and name == "run_python":
        words = {word.casefold() for word in re.findall(r"\w+", str(given.get("code", arguments)))}
        # Other calls that it made name it as their parent, so that it is written in any case.
        mentioned = any(named.casefold() in words for named, _ in _names(gateway, private))
        return Level.METADATA if mentioned else Level.FULL
    return _meant(gateway, private, str(given.get("tool")) if mode == "search" and name == "call_tool" else name)


def _meant(gateway: Gateway, private: Mapping[str, Level], name: str) -> Level:
    """Of a name that may be of any server, unless it begins with that of one."""
    wanted = squashed(name)
    if (fitting := [level for named, level in _names(gateway, private) if wanted.startswith(squashed(named))]) != []:
        return Level.least(fitting)
    server = squashed(_SEPARATOR.split(name)[0])
    known = any(server == squashed(each.written) for each in gateway.catalog.servers)
    return Level.FULL if known else Level.least(private.values())


def _names(gateway: Gateway, private: Mapping[str, Level]) -> Iterable[tuple[str, Level]]:
    """All names of servers that are not logged in full."""
    yield from private.items()
    for server in gateway.catalog.servers:
        if server.name in private:
            yield server.written, private[server.name]
