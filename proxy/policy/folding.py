"""An old observation as one line: what was done and what came of it, so that a model knows not to do it again.

Above: context.py. The same observation always becomes the same line. Texts of servers are a stranger's: they are cut,
and read line by line with patterns that cannot run away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from proxy.policy.base import Asked

MOST_NAMES = 8
HEAD_CHARS = 120
"""Of a result."""
ARGUMENT_CHARS = 60
_ERROR = "[error]\n"
_FOUND = re.compile(r"^([^\s(:]{1,160}\.[^\s(:]{1,160})(?= \[changed\]|[(:])", re.MULTILINE)
_SERVER = re.compile(r"^(\S{1,100}) [-\[]", re.MULTILINE)
_KEPT = re.compile(
    r'\[toolatlas: [\d,]{1,20} characters, [^\n"]{1,80}read_result\(id="(r_[a-z2-7]{1,16})"[^\n]{0,80}\n'
)


def folded(asked: Asked, observed: str) -> str:
    """One line for `observed`, what the action was answered."""
    what = f"{asked.name}{_argument(asked.arguments)}"
    if observed.startswith(_ERROR):
        return f"{what} → error: {_head(observed[len(_ERROR) :])}"
    match asked.name:
        case "search_tools" | "list_tools":
            return f"{what} → {_names(_FOUND.findall(observed), 'tool')}"
        case "list_servers":
            return f"{what} → {_names(_SERVER.findall(observed), 'server')}"
        case "describe_tools":
            return f"{what} → definitions, {len(observed):,} characters; describe again if needed"
        case _:
            # The gateway's own first line says where the rest of a long result is.
            kept = _KEPT.match(observed)
            again = f"; read_result(id={kept[1]!r}) has it" if kept else ""
            return (
                f"{what} → {len(observed):,} characters: {_head(observed[kept.end() :] if kept else observed)}{again}"
            )


def _argument(arguments: Mapping[str, Any]) -> str:
    """The argument that tells one call from another."""
    for key in ("tool", "server", "query", "id", "tools", "code"):
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return f" {_cut(value, ARGUMENT_CHARS)}"
        if isinstance(value, list) and value:
            names = [str(each) for each in cast("list[Any]", value)]
            return f" {_cut(', '.join(names[:MOST_NAMES]), 3 * ARGUMENT_CHARS)}"
    return ""


def _names(names: Sequence[str], what: str) -> str:
    # What a server says may look like a line of ours; it is named as such only once.
    names = list(dict.fromkeys(names))
    if not names:
        return f"no {what}s"
    more = ", …" if len(names) > MOST_NAMES else ""
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}: {', '.join(names[:MOST_NAMES])}{more}"


def _head(text: str) -> str:
    return _cut(text, HEAD_CHARS)


def _cut(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return f"{line[:most]}…" if len(line) > most or len(text) > 4 * most else line
