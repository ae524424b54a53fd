"""Our own entry written into a client's file, and with it the client's other servers moved into our configuration.

Above: commands/connect.py. Below: document.py, reading.py, importing.py, backup.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import TypeAlias

from proxy.clients.backup import Backups
from proxy.clients.base import OWN_NAME, Client, Entry, Format, Place
from proxy.clients.document import Change, Document, render
from proxy.clients.importing import ImportPlan, apply_import, plan_import
from proxy.clients.masking import masked
from proxy.clients.reading import Reading, read_servers
from proxy.errors import ConfigurationError

ACTION = "connect"

CountTokens: TypeAlias = Callable[[Mapping[str, Entry], Mapping[str, Entry] | None], int | None]
"""Tokens of what a client shows its model: for the servers it has itself, and, unless the second is None, for the
gateway with these servers moved behind it. None when that is not known."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How the client is to reach the gateway."""

    url: str | None
    """None: the client starts `command` and speaks with it over stdio."""
    command: str
    config: Path | None
    """For `command`, when it is not the default one."""
    token_env: str | None

    def entry(self, client: Client) -> Entry:
        """Our entry. A client that only starts programs is given a relay to the URL."""
        if self.url is not None and client.http is not None:
            return client.http(self.url, self.token_env)
        args = ["stdio"]
        args += ["--url", self.url] if self.url is not None else []
        args += ["--config", str(self.config)] if self.url is None and self.config is not None else []
        args += ["--token-env", self.token_env] if self.token_env is not None else []
        return client.stdio(self.command, args)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the client's servers cost its model before anything is asked; None is unknown."""

    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class ConnectPlan:
    """What connecting would do to the client's file, and to our configuration."""

    client: Client
    path: Path
    before: bytes | None
    after: bytes
    diff: str
    """Of the tables of servers, secrets masked."""
    moved: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    """Servers that stay in the client's file though others move, and why."""
    imported: ImportPlan | None
    tokens: Tokens

    @property
    def empty(self) -> bool:
        return self.before == self.after


def plan_connect(
    client: Client,
    places: Sequence[Place],
    connection: Connection,
    *,
    config: Path | None,
    urls: frozenset[str],
    count_tokens: CountTokens | None,
) -> ConnectPlan:
    """Works out the change and makes none. `places` are those of one file, ours goes into the first.

    With `config`, the client's other servers move there; `urls` are addresses of the gateway, as for reading.

    Raises:
        ConfigurationError: One of the files cannot be read, or cannot be changed without a loss.
    """
    if config is not None and config.resolve() == places[0].path.resolve():
        raise ConfigurationError(
            f"{config} is the gateway's own configuration: its servers cannot be moved into itself. Name another file."
        )
    document = Document.open(places[0].path, client.format)
    readings = [read_servers(client, place, urls) for place in places]
    moving = [_movable(reading) for reading in readings] if config is not None else []
    drops = {reading.place.table: [found.name for found in reading.servers] for reading in moving}
    own = {OWN_NAME: connection.entry(client)}
    changes = [
        Change(place.table, own if place is places[0] else {}, drops.get(place.table, ()))
        for place in places
        if place is places[0] or drops.get(place.table)
    ]
    all_found = {found.name: found.entry for reading in readings for found in reading.servers}
    moved = tuple(name for names in drops.values() for name in names)
    connected = any(OWN_NAME in document.servers(place.table) for place in places)
    tokens = Tokens(None, None)
    if count_tokens is not None:
        remaining = {name: entry for name, entry in all_found.items() if name not in moved}
        behind = {name: entry for name, entry in all_found.items() if name in moved}
        tokens = Tokens(count_tokens(all_found, {} if connected else None), count_tokens(remaining, behind))
    return ConnectPlan(
        client=client,
        path=document.path,
        before=document.content,
        after=document.changed(changes),
        diff=_diff(document, changes),
        moved=moved,
        kept=tuple(kept for reading in readings for kept in _kept(reading)) if config is not None else (),
        imported=plan_import(config, moving) if config is not None else None,
        tokens=tokens,
    )


def apply_connect(plan: ConnectPlan, backups: Backups) -> Path | None:
    """Writes what was planned, and returns where the client's file as it was is kept.

    Our configuration comes first: where the second write fails, a server is in both files and none is lost.
    """
    if plan.imported is not None and not plan.imported.empty:
        apply_import(plan.imported, backups)
    return backups.replace(ACTION, plan.path, plan.before, plan.after)


def _movable(reading: Reading) -> Reading:
    """Without what would stop working: a server whose values only the client can fill in stays with the client."""
    return replace(reading, servers=tuple(found for found in reading.servers if not found.foreign))


def _kept(reading: Reading) -> Iterator[tuple[str, str]]:
    yield from (entry for entry in reading.skipped if entry[0] != OWN_NAME)
    for found in reading.servers:
        if found.foreign:
            yield found.name, f"only {reading.client.title} can fill in {', '.join(found.foreign)}"


def _diff(document: Document, changes: Sequence[Change]) -> str:
    """Only the tables that change are shown: around them a client keeps what is nobody's business."""
    lines: list[str] = []
    for change in changes:
        old = document.servers(change.table)
        new = {name: entry for name, entry in old.items() if name not in change.drop} | dict(change.put)
        before, after = (_shown(document.format, change.table, servers) for servers in (old, new))
        lines += unified_diff(before, after, f"{document.path} (now)", f"{document.path} (then)")
    return "".join(lines)


def _shown(format: Format, table: tuple[str, ...], servers: Mapping[str, Entry]) -> list[str]:
    if not servers:
        return []
    text = render(format, table, {name: masked(entry) for name, entry in servers.items()})
    return text.splitlines(keepends=True)
