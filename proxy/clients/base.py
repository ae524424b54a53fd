"""What there is to know of an MCP client: where its files are, where they hold servers, how our own entry looks.

Above: known.py describes the clients with these. Below: nothing; home, environment and platform are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

Entry: TypeAlias = Mapping[str, object]
"""One server as a file describes it."""

OWN_NAME = "toolatlas"
"""The name of our entry in a client's file."""


class Format(StrEnum):
    JSON = "json"
    TOML = "toml"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides where a client's files are."""

    home: Path
    environ: Mapping[str, str]
    platform: str
    """As `sys.platform` has it."""
    project: Path
    """The folder that project files are looked for in."""

    @property
    def settings(self) -> Path:
        """The platform's folder for the settings of desktop programs."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder("APPDATA", self.home / "AppData" / "Roaming")
        return self.folder("XDG_CONFIG_HOME", self.home / ".config")

    def folder(self, variable: str, default: Path) -> Path:
        """The folder that an environment variable names, if it names one."""
        named = self.environ.get(variable)
        return Path(named) if named else default


@dataclass(frozen=True, slots=True)
class Place:
    """One table of servers in one file."""

    path: Path
    table: tuple[str, ...]
    """The keys that lead to it from the top of the file."""
    folder: Path | None = None
    """Where the client starts these servers, when they belong to a project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One MCP client."""

    key: str
    """As it is named on the command line."""
    title: str
    format: Format
    table: tuple[str, ...]
    """Where its files hold servers, unless a place says otherwise."""
    places: Callable[[Surroundings], Sequence[Place]]
    """All places it reads, the one that `connect` writes to first."""
    http: Callable[[str, str | None], Entry] | None
    """Our entry for a URL and the environment variable of a token; None when it only starts programs."""
    stdio: Callable[[str, Sequence[str]], Entry]
    """Our entry for a program and its arguments."""
    translate: Callable[[Entry], Entry] = lambda entry: entry
    """Rewrites what only this client writes as other clients write it."""

    def at(self, path: Path, surroundings: Surroundings) -> tuple[Place, ...]:
        """The places in this one file."""
        known = tuple(place for place in self.places(surroundings) if place.path.resolve() == path.resolve())
        return known or (Place(path, self.table),)
