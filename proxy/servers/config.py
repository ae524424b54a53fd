"""What the gateway knows of a server from its configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from json import dumps
from typing import Any

from proxy.store.recorder import Level


class TransportKind(StrEnum):
    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"


class Approve(StrEnum):
    """When the user is asked before a tool runs."""

    NEVER = "never"
    DESTRUCTIVE = "destructive"
    ALWAYS = "always"


class OnChange(StrEnum):
    """What happens to a tool whose definition is not the pinned one any more."""

    REPORT = "report"
    BLOCK = "block"


class OnNew(StrEnum):
    """What happens to a server that was never seen before."""

    ASK = "ask"
    ACCEPT = "accept"


class Isolation(StrEnum):
    """Which agents share a connection to the server."""

    AUTO = "auto"
    """All, until it puts a question to one; then each that can be asked has its own."""
    SHARED = "shared"
    """All, and the server is told that nobody can be asked."""
    SESSION = "session"
    """None: every session of an agent has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """How to log in to a server; without any of it, the server's own metadata says how."""

    client_id: str | None = None
    """Of a client registered by hand; None registers one at each login."""
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    """What to ask for; empty asks for what the server's metadata names."""
    redirect_port: int = 0
    """Loopback port that the browser comes back to; 0 takes a free one."""
    allowed_origins: frozenset[str] = frozenset()
    """`scheme://host:port` that may be private or loopback although only the server's metadata names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One entry of `mcpServers`, variables put in. `args`, `env`, `headers`, `url` hold secrets: never print them."""

    name: str
    transport: TransportKind
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth: OAuthConfig = OAuthConfig()
    enabled: bool = True
    disabled_reason: str | None = None
    """Why this entry cannot be used (a missing variable, no command and no url); None when it can."""
    description: str | None = None
    allow: tuple[str, ...] = ("*",)
    """Globs over the server's own tool names."""
    deny: tuple[str, ...] = ()
    approve: Approve = Approve.DESTRUCTIVE
    on_change: OnChange = OnChange.REPORT
    on_new: OnNew = OnNew.ACCEPT
    isolation: Isolation = Isolation.AUTO
    forward_headers: tuple[str, ...] = ()
    """Lower-case names of headers of the agent's request that are passed on to the server."""
    log: tuple[tuple[str, Level], ...] = ()
    """Globs over its own tool names, and the most that is written of calls to those."""
    timeout_s: float = 300.0
    """Seconds a call may stay without an answer or progress."""
    start_timeout_s: float = 60.0
    idle_s: float = 900.0
    """Seconds without a call after which the connection is closed; it opens again on the next call."""

    identity: str = field(init=False, compare=False)
    """Hash of what decides which server this is: a changed description keeps it, a changed argument does not."""

    def __post_init__(self) -> None:
        # Made once: calls ask for it, and hashing costs more than looking up.
        parts: list[Any] = [
            self.transport, self.command, self.args, sorted(self.env.items()), self.cwd, self.url,
            sorted(self.headers.items()),
        ]  # fmt: skip
        object.__setattr__(self, "identity", sha256(dumps(parts, ensure_ascii=False).encode()).hexdigest()[:32])

    @property
    def usable(self) -> bool:
        return self.enabled and self.disabled_reason is None
