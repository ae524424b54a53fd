"""The configuration file: JSON with comments in, one `ServerConfig` an entry out.

Above: the composition root, watch.py, configedit.py. Below: entry.py and the json5 library. A bad entry costs
only its own server; a bad file is a `ConfigurationError`. Values may be secrets: texts name keys and types only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import json5

from proxy.errors import ConfigurationError
from proxy.servers.config import ServerConfig
from proxy.servers.entry import EntryReader, kind_of, mapping_of, nearest

SECTIONS = (("mcpServers",), ("servers",), ("mcp", "mcpServers"), ("mcp", "servers"))
LEXEME = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
BAD_ESCAPE = re.compile(r'(?:[^\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*(\\)(?!["\\/bfnrt]|u[0-9a-fA-F]{4})', re.DOTALL)
EXAMPLE = '{"mcpServers": {"name": {"command": "uvx", "args": ["some-mcp-server"]}}}'


@dataclass(frozen=True, slots=True)
class Configuration:
    """What one reading of the file gave."""

    path: Path | None
    servers: tuple[ServerConfig, ...]
    """In the order of the file, those that cannot be used included."""
    warnings: tuple[str, ...]


class JsonObject(dict[str, Any]):
    """A JSON object that remembers which of its keys were written more than once."""

    repeated: tuple[str, ...] = ()


def load(path: Path, environ: Mapping[str, str]) -> Configuration:
    """Reads and understands the file. Raises `ConfigurationError` when it as a whole cannot be used."""
    return parse(decode(read(path), path), environ, path)


def read(path: Path) -> str:
    """The text of the file."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no configuration file {path}. Create it, for example as {EXAMPLE}, or name another file."
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}. Make it a file that the gateway's user may read."
        ) from None


def decode(text: str, path: Path) -> object:
    """The JSON value of `text`; comments, trailing commas and the rest of JSON5 are understood."""
    try:
        try:
            return json.loads(text, object_pairs_hook=_object)
        except ValueError as error:
            if not text.strip():
                raise ConfigurationError(f"{path} is empty. Write for example {EXAMPLE} into it.") from None
            value, fault, position = json5.parse(text, object_pairs_hook=_object)
            # JSON5 drops the backslash of "C:\Program Files" without a word.
            for lexeme in LEXEME.finditer(text):
                bad = BAD_ESCAPE.match(lexeme[0]) if lexeme[0].startswith('"') else None
                if bad and lexeme.start() < position:
                    place = lexeme.start() + bad.start(1)
                    raise _not_json(path, text, place, "write \\\\ for one backslash") from error
            if fault is not None:
                raise _not_json(path, text, position, "something is missing here or does not belong here") from error
            return value
    except RecursionError:
        raise ConfigurationError(f"{path} is nested too deeply to be read. Take out what is not needed.") from None


def has_comments(text: str) -> bool:
    """Whether JSON with comments, already known to be valid, has any."""
    return any(lexeme[0].startswith("/") for lexeme in LEXEME.finditer(text))


def repeated_keys(value: object, within: Sequence[str] = ()) -> Iterator[str]:
    """Dotted paths of all keys that were written twice in one object."""
    if isinstance(value, JsonObject):
        yield from (".".join([*within, key]) for key in value.repeated)
        for key, inner in value.items():
            yield from repeated_keys(inner, [*within, key])
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from repeated_keys(inner, within)


def sections(document: Mapping[str, object]) -> list[tuple[str, ...]]:
    """The places of `document` that hold servers, the one that counts first."""
    nested = mapping_of(document.get("mcp")) or {}
    return [place for place in SECTIONS if place[-1] in (document if len(place) == 1 else nested)]


def parse(document: object, environ: Mapping[str, str], path: Path | None = None) -> Configuration:
    """Understands a decoded document. `path` is for texts only."""
    file = path or "The configuration"
    top = mapping_of(document)
    if top is None:
        raise ConfigurationError(f"{file} has to be a JSON object like {EXAMPLE}, but is {kind_of(document)}.")
    places = sections(top)
    if not places:
        near = nearest("mcpServers", top)
        hint = f" It has the key {near!r}: was that meant?" if near else ""
        raise ConfigurationError(f'{file} has no "mcpServers".{hint} Write the servers like {EXAMPLE}.')
    written = ".".join(places[0])
    section: object = top
    for key in places[0]:
        section = (mapping_of(section) or {})[key]
    entries = mapping_of(section)
    if entries is None:
        raise ConfigurationError(
            f"'{written}' of {file} has to be an object like {EXAMPLE}, but is {kind_of(section)}."
        )
    warnings = [f"'{key}' is written twice; only the last one counts" for key in repeated_keys(section, places[0])]
    warnings += [f"'{'.'.join(other)}' is not read, because there is also '{written}'" for other in places[1:]]
    if not entries:
        warnings.append(f"'{written}' is empty: there are no servers")
    servers: list[ServerConfig] = []
    for name, entry in entries.items():
        reader = EntryReader(entry, environ)
        servers.append(reader.server(name))
        warnings += [f"server {name!r}: {warning}" for warning in reader.warnings]
    return Configuration(path, tuple(servers), tuple(warnings))


def _object(pairs: Iterable[tuple[str, Any]]) -> JsonObject:
    pairs = list(pairs)
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        found.repeated = tuple(key for key, count in counts.items() if count > 1)
    return found


def _not_json(path: Path, text: str, position: int, hint: str) -> ConfigurationError:
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    hint = "the text ends too early" if position >= len(text.rstrip()) else hint
    return ConfigurationError(f"{path}, line {line}, column {column}: not valid JSON, {hint}. Correct it there.")
