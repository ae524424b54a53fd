"""The configuration file: JSON with comments in, one `ServerConfig` an entry out.

Above: the composition root, watch.py, configedit.py. Below: variables.py and the json5 library. A bad entry costs
only its own server; a bad file is a `ConfigurationError`. Values may be secrets: texts name keys and types only.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import json5
from rapidfuzz import fuzz, process

from proxy.errors import ConfigurationError
from proxy.servers.config import Approve, Isolation, ServerConfig, TransportKind
from proxy.servers.variables import MissingVariable, expand

Choice = TypeVar("Choice", bound=StrEnum)

SECTIONS = (("mcpServers",), ("servers",), ("mcp", "mcpServers"), ("mcp", "servers"))
TRANSPORTS = {
    "stdio": TransportKind.STDIO,
    "local": TransportKind.STDIO,
    "http": TransportKind.HTTP,
    "streamablehttp": TransportKind.HTTP,
    "sse": TransportKind.SSE,
}
STDIO_KEYS = ("command", "args", "cwd", "env")
URL_KEYS = ("httpUrl", "url", "serverUrl")
KNOWN_KEYS = (
    *STDIO_KEYS, *URL_KEYS, "headers", "type", "transport", "enabled", "disabled", "description", "tools", "approve",
    "isolation", "timeout_s", "timeout", "start_timeout_s", "idle_s",
)  # fmt: skip
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
    nested = _mapping(document.get("mcp")) or {}
    return [place for place in SECTIONS if place[-1] in (document if len(place) == 1 else nested)]


def parse(document: object, environ: Mapping[str, str], path: Path | None = None) -> Configuration:
    """Understands a decoded document. `path` is for texts only."""
    file = path or "The configuration"
    top = _mapping(document)
    if top is None:
        raise ConfigurationError(f"{file} has to be a JSON object like {EXAMPLE}, but is {_kind(document)}.")
    places = sections(top)
    if not places:
        near = _near("mcpServers", top)
        hint = f" It has the key {near!r}: was that meant?" if near else ""
        raise ConfigurationError(f'{file} has no "mcpServers".{hint} Write the servers like {EXAMPLE}.')
    written = ".".join(places[0])
    section: object = top
    for key in places[0]:
        section = (_mapping(section) or {})[key]
    entries = _mapping(section)
    if entries is None:
        raise ConfigurationError(f"'{written}' of {file} has to be an object like {EXAMPLE}, but is {_kind(section)}.")
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


class EntryReader:
    """Reads one entry key by key. What does not fit is noted in `problems` and read as if it were not there."""

    def __init__(self, entry: object, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[str] = []
        self.warnings: list[str] = []
        given = _mapping(entry)
        if given is None:
            self.problems.append(f"the entry has to be an object, but is {_kind(entry)}")
        # null is how generated files write "not given".
        self.fields = {key: value for key, value in (given or {}).items() if value is not None}

    def server(self, name: str) -> ServerConfig:
        """The entry as a `ServerConfig`, with `disabled_reason` when it has problems."""
        for key in self.fields:
            if key not in KNOWN_KEYS:
                near = _near(key, KNOWN_KEYS)
                self.warnings.append(f"unknown key {key!r} is ignored" + (f"; did you mean {near!r}?" if near else ""))
        if not name.strip():
            self.problems.append("the name of the server is empty")
        url_key = next((key for key in URL_KEYS if key in self.fields), "url")
        transport = self.transport(url_key)
        stdio = transport is TransportKind.STDIO
        command, *args = self.command() if stdio else [""]
        allow, deny = self.tools()
        return ServerConfig(
            name=name,
            transport=transport,
            command=command,
            args=tuple(args),
            env=self.values("env") if stdio else {},
            cwd=(self.expanded("cwd", self.text("cwd")) or None) if stdio else None,
            url="" if stdio else self.url(url_key),
            headers={} if stdio else self.values("headers"),
            enabled=self.flag("enabled", True) and not self.flag("disabled", False),
            description=self.text("description") or None,
            allow=allow,
            deny=deny,
            approve=self.choice("approve", Approve.DESTRUCTIVE),
            isolation=self.choice("isolation", Isolation.SHARED),
            timeout_s=self.timeout(),
            start_timeout_s=self.seconds("start_timeout_s", 60.0),
            idle_s=self.seconds("idle_s", 900.0),
            # The arguments above are read first; only then are all problems known.
            disabled_reason="; ".join(self.problems) or None,
        )

    def transport(self, url_key: str) -> TransportKind:
        """The given transport, or the one that the other keys speak of."""
        given = {kind for key in ("type", "transport") if (kind := self.transport_at(key))}
        if len(given) > 1:
            self.problems.append("'type' and 'transport' name different transports; remove one of them")
        kind = next(iter(given), None) or self.inferred(url_key)
        if kind is None:
            # An entry that is no object at all has been reported already.
            if self.fields or not self.problems:
                self.problems.append(
                    "the entry has neither 'command' (to start a server) nor 'url' (to connect to one)"
                )
            return TransportKind.STDIO
        needed = "command" if kind is TransportKind.STDIO else url_key
        if needed not in self.fields:
            self.problems.append(f"a server of type {kind} needs '{needed}', which the entry does not have")
        own = (*STDIO_KEYS,) if kind is TransportKind.STDIO else (url_key, "headers")
        for key in (*STDIO_KEYS, *URL_KEYS, "headers"):
            if key in self.fields and key not in own:
                self.warnings.append(f"'{key}' is not used: this is a server of type {kind} with '{needed}'")
        return kind

    def transport_at(self, key: str) -> TransportKind | None:
        if key not in self.fields:
            return None
        given = self.fields[key]
        kind = TRANSPORTS.get(re.sub("[-_]", "", given.lower())) if isinstance(given, str) else None
        if kind is None:
            self.wrong(key, "'stdio', 'http' or 'sse'", given)
        return kind

    def inferred(self, url_key: str) -> TransportKind | None:
        if "command" in self.fields:
            return TransportKind.STDIO
        if url_key not in self.fields:
            return None
        address = str(self.fields[url_key])
        with suppress(MissingVariable):
            address = expand(address, self.environ)
        sse = url_key != "httpUrl" and re.split("[?#]", address)[0].rstrip("/").endswith("/sse")
        return TransportKind.SSE if sse else TransportKind.HTTP

    def command(self) -> tuple[str, ...]:
        """Program and arguments; some clients write both in `command`."""
        before = len(self.problems)
        given = self.fields.get("command", "")
        words = (self.text("command"),) if isinstance(given, str) else self.strings("command", given)
        program, *first = [self.expanded("command", word) for word in words] or [""]
        if "command" in self.fields and not program.strip() and len(self.problems) == before:
            self.problems.append("'command' has to name a program, but is empty")
        rest = self.strings("args", self.fields.get("args", []))
        return (program, *first, *(self.expanded(f"args[{i}]", word) for i, word in enumerate(rest)))

    def url(self, key: str) -> str:
        before = len(self.problems)
        url = self.expanded(key, self.text(key).strip())
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return url
        if key in self.fields and len(self.problems) == before:
            self.problems.append(f"'{key}' has to begin with http:// or https:// and name a host, but does not")
        return ""

    def tools(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The globs of `tools.allow` and `tools.deny`."""
        globs: dict[str, tuple[str, ...]] = {"allow": ("*",), "deny": ()}
        for key, value in self.mapping("tools").items():
            if key not in globs:
                # A misspelled permission must not permit more than was meant, so a warning is not enough.
                self.problems.append(f"'tools' may have 'allow' and 'deny', but has {key!r}")
            elif value is not None:
                globs[key] = self.strings(f"tools.{key}", [value] if isinstance(value, str) else value)
        return globs["allow"], globs["deny"]

    def timeout(self) -> float:
        """`timeout_s`, or `timeout` as other programs write it.

        Gemini's is in milliseconds, the others' in seconds: above 1000 it is taken as milliseconds.
        """
        if "timeout_s" in self.fields:
            return self.seconds("timeout_s", 300.0)
        given = self.seconds("timeout", 300.0)
        return given / 1000 if given > 1000 else given

    def seconds(self, key: str, default: float) -> float:
        given = self.fields.get(key, default)
        # `sys.float_info.max` bounds what can become a float, NaN compares false.
        if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= sys.float_info.max:
            return float(given)
        self.wrong(key, "a number of seconds above 0", given)
        return default

    def flag(self, key: str, default: bool) -> bool:
        given = self.fields.get(key, default)
        if isinstance(given, bool):
            return given
        self.wrong(key, "true or false", given)
        return default

    def choice(self, key: str, default: Choice) -> Choice:
        given = self.fields.get(key, default.value)
        choices = {choice.value: choice for choice in type(default)}
        if isinstance(given, str) and given in choices:
            return choices[given]
        self.wrong(key, " or ".join(f"'{value}'" for value in choices), given)
        return default

    def values(self, key: str) -> dict[str, str]:
        """An object of texts, such as `env`; numbers and true/false become text as JSON writes them."""
        found = {name: self.scalar(f"{key}.{name}", value) for name, value in self.mapping(key).items()}
        return {name: self.expanded(f"{key}.{name}", value) for name, value in found.items()}

    def mapping(self, key: str) -> Mapping[str, object]:
        given = _mapping(self.fields.get(key, {}))
        if given is None:
            self.wrong(key, "an object", self.fields[key])
        return given or {}

    def strings(self, key: str, given: object) -> tuple[str, ...]:
        if not isinstance(given, list):
            self.wrong(key, "an array of strings", given)
            return ()
        return tuple(self.scalar(f"{key}[{i}]", item) for i, item in enumerate(cast("list[object]", given)))

    def scalar(self, key: str, given: object) -> str:
        if isinstance(given, str):
            return given
        if isinstance(given, int | float):
            return json.dumps(given)
        self.wrong(key, "a string", given)
        return ""

    def text(self, key: str) -> str:
        """A string, empty when it is not given."""
        given = self.fields.get(key, "")
        if isinstance(given, str):
            return given
        self.wrong(key, "a string", given)
        return ""

    def expanded(self, key: str, text: str) -> str:
        try:
            return expand(text, self.environ)
        except MissingVariable as error:
            self.problems.append(f"'{key}': {error}")
            return ""

    def wrong(self, key: str, expected: str, given: object) -> None:
        other = "another string" if isinstance(given, str) and "'" in expected else _kind(given)
        self.problems.append(f"'{key}' has to be {expected}, but is {other}")


def _object(pairs: Iterable[tuple[str, Any]]) -> JsonObject:
    pairs = list(pairs)
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        found.repeated = tuple(key for key, count in counts.items() if count > 1)
    return found


def _mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _not_json(path: Path, text: str, position: int, hint: str) -> ConfigurationError:
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    hint = "the text ends too early" if position >= len(text.rstrip()) else hint
    return ConfigurationError(f"{path}, line {line}, column {column}: not valid JSON, {hint}. Correct it there.")


def _near(key: str, known: Iterable[str]) -> str | None:
    found = process.extractOne(key, list(known), scorer=fuzz.ratio, score_cutoff=70, processor=str.casefold)
    return found[0] if found else None


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = ((str, "a string"), (int | float, "a number"), (list, "an array"), (Mapping, "an object"))
    return next((name for kind, name in names if isinstance(value, kind)), f"a Python {type(value).__name__}")
