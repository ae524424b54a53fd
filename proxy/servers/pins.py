"""Pins: what the tools and texts of a server were when they were accepted, as hashes on disk.

Above: review.py compares listings with them, `toolatlas tools accept` renews them. Below: one private file a server in
the state folder. A file that is damaged is an error that somebody has to look at, never a reason to pin anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from proxy.catalog.records import Listing
from proxy.errors import ConfigurationError
from proxy.files import locked, replace_file, stamp_of
from proxy.servers.config import OnChange, ServerConfig

NOT_PINNED = frozenset({"name", "_meta", "icons"})
"""Of a tool: its name is what it is pinned under; the others hold pictures and what is for programs alone."""
TOLD_APART = ("title", "description", "inputSchema", "outputSchema", "annotations")
OTHER = "other fields"
SERVER_TEXTS = ("name", "title", "description")
"""Of `serverInfo`, beside the instructions: what an agent may be shown of a server. Its version may change freely."""
MAX_TOOLS = 50_000
"""Tools pinned of one server; they stay pinned when they are gone, since they may come back changed."""


@dataclass(frozen=True, slots=True)
class ToolPin:
    """One tool definition. `fields` only tells which part changed; `whole` decides whether anything did."""

    whole: str
    """SHA-256 of the canonical JSON; empty, and equal to nothing, for one too deep to be written."""
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pin:
    """One server as it was accepted."""

    server: str
    """Its name in the configuration, for whoever reads the file."""
    texts: Mapping[str, str]
    tools: Mapping[str, ToolPin]
    """By a hash of the server's own name of the tool, which may be of any length and no valid text."""
    format: Literal[1] = 1

    def differences(self, listing: Listing) -> Differences:
        """What of `listing` is not as it was accepted."""
        texts = _hashes(_texts(listing))
        changed: dict[str, tuple[str, ...]] = {}
        new: set[str] = set()
        for tool in listing.tools:
            name, now = str(tool["name"]), _pinned(tool)
            then = self.tools.get(_key(name))
            if then is None:
                new.add(name)
            elif not now.whole or now.whole != then.whole:
                changed[name] = _differing(then.fields, now.fields) or (OTHER,)
        return Differences(_differing(self.texts, texts), changed, frozenset(new))


@dataclass(frozen=True, slots=True)
class Differences:
    """Between a server as it was accepted and as it is."""

    texts: tuple[str, ...] = ()
    """Texts of the server itself that differ."""
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The server's own name of each tool that differs -> its fields that do."""
    new: frozenset[str] = frozenset()
    """Tools that were never accepted."""

    def __bool__(self) -> bool:
        return bool(self.texts or self.changed or self.new)


_STORED = TypeAdapter(Pin)
_TYPED = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")


class PinStore:
    """The pins of all servers. A running gateway sees what another process writes when it looks again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[tuple[int, ...], Pin]] = {}

    def path(self, config: ServerConfig) -> Path:
        """The file of a server, by its name and what it is: command and arguments, or address.

        Variables and headers do not count, for they hold credentials: a renewed one is not another server.
        """
        what = [config.name, config.transport, config.command, config.args, config.cwd, config.url]
        digest = sha256(json.dumps(what).encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"

    def load(self, config: ServerConfig) -> Pin | None:
        """The pin of a server; None for one that was never accepted.

        Raises:
            ConfigurationError: Its file cannot be read.
        """
        path = self.path(config)
        try:
            stamp = stamp_of(path.stat())
            known = self._read.get(path.name)
            if known is not None and known[0] == stamp:
                return known[1]
            pin = _STORED.validate_json(path.read_bytes(), strict=True)
        except FileNotFoundError:
            return None
        except (ValidationError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise ConfigurationError(
                f"the file with what was accepted of server {config.name!r} cannot be used: {reason} ({path}); "
                f"restore it, or look at its tools and accept them anew: {accept_command(config.name)}"
            ) from None
        self._read[path.name] = (stamp, pin)
        return pin

    def add(self, config: ServerConfig, listing: Listing) -> Pin:
        """Pin what was never seen of a server before, and leave what is pinned as it is.

        Raises:
            ConfigurationError: Its file cannot be read.
            OSError: It cannot be written.
        """
        with self._changing():
            known = self.load(config)
            tools = dict(known.tools) if known else {}
            unseen = {key: tool for tool in listing.tools if (key := _key(str(tool["name"]))) not in tools}
            for key in list(unseen)[: max(0, MAX_TOOLS - len(tools))]:
                tools[key] = _pinned(unseen[key])
            pin = Pin(_shown(config.name), known.texts if known else _hashes(_texts(listing)), tools)
            if pin != known:
                # What only reports is not worth a wait for the disk for each of hundreds of servers.
                self._write(config, pin, durable=config.on_change is OnChange.BLOCK)
            return pin

    def accept(self, config: ServerConfig, listing: Listing, tool: str | None = None) -> Pin:
        """Accept a server as `listing` has it, even in place of a damaged file, or only its own `tool`.

        Raises:
            ConfigurationError: It cannot be written, or `tool` is of a server of which no pin can be read.
        """
        try:
            with self._changing():
                known = None
                with nullcontext() if tool is not None else suppress(ConfigurationError):
                    known = self.load(config)
                if tool is not None and known is None:
                    raise ConfigurationError(f"accept server {config.name!r} as a whole first: it never was")
                tools = dict(known.tools) if known else {}
                tools |= {_key(str(raw["name"])): _pinned(raw) for raw in listing.tools if tool in (None, raw["name"])}
                texts = known.texts if known and tool is not None else _hashes(_texts(listing))
                pin = Pin(_shown(config.name), texts, tools)
                self._write(config, pin, durable=True)
                return pin
        except OSError as error:
            raise ConfigurationError(f"{self.path(config)} cannot be written: {error.strerror}") from None

    def stamp(self) -> object:
        """Differs from an earlier one when any pin was written since."""
        try:
            with os.scandir(self._folder) as entries:
                return frozenset((entry.name, *stamp_of(entry.stat())) for entry in entries if entry.name[0] != ".")
        except OSError:
            return frozenset[Any]()

    def _write(self, config: ServerConfig, pin: Pin, *, durable: bool) -> None:
        path = self.path(config)
        replace_file(path, _STORED.dump_json(pin), durable=durable)
        self._read[path.name] = (stamp_of(path.stat()), pin)

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Hold off other processes that write pins."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._folder / ".lock"):
            yield


def accept_command(server: str, tool: str | None = None) -> str:
    """What to type to accept a server or a tool of it; the server where nobody should type the tool's own name."""
    target = server if tool is None or not _TYPED.fullmatch(tool) else f"{server}.{tool}"
    return f"`toolatlas tools accept {shlex.quote(target)}`"


def _texts(listing: Listing) -> Mapping[str, object]:
    texts: dict[str, object] = {} if listing.instructions is None else {"instructions": listing.instructions}
    return texts | {f"serverInfo.{key}": listing.server_info[key] for key in SERVER_TEXTS if key in listing.server_info}


def _pinned(tool: Mapping[str, Any]) -> ToolPin:
    definition = {key: value for key, value in tool.items() if key not in NOT_PINNED}
    other = {key: value for key, value in definition.items() if key not in TOLD_APART}
    fields = {key: definition[key] for key in TOLD_APART if key in definition} | ({OTHER: other} if other else {})
    return ToolPin(_hash(definition), _hashes(fields))


def _key(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def _hashes(values: Mapping[str, object]) -> dict[str, str]:
    return {key: _hash(value)[:16] for key, value in values.items()}


def _hash(value: object) -> str:
    try:
        return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except (RecursionError, ValueError, TypeError):
        return ""


def _differing(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(key for key in {*then, *now} if then.get(key) != now.get(key)))
