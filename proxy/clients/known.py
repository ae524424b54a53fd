"""The clients that `import` and `connect` know, with the paths and forms that their vendors document.

Above: the two commands. Below: base.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from proxy.clients.base import Client, Entry, Format, Place, Surroundings
from proxy.errors import ConfigurationError

MCP_SERVERS = ("mcpServers",)
SERVERS = ("servers",)
CODEX_SERVERS = ("mcp_servers",)
CODEX_CALL_S = 300
"""By itself Codex gives a call 60 seconds, less than a user may take to approve one."""
CODEX_START_S = 30
"""By itself Codex gives a start 10 seconds; `toolatlas stdio` may have to start the gateway first."""
BARE_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def find_client(key: str) -> Client:
    """The client of this name."""
    for client in CLIENTS:
        if client.key == key:
            return client
    known = ", ".join(client.key for client in CLIENTS)
    raise ConfigurationError(f"There is no client {key!r} here. Name one of: {known}.")


def _claude_desktop_places(around: Surroundings) -> Sequence[Place]:
    return [Place(around.settings / "Claude" / "claude_desktop_config.json", MCP_SERVERS)]


def _claude_code_places(around: Surroundings) -> Sequence[Place]:
    user = around.folder("CLAUDE_CONFIG_DIR", around.home) / ".claude.json"
    project = around.project
    # On Windows both ways to write the folder are met.
    keys = dict.fromkeys((str(project), project.as_posix()))
    local = [Place(user, ("projects", key, *MCP_SERVERS), project) for key in keys]
    return [Place(user, MCP_SERVERS), *local, Place(project / ".mcp.json", MCP_SERVERS, project)]


def _cursor_places(around: Surroundings) -> Sequence[Place]:
    user = around.home / ".cursor" / "mcp.json"
    return _user_and_project(around, user, around.project / ".cursor" / "mcp.json", MCP_SERVERS)


def _vscode_places(around: Surroundings) -> Sequence[Place]:
    user = around.settings / "Code" / "User" / "mcp.json"
    return _user_and_project(around, user, around.project / ".vscode" / "mcp.json", SERVERS)


def _codex_places(around: Surroundings) -> Sequence[Place]:
    user = around.folder("CODEX_HOME", around.home / ".codex") / "config.toml"
    return _user_and_project(around, user, around.project / ".codex" / "config.toml", CODEX_SERVERS)


def _gemini_places(around: Surroundings) -> Sequence[Place]:
    user = around.home / ".gemini" / "settings.json"
    return _user_and_project(around, user, around.project / ".gemini" / "settings.json", MCP_SERVERS)


def _user_and_project(around: Surroundings, user: Path, project: Path, table: tuple[str, ...]) -> Sequence[Place]:
    # In the home folder both are one file, and what is in it is the user's.
    return [Place(user, table), *([Place(project, table, around.project)] if project != user else [])]


def _typed_http(reference: str) -> Callable[[str, str | None], Entry]:
    return lambda url, token: {"type": "http", "url": url, **_authorization(reference, token)}


def _authorization(reference: str, token: str | None) -> Entry:
    return {"headers": {"Authorization": f"Bearer {reference.format(token)}"}} if token else {}


def _cursor_http(url: str, token: str | None) -> Entry:
    return {"url": url, **_authorization("${{env:{}}}", token)}


def _gemini_http(url: str, token: str | None) -> Entry:
    return {"httpUrl": url, **_authorization("${{{}}}", token)}


def _codex_http(url: str, token: str | None) -> Entry:
    return {"url": url, **({"bearer_token_env_var": token} if token else {}), "tool_timeout_sec": CODEX_CALL_S}


def _program(command: str, args: Sequence[str]) -> Entry:
    return {"command": command, "args": list(args)}


def _vscode_program(command: str, args: Sequence[str]) -> Entry:
    return {"type": "stdio", "command": command, "args": list(args)}


def _codex_program(command: str, args: Sequence[str]) -> Entry:
    return {
        "command": command,
        "args": list(args),
        "startup_timeout_sec": CODEX_START_S,
        "tool_timeout_sec": CODEX_CALL_S,
    }


def _from_codex(entry: Entry) -> Entry:
    """Codex names environment variables where others write `${VAR}`."""
    moved = dict(entry)
    headers = {**_mapping(moved.pop("http_headers", None))}
    if (token := moved.pop("bearer_token_env_var", None)) is not None:
        headers["Authorization"] = f"Bearer ${{{token}}}"
    headers |= {name: f"${{{value}}}" for name, value in _mapping(moved.pop("env_http_headers", None)).items()}
    # Codex passes on what is set and says nothing of what is not, so the default is empty.
    passed = {name: f"${{{name}:-}}" for name in _names(moved.pop("env_vars", None))}
    if (milliseconds := moved.pop("startup_timeout_ms", None)) is not None and isinstance(milliseconds, int | float):
        moved["start_timeout_s"] = milliseconds / 1000
    for theirs, ours in (("startup_timeout_sec", "start_timeout_s"), ("tool_timeout_sec", "timeout_s")):
        if theirs in moved:
            moved[ours] = moved.pop(theirs)
    # `headers` is no key of Codex: it ignores it, and so must we.
    return _with_tools(
        {**moved, "headers": headers, "env": {**passed, **_mapping(moved.get("env"))}},
        "enabled_tools",
        "disabled_tools",
    )


def _from_gemini(entry: Entry) -> Entry:
    """Gemini replaces `$VAR` as well as `${VAR}`."""
    return _with_tools(_mapping(_braced(entry)), "includeTools", "excludeTools")


def _braced(value: object) -> object:
    if isinstance(value, str):
        return BARE_VARIABLE.sub(r"${\1}", value)
    if isinstance(value, Mapping):
        return {key: _braced(inner) for key, inner in _mapping(cast("object", value)).items()}
    if isinstance(value, list):
        return [_braced(inner) for inner in cast("list[object]", value)]
    return value


def _with_tools(entry: Entry, allowed: str, denied: str) -> Entry:
    """What the client's owner has forbidden stays forbidden."""
    rest = {key: value for key, value in entry.items() if key not in (allowed, denied)}
    tools = {ours: entry[theirs] for theirs, ours in ((allowed, "allow"), (denied, "deny")) if theirs in entry}
    return {**rest, "tools": tools} if tools else rest


def _mapping(value: object) -> Entry:
    return cast("Entry", value) if isinstance(value, Mapping) else {}


def _names(value: object) -> list[str]:
    """Names of variables, each written alone or as `{name = …}`."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    found = [_mapping(cast("object", item)).get("name") if isinstance(item, Mapping) else item for item in items]
    return [name for name in found if isinstance(name, str)]


CLIENTS = (
    Client(
        key="claude-desktop",
        title="Claude Desktop",
        format=Format.JSON,
        table=MCP_SERVERS,
        places=_claude_desktop_places,
        http=None,
        stdio=_program,
    ),
    Client(
        key="claude-code",
        title="Claude Code",
        format=Format.JSON,
        table=MCP_SERVERS,
        places=_claude_code_places,
        http=_typed_http("${{{}}}"),
        stdio=_program,
    ),
    Client(
        key="cursor",
        title="Cursor",
        format=Format.JSON,
        table=MCP_SERVERS,
        places=_cursor_places,
        http=_cursor_http,
        stdio=_program,
    ),
    Client(
        key="vscode",
        title="VS Code",
        format=Format.JSON,
        table=SERVERS,
        places=_vscode_places,
        http=_typed_http("${{env:{}}}"),
        stdio=_vscode_program,
    ),
    Client(
        key="codex",
        title="Codex",
        format=Format.TOML,
        table=CODEX_SERVERS,
        places=_codex_places,
        http=_codex_http,
        stdio=_codex_program,
        translate=_from_codex,
    ),
    Client(
        key="gemini",
        title="Gemini CLI",
        format=Format.JSON,
        table=MCP_SERVERS,
        places=_gemini_places,
        http=_gemini_http,
        stdio=_program,
        translate=_from_gemini,
    ),
)
