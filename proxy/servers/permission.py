"""The one place that decides what an agent may see and call, and when its user is asked first.

Above: every path to a tool (listing, search, description, call, code, pass-through). Below: the configuration, and
review.py with what differs from what was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from proxy.catalog.lookalikes import plain
from proxy.catalog.records import ToolRecord
from proxy.catalog.text import quoted
from proxy.servers.config import Approve, ServerConfig
from proxy.servers.review import Review
from proxy.store.recorder import Level


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the configuration permits; replaced as a whole when the file changes."""

    servers: Mapping[str, ServerConfig]
    """By name in the configuration."""
    reviews: Mapping[str, Review] = field(default_factory=dict[str, Review])
    """What was found of servers, by name; one that is missing has nothing to be withheld."""

    def review(self, server: str) -> Review:
        """How `server` compares with what was accepted of it."""
        return self.reviews.get(server, Review())

    def refusal(self, server: str, tool: str) -> str | None:
        """Why the server's own `tool` may be neither seen nor called, naming the setting; None when it may.

        The tool's name is quoted so that every character of it can be seen.
        """
        config = self.servers.get(server)
        if config is not None and config.usable and config.allow == ("*",) and not config.deny:
            # Nearly every tool, and there may be thousands.
            return self.review(server).refusal(server, tool)
        shown = quoted(tool)
        if config is None:
            return f"{shown} of server {server!r} is denied: the configuration has no entry for that server"
        if not config.enabled:
            return f"{shown} of server {server!r} is denied: the server is turned off in its configuration entry"
        review = self.review(server)
        if config.disabled_reason is not None and review.withheld is None:
            return (
                f"{shown} of server {server!r} is denied: the configuration entry of the server "
                f"cannot be used ({config.disabled_reason})"
            )
        for glob in config.deny:
            # A server must not get around it with a name that only looks the same.
            if fnmatchcase(tool, glob) or fnmatchcase(plain(tool), plain(glob)):
                return f"{shown} of server {server!r} is denied by tools.deny ({glob!r}) in its configuration entry"
        if not any(fnmatchcase(tool, glob) for glob in config.allow):
            return (
                f"{shown} of server {server!r} is not among tools.allow ({_quoted(config.allow)}) "
                "in its configuration entry"
            )
        return review.refusal(server, tool)

    def approval(self, server: str, tool: ToolRecord) -> str | None:
        """The question for the user before `tool` runs; None when none is needed."""
        config = self.servers.get(server)
        if config is None:
            return f"Allow {tool.written}? The configuration has no entry for its server."
        if config.approve is Approve.ALWAYS:
            return f"Allow {tool.written}? The configuration asks before every call to its server."
        if config.approve is Approve.DESTRUCTIVE and _says_destructive(tool):
            return f"Allow {tool.written}? Its server says it is destructive."
        return None


def level_of(config: ServerConfig, tool: str) -> Level:
    """How much may be written of a call to the server's own `tool`: the least of what its `log` says of it."""
    fitting = [
        level
        for glob, level in config.log
        # A server must not get around it with a name that only looks the same.
        if fnmatchcase(tool, glob) or fnmatchcase(plain(tool), plain(glob))
    ]
    return Level.least(fitting)


def least_level(config: ServerConfig) -> Level:
    """How much may be written of anything of the server, where it is not known which tool it is about."""
    return Level.least(level for _, level in config.log)


def _says_destructive(tool: ToolRecord) -> bool:
    hints = tool.annotations
    return hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True


def _quoted(globs: Sequence[str], shown: int = 8) -> str:
    if not globs:
        return "empty"
    more = f" and {len(globs) - shown} more" if len(globs) > shown else ""
    return ", ".join(repr(glob) for glob in globs[:shown]) + more
