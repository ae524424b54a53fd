"""Entries of a client's file in the form of our own file, with all that does not go over said in words.

Above: reading.py. Below: what configfile.py and variables.py understand. Values may be secrets: texts name keys only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import cast
from urllib.parse import urlsplit

from proxy.clients.base import OWN_NAME, Entry
from proxy.servers.config import TransportKind
from proxy.servers.entry import KNOWN_KEYS, TRANSPORTS, URL_KEYS
from proxy.servers.variables import EDITOR_NAMES, PLAIN, REFERENCE

RUNNERS = frozenset(("uvx", "uv", "pipx"))
NOT_ALIKE = frozenset({"oauth"})
"""Keys that mean something else, or are written otherwise, in the files of clients."""
RELATIVE = ("./", "../", ".\\", "..\\")


@dataclass(frozen=True, slots=True)
class Found:
    """One server of a client's file."""

    name: str
    entry: Entry
    warnings: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    """The `${…}` in it that only the client can fill in; the gateway keeps the server disabled while they are there."""


def normalise(name: str, given: Entry, folder: Path | None) -> Found:
    """`given` as our own file would have it. `folder` is where the client starts it, which relative paths go by."""
    fields = {key: value for key, value in given.items() if value is not None}
    entry = _reached(fields)
    for key in ("env", "headers", "tools", "description"):
        if fields.get(key):
            entry[key] = fields[key]
    if fields.get("enabled") is False or fields.get("disabled") is True:
        entry["enabled"] = False
    timeout = fields.get("timeout_s", fields.get("timeout"))
    if timeout is not None:
        # As configfile.py reads `timeout`: above 1000 it must be milliseconds.
        entry["timeout_s"] = timeout / 1000 if isinstance(timeout, int | float) and timeout > 1000 else timeout
    if "start_timeout_s" in fields:
        entry["start_timeout_s"] = fields["start_timeout_s"]
    if folder is not None:
        _anchor(entry, folder)
    unknown = sorted(key for key in fields if key not in KNOWN_KEYS or key in NOT_ALIKE)
    foreign = tuple(dict.fromkeys(_foreign(entry)))
    warnings = [f"not taken over, as the gateway has nothing like it: {', '.join(unknown)}"] if unknown else []
    if foreign:
        warnings.append(f"{', '.join(foreign)} can only be filled in by the client: disabled until you replace it")
    return Found(name, entry, tuple(warnings), foreign)


def reason_to_skip(name: str, entry: Entry, urls: frozenset[str]) -> str | None:
    """Why an entry is nothing to import: it is the gateway itself, or no server at all. `urls` are the gateway's."""
    command = entry.get("command")
    if name.casefold() == OWN_NAME or _starts_us(command, entry.get("args")):
        return "it is this gateway"
    ours = {_comparable(url) for url in urls}
    args = cast("list[object]", entry["args"]) if isinstance(entry.get("args"), list) else []
    if any(isinstance(text, str) and _comparable(text) in ours for text in (entry.get("url"), *args)):
        return "it is this gateway"
    return None if command or entry.get("url") else "it has neither a command nor a url"


def _reached(fields: Entry) -> dict[str, object]:
    """The keys that say how the server is reached."""
    given = fields.get("type", fields.get("transport"))
    kind = TRANSPORTS.get(re.sub("[-_]", "", given.lower())) if isinstance(given, str) else None
    url_key = next((key for key in URL_KEYS if fields.get(key)), None)
    if url_key is None or (kind is None and fields.get("command")) or kind is TransportKind.STDIO:
        return {key: fields[key] for key in ("command", "args", "cwd") if fields.get(key)}
    url = fields[url_key]
    if kind is None and isinstance(url, str) and not REFERENCE.search(url):
        sse = url_key != "httpUrl" and urlsplit(url).path.rstrip("/").endswith("/sse")
        kind = TransportKind.SSE if sse else TransportKind.HTTP
    return {"type": str(kind), "url": url} if kind else {"url": url}


def _anchor(entry: dict[str, object], folder: Path) -> None:
    """A program named relative to its project is not found from where the gateway starts it."""
    cwd = entry.get("cwd")
    args = cast("list[object]", entry["args"]) if isinstance(entry.get("args"), list) else []
    dotted = any(isinstance(word, str) and word.startswith(RELATIVE) for word in (entry.get("command"), *args))
    if isinstance(cwd, str) and not PurePath(cwd).is_absolute() and not cwd.startswith(("$", "~")):
        entry["cwd"] = str(folder / cwd)
    elif cwd is None and dotted:
        entry["cwd"] = str(folder)


def _foreign(value: object) -> Iterator[str]:
    if isinstance(value, str):
        for match in REFERENCE.finditer(value):
            form = PLAIN.fullmatch(match[1])
            if form is None or form["name"] in EDITOR_NAMES:
                yield "${" + match[1].split(":-")[0] + "}"
    elif isinstance(value, Mapping):
        for inner in cast("Entry", value).values():
            yield from _foreign(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _foreign(inner)


def _starts_us(command: object, args: object) -> bool:
    if not isinstance(command, str):
        return False
    program = re.split(r"[\\/]", command)[-1].casefold().removesuffix(".exe")
    words = cast("list[object]", args) if program in RUNNERS and isinstance(args, list) else []
    packages = (re.split(r"[\[@=<>~!]", word)[0] for word in words if isinstance(word, str))
    return program == OWN_NAME or OWN_NAME in packages


def _comparable(url: str) -> str:
    return url.rstrip("/").casefold().replace("://localhost", "://127.0.0.1").replace("://[::1]", "://127.0.0.1")
