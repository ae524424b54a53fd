"""Servers of clients' files brought into our configuration file: first a plan to show, then one write.

Above: commands/importing.py, connecting.py. Below: reading.py, backup.py, and configedit.py, which decides the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from proxy.clients.backup import Backups
from proxy.clients.base import Entry
from proxy.clients.reading import Reading
from proxy.errors import ConfigurationError
from proxy.servers.configedit import add_servers
from proxy.servers.configfile import decode, read, sections

ACTION = "import"


@dataclass(frozen=True, slots=True)
class Addition:
    """One server that comes in."""

    name: str
    written: str
    """Its name in our file; another one than the client's where that was taken."""
    entry: Entry
    source: Path


@dataclass(frozen=True, slots=True)
class Omission:
    """One server that does not come in."""

    name: str
    reason: str
    source: Path


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do to our configuration file."""

    config: Path
    before: bytes | None
    after: bytes
    added: tuple[Addition, ...]
    skipped: tuple[Omission, ...]
    warnings: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not self.added


def plan_import(config: Path, readings: Iterable[Reading]) -> ImportPlan:
    """Works out what the readings would add to `config`, in their order, and changes nothing.

    Raises:
        ConfigurationError: `config` cannot be read, or cannot be changed without a loss.
    """
    before = _current(config)
    added: list[Addition] = []
    skipped: list[Omission] = []
    warnings: list[str] = []
    with TemporaryDirectory(prefix="toolatlas-") as folder:
        draft = Path(folder) / "mcp.json"
        if before is not None:
            draft.write_bytes(before)
        taken = set(_servers(config))
        for reading in readings:
            source = reading.place.path
            skipped += [Omission(name, reason, source) for name, reason in reading.skipped]
            for found in reading.servers:
                warnings += [f"{found.name} ({reading.client.title}): {warning}" for warning in found.warnings]
                written = add_servers(draft, {found.name: found.entry})[found.name]
                if written in taken:
                    reason = "it is there already" + (f", as {written}" if written != found.name else "")
                    skipped.append(Omission(found.name, reason, source))
                else:
                    taken.add(written)
                    added.append(Addition(found.name, written, found.entry, source))
        after = draft.read_bytes() if added else before or b""
    return ImportPlan(config, before, after, tuple(added), tuple(skipped), tuple(warnings))


def apply_import(plan: ImportPlan, backups: Backups) -> Path | None:
    """Writes the planned file, and returns where the one before is kept."""
    return backups.replace(ACTION, plan.config, plan.before, plan.after)


def _current(config: Path) -> bytes | None:
    if not config.exists():
        return None
    # An empty change finds out whether a real one is possible, and says so with the name of the real file.
    add_servers(config, {})
    try:
        return config.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{config} cannot be read: {error.strerror}. Give yourself the right to.") from None


def _servers(config: Path) -> Sequence[str]:
    """The names that are taken."""
    if not config.exists():
        return []
    found = decode(read(config), config)
    for key in next(iter(sections(cast("Mapping[str, object]", found))), ()):
        found = cast("Mapping[str, object]", found)[key]
    return list(cast("Mapping[str, object]", found))
