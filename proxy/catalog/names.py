"""How servers and tools are written for agents, and the way back.

Written names are Python identifiers, so that `call_tool("files.read")` and code share one spelling. Two names that
would be written alike are told apart by a hash of the real name, whatever order they arrive in: the mapping depends on
the set of names only.
"""

from __future__ import annotations

import keyword
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256

SERVER_LIMIT = 32
TOOL_LIMIT = 64
EXPOSED_LIMIT = 40
"""Clients add a prefix of their own and cut at 60 (Cursor) or 64 characters."""
OWN_TOOLS = frozenset(
    {
        *("search_tools", "list_servers", "list_tools", "describe_tools", "call_tool", "run_python"),
        *("read_result", "finish_task"),
    }
)
"""The gateway's own: no tool of a server is meant by one of them alone."""


def written_names(names: Iterable[str], limit: int) -> dict[str, str]:
    """Real name -> written name, unique within `names`, each an identifier of at most `limit` characters."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        groups[_identifier(name, limit)].append(name)
    written: dict[str, str] = {}
    for identifier, members in groups.items():
        for name in members:
            alone = len(members) == 1 or name == identifier
            written[name] = identifier if alone else _suffixed(identifier, name, limit)
    return written


def exposed_names(written: Iterable[str]) -> Mapping[str, str]:
    """Exposed name -> `server.tool`, for clients that see the tools themselves: `^[A-Za-z][A-Za-z0-9_-]*$`, at most
    40 characters, unique."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in written:
        joined = name.replace(".", "__", 1)
        groups[joined if joined[0].isalpha() else f"t{joined}"].append(name)
    exposed: dict[str, str] = {}
    for joined, members in groups.items():
        for name in members:
            fits = len(members) == 1 and len(joined) <= EXPOSED_LIMIT
            exposed[joined if fits else _suffixed(joined, name, EXPOSED_LIMIT)] = name
    return exposed


def squashed(name: str) -> str:
    """What is left of a name when case and punctuation are ignored, for forgiving look-ups."""
    return re.sub(r"[\W_]+", "", name).casefold()


def _identifier(name: str, limit: int) -> str:
    identifier = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not re.search(r"[A-Za-z0-9]", identifier):
        return f"x_{_hash(name)}"
    if identifier[0].isdigit():
        identifier = f"_{identifier}"
    if keyword.iskeyword(identifier):
        identifier += "_"
    return identifier if len(identifier) <= limit else _suffixed(identifier, name, limit)


def _suffixed(identifier: str, name: str, limit: int) -> str:
    return f"{identifier[: limit - 7].rstrip('_')}_{_hash(name)}"


def _hash(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
