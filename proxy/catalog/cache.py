"""Listings on disk, by server identity, so that the index is complete the moment the gateway starts."""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxy.catalog.records import Listing
from proxy.files import replace_file

logger = logging.getLogger("toolatlas.catalog")

SEQUENCES = ("tools", "problems", "resources", "templates", "prompts")


class ListingCache:
    """One file per server identity in a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, identity: str) -> Listing | None:
        """The last listing; None if there is none or its file is damaged (it is then made anew)."""
        try:
            fields: dict[str, Any] = json.loads(self._path(identity).read_bytes())
            for name in SEQUENCES:
                fields[name] = tuple(fields[name])
            return Listing(**fields)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.warning("the cached listing %s is not usable (%s) and is made anew", self._path(identity), error)
            return None

    def age_s(self, identity: str) -> float:
        """Seconds since the listing was last confirmed; infinite if there is none."""
        try:
            return max(0.0, time.time() - self._path(identity).stat().st_mtime)
        except OSError:
            return math.inf

    def store(self, identity: str, listing: Listing) -> None:
        """Replace the listing, whole or not at all.

        Raises:
            OSError: The folder cannot be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps(asdict(listing), ensure_ascii=True).encode()
        replace_file(self._path(identity), content, durable=False)

    def _path(self, identity: str) -> Path:
        return self._folder / f"{identity}.json"
