"""Catalogues as they were when agents worked with them.

Above: judge and trainer, which need what a tool looked like then, and exporting.py. Below: database.py and tables.py,
which snapshots.py fills. Definitions are read only for the tools that are asked for: a catalogue may have thousands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.tables import DefinitionRow, SnapshotRow

IDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueServer:
    """A server, as agents were shown it."""

    name: str
    """Configured."""
    written: str
    """As agents write it."""
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueDefinition:
    """One tool as its server defined it."""

    hash: str
    server: str
    """Configured name."""
    tool: str
    """The server's own name."""
    definition: Mapping[str, Any]
    """The tool object as the server sent it."""
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What there was to choose from, at one time."""

    hash: str
    taken_at: datetime
    servers: tuple[CatalogueServer, ...]
    tools: Mapping[str, str]
    """The hash of its definition for each `server.tool`, in catalogue order."""
    definitions: Mapping[str, CatalogueDefinition]
    """By `server.tool`: all, or those that were asked for. A tool of `tools` that is not here was never written."""
    introduction: str | None
    """What `search` mode says and offers first: instructions, and the meta-tools' definitions as JSON."""
    introduction_tokens: int
    eager_tokens: int
    """Of all definitions."""


async def catalogue(database: Database, hash: str, *, tools: Collection[str] | None = None) -> Catalogue | None:
    """The catalogue of this hash, with the definitions of all its tools or of `tools` (`server.tool`) alone.

    None where it was never written: the gateway had changed it again before it could be kept.
    """
    async with database.reading() as connection:
        row = (await connection.execute(select(SnapshotRow.__table__).where(SnapshotRow.hash == hash))).one_or_none()
        if row is None:
            return None
        named: dict[str, str] = dict(row.tools)
        wanted = named if tools is None else {written: named[written] for written in tools if written in named}
        found = await definitions(connection, wanted.values())
    return Catalogue(
        hash=row.hash,
        taken_at=row.taken_at,
        servers=tuple(
            CatalogueServer(name=server["name"], written=server["written"], purpose=server["purpose"])
            for server in row.servers
        ),
        tools=named,
        definitions={written: found[digest] for written, digest in wanted.items() if digest in found},
        introduction=row.introduction,
        introduction_tokens=row.introduction_tokens,
        eager_tokens=row.eager_tokens,
    )


async def definitions(connection: AsyncConnection, hashes: Iterable[str]) -> dict[str, CatalogueDefinition]:
    """Those of these definitions that are kept, by hash."""
    # Two tools may have the same definition.
    wanted = list(dict.fromkeys(hashes))
    found: dict[str, CatalogueDefinition] = {}
    for start in range(0, len(wanted), IDS_AT_ONCE):
        some = wanted[start : start + IDS_AT_ONCE]
        for row in await connection.execute(select(DefinitionRow.__table__).where(DefinitionRow.hash.in_(some))):
            found[row.hash] = CatalogueDefinition(
                hash=row.hash, server=row.server, tool=row.tool, definition=row.definition, tokens=row.tokens
            )
    return found
