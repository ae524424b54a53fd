"""What a server is for, in one line, and the index of all servers in a given number of bytes.

Above: whoever builds the catalogue, and the texts that show the index. Below: text.py, which makes server text safe.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proxy.catalog.records import Listing, ServerRecord
from proxy.catalog.text import ELLIPSIS, first_sentence, one_line

MIN_PURPOSE = 28
"""Characters of a purpose below which it says nothing: then servers are left out instead."""
MAX_INSTRUCTIONS = 300
"""Longer instructions are a manual for the tools, and their first sentence an address to the model."""
MAX_TOOL_NAME = 40
NOT_LISTED = "not listed yet"

# A sentence that tells a model what to do says nothing of what the server is for.
_ADDRESSES_AGENT = re.compile(
    r"^(use|call|always|never|please|important|note|remember|first|before|when|if|do|you|this is how|instructions?)\b"
    r"|\b(you|your|must|should|never|always|ignore|don't|do not)\b",
    re.IGNORECASE,
)
# Fewer words, for titles and descriptions: "Search your mail" is what many servers honestly say of themselves.
_COMMANDS_AGENT = re.compile(
    r"\b(ignore|disregard|forget|override|must|never|always|do not|don't|important|instructions?|system prompt"
    r"|(?:assistants?|agents?|models?) (?:should|shall|will|has to|have to)"
    r"|(?:before|instead of|after) (?:using|calling|any|every)"
    r"|any other tools?|other servers?|call_tool|search_tools|describe_tools|list_tools|list_servers|task_id)\b",
    re.IGNORECASE,
)
# Tags, links, pictures, the brackets in which the gateway writes its own notes, and the end of a line of the index.
_MARKUP = re.compile(r"</?[A-Za-z!]|[\[\]{}`|]|\(\d+(?: tools?)?\)|\w+://|\bwww\.|\bdata:", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[^\w.:/-]+")


@dataclass(frozen=True, slots=True)
class IndexText:
    """The index: one line a server, and how many servers found no room."""

    lines: tuple[str, ...]
    omitted: int


def purpose(config_description: str | None, listing: Listing | None, limit: int = 90) -> str:
    """One clean line of at most `limit` characters saying what a server is for; never empty."""
    return next(line for line in _purposes(config_description, listing, limit) if line)


def index_lines(servers: Sequence[ServerRecord], budget_bytes: int) -> IndexText:
    """`written - purpose (number of tools)` for as many servers as fit, in their order; line breaks count.

    All purposes get shorter before any server is left out.
    """
    longest = max((len(server.purpose) for server in servers), default=0)
    caps = range(min(MIN_PURPOSE, longest), longest + 1)
    fitting = bisect_right(caps, budget_bytes, key=lambda cap: _size(_line(server, cap) for server in servers))
    cap = caps[max(0, fitting - 1)]
    lines: list[str] = []
    for server in servers:
        lines.append(_line(server, cap))
        if _size(lines) > budget_bytes:
            lines.pop()
            break
    return IndexText(lines=tuple(lines), omitted=len(servers) - len(lines))


def names_line(servers: Sequence[ServerRecord], budget_bytes: int) -> str:
    """Written names, as many as fit; the rest as `… +n more`, which stands there even if the budget is less than it."""
    names = [server.written for server in servers]
    everything = ", ".join(names)
    if len(everything.encode()) <= budget_bytes:
        return everything
    shown, line = "", f"{ELLIPSIS} +{len(names)} more"
    for count, name in enumerate(names[:-1], start=1):
        shown += f"{name}, "
        longer = f"{shown}{ELLIPSIS} +{len(names) - count} more"
        if len(longer.encode()) > budget_bytes:
            break
        line = longer
    return line


def _purposes(config_description: str | None, listing: Listing | None, limit: int) -> Iterator[str]:
    """Best first; the last is never empty."""
    yield one_line(config_description or "", limit)
    if listing is None:
        yield NOT_LISTED
        return
    yield _harmless(first_sentence(_text(listing.server_info.get("description")), limit))
    instructions = one_line(listing.instructions or "", MAX_INSTRUCTIONS + 1)
    if len(instructions) <= MAX_INSTRUCTIONS and not _ADDRESSES_AGENT.search(instructions):
        yield _harmless(first_sentence(listing.instructions or "", limit))
    yield _title_and_tools(listing, limit)


def _harmless(line: str) -> str:
    """`line`, or nothing if it commands a model, or has what could be taken for another line of the index."""
    return "" if _COMMANDS_AGENT.search(line) or _MARKUP.search(line) else line


def _title_and_tools(listing: Listing, limit: int) -> str:
    info = listing.server_info
    titles = (_harmless(one_line(_text(info.get(key)), limit)) for key in ("title", "name"))
    title = next((title for title in titles if title), "")
    line = f"{title or 'Tools'}: "
    shown = 0
    for tool in listing.tools:
        # Written so that a sentence in place of a name is still seen to be one name.
        name = _NOT_IN_NAMES.sub("_", one_line(str(tool["name"]), MAX_TOOL_NAME))
        longer = f"{line}, {name}" if shown else f"{line}{name}"
        if len(longer) > limit:
            break
        line, shown = longer, shown + 1
    return line if shown else title or "no description, no tools"


def _line(server: ServerRecord, cap: int) -> str:
    line = f"{server.written} - {one_line(server.purpose, cap)}"
    if server.listing is None:
        return line
    return f"{line} ({len(server.tools)})"


def _size(lines: Iterator[str] | list[str]) -> int:
    return len("\n".join(lines).encode())


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
