"""Everything that can be set from outside, read once and frozen; parts get only the numbers they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from proxy.errors import ConfigurationError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
DEFAULT_PORT = 8765


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One gateway process."""

    config: Path
    """The `mcpServers` file."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    mode: str = "search"
    """What `/mcp` shows: `search` (index and meta-tools) or `direct` (all tools, prefixed)."""
    allowed_hosts: tuple[str, ...] = ()
    """Host headers accepted besides the address listened on; needed behind a proxy or a name."""
    state_dir: Path
    cache_dir: Path
    replica: str = "0"
    """Written into task ids, so that a load balancer's other side can tell whose task it is."""
    max_request_bytes: int = 4 * 1024 * 1024
    result_limit: int = 10_000
    """Bytes of a result that an agent gets at once in `search` mode; Codex cuts at about this."""
    page_memory_bytes: int = 64 * 1024 * 1024
    """For results kept to be read in pages; the oldest go first."""
    task_idle_s: float = 4 * 3600.0
    search_wait_s: float = 2.0
    """How long a search waits for servers that are being listed for the first time."""
    exit_when_idle_s: float | None = None

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the gateway keeps things between runs, from the environment or the platform's conventions."""

    config: Path
    state_dir: Path
    cache_dir: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Folders:
        def folder(variable: str, default: Path) -> Path:
            return Path(environ[variable]).expanduser() if environ.get(variable) else default

        return cls(
            config=folder("TOOLATLAS_CONFIG", platformdirs.user_config_path("toolatlas") / "mcp.json"),
            state_dir=folder("TOOLATLAS_STATE_DIR", platformdirs.user_state_path("toolatlas")),
            cache_dir=folder("TOOLATLAS_CACHE_DIR", platformdirs.user_cache_path("toolatlas")),
        )


def check_mode(mode: str) -> str:
    """Raises ConfigurationError for anything but the two modes."""
    if mode not in ("search", "direct"):
        raise ConfigurationError(f"mode is 'search' or 'direct', not {mode!r}")
    return mode
