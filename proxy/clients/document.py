"""A client's file as it is, and its text with some servers put in and others taken out.

Above: reading.py, connecting.py. Below: configfile.py for JSON, tomlkit for TOML. What is not a server stays as it is;
a file that cannot be changed without a loss is refused, with what to paste by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError
from tomlkit.items import InlineTable

from proxy.clients.base import Entry, Format
from proxy.errors import ConfigurationError
from proxy.servers.configfile import JsonObject, decode, has_comments, repeated_keys

BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one table of servers."""

    table: tuple[str, ...]
    put: Mapping[str, Entry]
    drop: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One file, decoded."""

    path: Path
    format: Format
    content: bytes | None
    """None when there is no file."""
    text: str
    values: dict[str, Any]

    @classmethod
    def open(cls, path: Path, format: Format) -> Document:
        """Reads the file. A missing or empty one is an empty document."""
        try:
            content = path.read_bytes()
            text = content.decode().removeprefix(BOM)
        except FileNotFoundError:
            return cls(path, format, None, "", {})
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}. Give yourself the right to.") from None
        values = _decoded(path, format, text) if text.strip() else {}
        return cls(path, format, content, text, values)

    def servers(self, table: tuple[str, ...]) -> Mapping[str, Entry]:
        """The entries of a table; what is not an object is given as an empty one."""
        entries: Mapping[str, object] = self.values
        for key in table:
            inner = entries.get(key, {})
            if not isinstance(inner, Mapping):
                raise ConfigurationError(
                    f"{'.'.join(table)!r} of {self.path} has to be an object but is not. Correct it by hand."
                )
            entries = cast("Entry", inner)
        return {name: cast("Entry", value) if isinstance(value, Mapping) else {} for name, value in entries.items()}

    def changed(self, changes: Collection[Change]) -> bytes:
        """The content of the file after the changes. Raises when that would lose something."""
        expected = deepcopy(self.values)
        for change in changes:
            servers: Any = expected
            for key in change.table:
                servers = servers.setdefault(key, {})
            for name in change.drop:
                del servers[name]
            servers.update(deepcopy(dict(change.put)))
        if self.content is not None and expected == self.values:
            return self.content
        text = self._json(expected, changes) if self.format is Format.JSON else self._toml(expected, changes)
        mark = BOM if self.content is not None and self.content.startswith(BOM.encode()) else ""
        # Half of a surrogate pair has no UTF-8 form; `backslashreplace` writes it as the JSON escape it came from.
        return (mark + text).encode("utf-8", "backslashreplace")

    def _json(self, expected: dict[str, Any], changes: Collection[Change]) -> str:
        if has_comments(self.text):
            raise self._refused("has comments, which a change would lose", changes)
        if twice := next(repeated_keys(self.values), None):
            raise self._refused(f"has {twice!r} twice, and a change would lose one", changes)
        indented = re.search(r'^([ \t]+)"', self.text, re.MULTILINE)
        on_one_line = bool(self.values) and "\n" not in self.text.strip()
        indent = indented[1] if indented else (None if on_one_line else "  ")
        ending = "" if self.text.strip() and not self.text.endswith("\n") else "\n"
        text = json.dumps(expected, ensure_ascii=False, indent=indent) + ending
        return text.replace("\n", "\r\n") if "\r\n" in self.text else text

    def _toml(self, expected: dict[str, Any], changes: Collection[Change]) -> str:
        text = self.text
        try:
            for change in changes:
                for name in change.drop:
                    text = _without(text, (*change.table, name))
                for name, entry in change.put.items():
                    text = _with(text, change.table, name, entry)
            exact = tomlkit.parse(text).unwrap() == expected
        except (TOMLKitError, ValueError, LookupError, TypeError) as error:
            raise self._refused("is written in a way that cannot be changed safely", changes) from error
        if not exact:
            raise self._refused("is written in a way that cannot be changed safely", changes)
        return text

    def _refused(self, why: str, changes: Collection[Change]) -> ConfigurationError:
        puts = [snippet(self.format, change) for change in changes if change.put]
        drops = [name for change in changes for name in change.drop]
        also = f"\n\nand, once they are imported, take these servers out: {', '.join(drops)}" if drops else ""
        return ConfigurationError(f"{self.path} {why}. Put this in by hand:\n\n" + "\n".join(puts) + also)


def snippet(format: Format, change: Change) -> str:
    """The entries that are put in, as a file of its own."""
    return render(format, change.table, change.put)


def render(format: Format, table: tuple[str, ...], servers: Mapping[str, Entry]) -> str:
    """A file that holds these servers and nothing else."""
    nested: Any = dict(servers)
    for key in reversed(table):
        nested = {key: nested}
    if format is Format.TOML:
        return tomlkit.dumps(nested)
    return json.dumps(nested, ensure_ascii=False, indent=2) + "\n"


def _decoded(path: Path, format: Format, text: str) -> dict[str, Any]:
    if format is Format.JSON:
        value = decode(text, path)
        if not isinstance(value, JsonObject | dict):
            raise ConfigurationError(f"{path} has to hold a JSON object, but does not. Correct it by hand.")
        return cast("dict[str, Any]", value)
    try:
        return tomlkit.parse(text).unwrap()
    except ParseError as error:
        raise ConfigurationError(
            f"{path}, line {error.line}, column {error.col}: not valid TOML. Correct it there."
        ) from None
    except TOMLKitError:
        raise ConfigurationError(f"{path} is not valid TOML: a key is there twice. Remove one by hand.") from None


def _with(text: str, table: tuple[str, ...], name: str, entry: Entry) -> str:
    document = tomlkit.parse(text)
    parent: Any = document
    for key in table:
        if key not in parent:
            parent[key] = tomlkit.table(is_super_table=True)
        parent = parent[key]
    item = tomlkit.inline_table() if isinstance(parent, InlineTable) else tomlkit.table()
    for key, value in entry.items():
        item[key] = value
    parent[name] = item
    return tomlkit.dumps(document)


def _without(text: str, path: tuple[str, ...]) -> str:
    """Cuts the tables of one server, but none of the comments before whatever comes next."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    cutting = False
    pending: list[str] = []
    for line in lines:
        header = _header(line)
        if header is not None:
            cutting, was_cutting = header[: len(path)] == path, cutting
            kept += pending if was_cutting and not cutting else []
            pending = []
        if not cutting:
            kept.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            pending.append(line)
        else:
            pending = []
    kept += pending if cutting else []
    if len(kept) < len(lines):
        return "".join(kept)
    # No table of its own: an inline table, or dotted keys.
    document = tomlkit.parse(text)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return tomlkit.dumps(document)


def _header(line: str) -> tuple[str, ...] | None:
    """The keys of a `[table.header]`."""
    if not line.lstrip().startswith("["):
        return None
    try:
        return tuple(_chain(tomlkit.parse(line).unwrap()))
    except TOMLKitError:
        return None  # The inside of an array that goes over several lines.


def _chain(value: object) -> Iterator[str]:
    while isinstance(value, dict | list) and value:
        if isinstance(value, list):
            value = cast("list[object]", value)[0]
            continue
        key, value = next(iter(cast("dict[str, object]", value).items()))
        yield key
