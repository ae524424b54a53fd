"""One entry of the configuration file: an object of any shape in, one `ServerConfig` out.

Above: configfile.py, which finds the entries. Below: variables.py. What does not fit disables the entry, not the file.
Values may be secrets: texts name keys and types only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TypeVar, cast
from urllib.parse import urlsplit

import httpx2
from rapidfuzz import fuzz, process

from proxy.servers.config import Approve, Isolation, OAuthConfig, OnChange, OnNew, ServerConfig, TransportKind
from proxy.servers.http_entry import read_forwarded, read_headers, read_oauth
from proxy.servers.variables import MissingVariable, expand
from proxy.store.recorder import Level

Choice = TypeVar("Choice", bound=StrEnum)

TRANSPORTS = {
    "stdio": TransportKind.STDIO,
    "local": TransportKind.STDIO,
    "http": TransportKind.HTTP,
    "streamablehttp": TransportKind.HTTP,
    "sse": TransportKind.SSE,
}
STDIO_KEYS = ("command", "args", "cwd", "env")
URL_KEYS = ("httpUrl", "url", "serverUrl")
HTTP_KEYS = ("headers", "forward_headers", "oauth")
KNOWN_KEYS = (
    *STDIO_KEYS, *URL_KEYS, *HTTP_KEYS, "type", "transport", "enabled", "disabled", "description", "tools", "approve",
    "log", "on_change", "on_new", "isolation", "timeout_s", "timeout", "start_timeout_s", "idle_s",
)  # fmt: skip


class EntryReader:
    """Reads one entry key by key. What does not fit is noted in `problems` and read as if it were not there."""

    def __init__(self, entry: object, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[str] = []
        self.warnings: list[str] = []
        given = mapping_of(entry)
        if given is None:
            self.problems.append(f"the entry has to be an object, but is {kind_of(entry)}")
        # null is how generated files write "not given".
        self.fields = {key: value for key, value in (given or {}).items() if value is not None}

    def server(self, name: str) -> ServerConfig:
        """The entry as a `ServerConfig`, with `disabled_reason` when it has problems."""
        for key in self.fields:
            if key not in KNOWN_KEYS:
                near = nearest(key, KNOWN_KEYS)
                self.warnings.append(f"unknown key {key!r} is ignored" + (f"; did you mean {near!r}?" if near else ""))
        if not name.strip():
            self.problems.append("the name of the server is empty")
        url_key = next((key for key in URL_KEYS if key in self.fields), "url")
        transport = self.transport(url_key)
        stdio = transport is TransportKind.STDIO
        command, *args = self.command() if stdio else [""]
        headers = {} if stdio else read_headers(self)
        allow, deny = self.tools()
        return ServerConfig(
            name=name,
            transport=transport,
            command=command,
            args=tuple(args),
            env=self.values("env") if stdio else {},
            cwd=(self.expanded("cwd", self.text("cwd")) or None) if stdio else None,
            url="" if stdio else self.url(url_key),
            headers=headers,
            forward_headers=() if stdio else read_forwarded(self, headers),
            oauth=OAuthConfig() if stdio else read_oauth(self),
            enabled=self.flag("enabled", True) and not self.flag("disabled", False),
            description=self.text("description") or None,
            allow=allow,
            deny=deny,
            approve=self.choice("approve", Approve.DESTRUCTIVE),
            on_change=self.preference("on_change", OnChange.REPORT),
            on_new=self.preference("on_new", OnNew.ACCEPT),
            isolation=self.choice("isolation", Isolation.AUTO),
            log=self.levels(),
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
        own = (*STDIO_KEYS,) if kind is TransportKind.STDIO else (url_key, *HTTP_KEYS)
        for key in (*STDIO_KEYS, *URL_KEYS, *HTTP_KEYS):
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
        with suppress(ValueError, httpx2.InvalidURL):
            parts = urlsplit(url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and httpx2.URL(url).host:
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

    def levels(self) -> tuple[tuple[str, Level], ...]:
        """`log`: one level for the server, or one for each glob over its tools."""
        given = self.fields.get("log", {})
        globs = {"*": given} if isinstance(given, str) else self.mapping("log")
        levels: list[tuple[str, Level]] = []
        for glob, level in globs.items():
            if isinstance(level, str) and level in list(Level):
                levels.append((glob, Level(level)))
            else:
                # A misspelled level must not let more be written than was meant, so a warning is not enough.
                self.problems.append(f"'log' is one of {', '.join(Level)}, for the server or for each glob over tools")
        return tuple(levels)

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

    def preference(self, key: str, default: Choice) -> Choice:
        """A choice whose default the environment may set for all servers, as `TOOLATLAS_` and the key."""
        variable = f"TOOLATLAS_{key.upper()}"
        choices = {choice.value: choice for choice in type(default)}
        given = self.environ.get(variable) or default.value
        if given not in choices:
            # Whoever sets it means to be stricter, so what cannot be read must not be taken for less.
            self.problems.append(f"the variable {variable} has to be {' or '.join(map(repr, choices))}")
        return self.choice(key, choices.get(given, default))

    def values(self, key: str) -> dict[str, str]:
        """An object of texts, such as `env`; numbers and true/false become text as JSON writes them."""
        found = {name: self.scalar(f"{key}.{name}", value) for name, value in self.mapping(key).items()}
        return {name: self.expanded(f"{key}.{name}", value) for name, value in found.items()}

    def mapping(self, key: str) -> Mapping[str, object]:
        given = mapping_of(self.fields.get(key, {}))
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
        other = "another string" if isinstance(given, str) and "'" in expected else kind_of(given)
        self.problems.append(f"'{key}' has to be {expected}, but is {other}")


def mapping_of(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def nearest(key: str, known: Iterable[str]) -> str | None:
    found = process.extractOne(key, list(known), scorer=fuzz.ratio, score_cutoff=70, processor=str.casefold)
    return found[0] if found else None


def kind_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = ((str, "a string"), (int | float, "a number"), (list, "an array"), (Mapping, "an object"))
    return next((name for kind, name in names if isinstance(value, kind)), f"a Python {type(value).__name__}")
