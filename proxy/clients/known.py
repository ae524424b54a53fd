"""The clients that `import` and `connect` know, each with the paths and forms its vendor documents.

Above: the two commands. Below: base.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from proxy.clients.base import Client, Entry, Format, Place, Surroundings
from proxy.errors import ConfigurationError

SERVERS = ("mcpServers",)
CODEX_CALL_S = 300
"""Codex gives a call 60 seconds, less than a user may take to approve one."""
CODEX_START_S = 30
BARE_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def find_client(key: str) -> Client:
    """The client of this name."""
    for client in CLIENTS:
        if client.key == key:
            return client
    raise ConfigurationError(f"No client {key!r} is known. Known: {', '.join(client.key for client in CLIENTS)}.")


def _claude_desktop(around: Surroundings) -> Sequence[Place]:
    return [Place(around.settings / "Claude" / "claude_desktop_config.json", SERVERS)]


def _claude_code(around: Surroundings) -> Sequence[Place]:
    user = around.folder("CLAUDE_CONFIG_DIR", around.home) / ".claude.json"
    folder = around.project
    return [
        Place(user, SERVERS),
        *(Place(user, ("projects", key, *SERVERS), folder) for key in dict.fromkeys((str(folder), folder.as_posix()))),
        Place(folder / ".mcp.json", SERVERS, folder),
    ]


def _cursor(around: Surroundings) -> Sequence[Place]:
    return _both(around, around.home / ".cursor", ".cursor", "mcp.json", SERVERS)


def _vscode(around: Surroundings) -> Sequence[Place]:
    return _both(around, around.settings / "Code" / "User", ".vscode", "mcp.json", ("servers",))


def _codex(around: Surroundings) -> Sequence[Place]:
    home = around.folder("CODEX_HOME", around.home / ".codex")
    return _both(around, home, ".codex", "config.toml", ("mcp_servers",))


def _gemini(around: Surroundings) -> Sequence[Place]:
    return _both(around, around.home / ".gemini", ".gemini", "settings.json", SERVERS)


def _both(around: Surroundings, user: object, own: str, file: str, table: tuple[str, ...]) -> Sequence[Place]:
    raise NotImplementedError
