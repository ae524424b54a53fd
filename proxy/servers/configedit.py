"""Changes to the configuration file that keep everything they are not about: unknown keys, order, mode.

Above: the commands that add, remove and import servers. Below: configfile.py, for reading.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from rapidfuzz import process

from proxy.errors import ConfigurationError
from proxy.files import PRIVATE, replace_file
from proxy.servers.configfile import JsonObject, decode, has_comments, read, repeated_keys, sections


def add_server(path: Path, name: str, entry: Mapping[str, object], *, replace: bool = False) -> None:
    """Writes one entry, at the end or, with `replace`, in the place of the one with this name."""
    draft = _open(path)
    if name in draft.servers and not replace:
        raise ConfigurationError(f"{path} already has a server {name!r}. Choose another name, or replace it.")
    draft.servers[name] = dict(entry)
    draft.save()


def remove_server(path: Path, name: str) -> None:
    """Takes one entry out."""
    draft = _open(path)
    if name not in draft.servers:
        near = [found[0] for found in process.extract(name, list(draft.servers), limit=3)]
        hint = f"The nearest names: {', '.join(map(repr, near))}." if near else "It has no servers."
        raise ConfigurationError(f"{path} has no server {name!r}. {hint}")
    del draft.servers[name]
    draft.save()


def add_servers(path: Path, entries: Mapping[str, Mapping[str, object]]) -> Mapping[str, str]:
    """Writes several entries at once and returns under which name each of them is in the file now.

    A name that another entry has gets the suffix -2, -3 and so on; an entry that is there already is not added again.
    """
    draft = _open(path)
    written: dict[str, str] = {}
    changed = False
    for name, given in entries.items():
        entry = dict(given)
        candidates = (name if i == 1 else f"{name}-{i}" for i in count(1))
        free = next(found for found in candidates if draft.servers.get(found, entry) == entry)
        changed |= free not in draft.servers
        draft.servers[free] = entry
        written[name] = free
    if changed:
        draft.save()
    return written


@dataclass(frozen=True, slots=True)
class _Draft:
    """The decoded file with a hold on its servers, to be changed in place and saved."""

    path: Path
    document: dict[str, Any]
    servers: dict[str, Any]
    indent: str

    def save(self) -> None:
        text = json.dumps(self.document, ensure_ascii=False, indent=self.indent) + "\n"
        # Half of a surrogate pair has no UTF-8 form; `backslashreplace` writes it as the JSON escape it came from.
        _replace(self.path, text.encode("utf-8", "backslashreplace"))


def _open(path: Path) -> _Draft:
    if not os.path.exists(path):
        empty: dict[str, Any] = {}
        return _Draft(path, {"mcpServers": empty}, empty, "  ")
    text = read(path)
    document = decode(text, path)
    if not isinstance(document, JsonObject):
        raise ConfigurationError(f"{path} has to hold a JSON object to be changed, but does not. Correct it by hand.")
    if has_comments(text):
        raise ConfigurationError(f"{path} has comments, which a change would lose. Remove them, or edit it by hand.")
    if twice := next(repeated_keys(document), None):
        raise ConfigurationError(f"{path} has {twice!r} twice, and a change would lose one. Remove one by hand.")
    place = next(iter(sections(document)), ("mcpServers",))
    servers: Any = document
    for key in place:
        servers = servers.setdefault(key, JsonObject())
    if not isinstance(servers, JsonObject):
        raise ConfigurationError(f"{'.'.join(place)!r} of {path} has to be an object. Correct it by hand.")
    indent = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return _Draft(path, document, servers, indent[1] if indent else "  ")


def _replace(path: Path, content: bytes) -> None:
    """Puts `content` in the place of the file, keeping its mode."""
    target = path.resolve()  # A link stays one: what it points to is replaced.
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else PRIVATE
        replace_file(target, content, mode=mode)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}. Give the gateway's user the right to write in its folder."
        ) from None
