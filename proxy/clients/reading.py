"""The servers that a client's file holds, as entries of our own file.

Above: importing.py, connecting.py. Below: document.py for the file, entries.py for each entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.clients.base import Client, Place
from proxy.clients.document import Document
from proxy.clients.entries import Found, normalise, reason_to_skip


@dataclass(frozen=True, slots=True)
class Reading:
    """What one place held."""

    client: Client
    place: Place
    servers: tuple[Found, ...]
    skipped: tuple[tuple[str, str], ...]
    """Name and reason."""


def read_servers(client: Client, place: Place, urls: frozenset[str]) -> Reading:
    """Reads one place. `urls` are addresses of the gateway: an entry that leads back to it is skipped.

    Raises:
        ConfigurationError: The file cannot be read or understood.
    """
    found: list[Found] = []
    skipped: list[tuple[str, str]] = []
    for name, given in Document.open(place.path, client.format).servers(place.table).items():
        server = normalise(name, client.translate(given), place.folder)
        reason = reason_to_skip(name, server.entry, urls)
        if reason is None:
            found.append(server)
        else:
            skipped.append((name, reason))
    return Reading(client, place, tuple(found), tuple(skipped))


def read_existing(client: Client, places: Sequence[Place], urls: frozenset[str]) -> list[Reading]:
    """Reads those of the places whose file exists."""
    return [read_servers(client, place, urls) for place in places if place.path.exists()]
