"""Compares what servers say of themselves with what was accepted, and decides what is withheld until it is.

Above: the gateway, which asks about every configuration and listing; permission.py, which refuses what is withheld.
Below: pins.py. Server text stands in no reason or log line but a tool's name, with every character of it visible.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from proxy.catalog.records import Listing
from proxy.catalog.text import quoted
from proxy.errors import ConfigurationError
from proxy.servers.config import OnChange, OnNew, ServerConfig
from proxy.servers.pins import Differences, Pin, PinStore, accept_command

logger = logging.getLogger("toolatlas.servers")

MAX_LINES = 20
"""Of one server in the log at a time."""


@dataclass(frozen=True, slots=True)
class Review:
    """What was found of one server."""

    withheld: str | None = None
    """Why nothing of the server may be seen, called or even started; None when it was accepted."""
    waiting: bool = False
    """Whether that is because nobody has accepted it yet, rather than because nobody can tell."""
    blocks: bool = False
    """Whether what differs is withheld, beside being reported."""
    differences: Differences = field(default_factory=Differences)
    problem: str | None = None
    """Why differences cannot be told, of a server that works all the same."""

    @property
    def held_back(self) -> frozenset[str]:
        """The server's own names of the tools that are withheld because they differ."""
        return frozenset({*self.differences.changed, *self.differences.new}) if self.blocks else frozenset()

    def refusal(self, server: str, tool: str) -> str | None:
        """Why the server's own `tool` is withheld; None when it is not."""
        if self.withheld is not None:
            return f"{quoted(tool)} of server {server!r} is withheld: {self.withheld}"
        if not self.blocks:
            return None
        accept = f"the gateway's owner can look at it and release it with {accept_command(server, tool)}"
        if (fields := self.differences.changed.get(tool)) is not None:
            return (
                f"{quoted(tool)} of server {server!r} is withheld (on_change: block), because its definition changed "
                f"since it was accepted ({', '.join(fields)}); {accept}"
            )
        if tool in self.differences.new:
            return (
                f"{quoted(tool)} of server {server!r} is withheld (on_change: block), because the server did not have "
                f"it when it was accepted; {accept}"
            )
        return None

    def shown(self, listing: Listing) -> Listing:
        """`listing` without texts of the server itself that are withheld."""
        withheld = self.blocks and self.differences.texts
        return replace(listing, instructions=None, server_info={}) if withheld else listing


class Reviewer:
    """Remembers what it found and told, so that nothing is hashed twice and each finding is logged once."""

    def __init__(self, pins: PinStore) -> None:
        self._pins = pins
        self._known: dict[str, tuple[ServerConfig, Listing, Pin, Review]] = {}
        self._told: dict[str, Review] = {}
        self._stamp: object = None

    def pins_changed(self) -> bool:
        """Whether a pin was written since the last time this was asked. Looks at files; safe in a thread."""
        before, self._stamp = self._stamp, self._pins.stamp()
        return self._stamp != before

    def admit(self, config: ServerConfig) -> Review:
        """Whether a server may be used at all, before anything is known of it."""
        try:
            pin = self._pins.load(config)
        except ConfigurationError as error:
            return _cannot_tell(config, str(error))
        if pin is None and config.on_new is OnNew.ASK:
            why = f"it waits until the gateway's owner accepts it (on_new: ask): {accept_command(config.name)}"
            return Review(withheld=why, waiting=True)
        return Review()

    def review(self, config: ServerConfig, listing: Listing) -> Review:
        """What differs in `listing`; what was never seen of an accepted server is pinned, unless it is blocked."""
        admitted = self.admit(config)
        if admitted.withheld is not None or admitted.problem is not None:
            return admitted
        blocks = config.on_change is OnChange.BLOCK
        pin = self._pins.load(config)
        config_before, listing_before, pin_before, before = self._known.get(config.name, (None, None, None, Review()))
        if (config_before, pin_before) == (config, pin) and listing_before is listing:
            return before
        try:
            if pin is None or (not blocks and pin.differences(listing).new):
                pin = self._pins.add(config, listing)
        except OSError as error:
            return _cannot_tell(config, f"its tools cannot be pinned, so no change of them would be noticed: {error}")
        found = pin.differences(listing)
        # Past the number of tools that are pinned, those of a server that only reports are not.
        review = Review(blocks=blocks, differences=found if blocks else replace(found, new=frozenset()))
        self._known[config.name] = (config, listing, pin, review)
        return review

    def tell(self, server: str, review: Review) -> None:
        """Log what is to be said of a server and was not yet."""
        before = self._told.get(server, Review())
        if review == before:
            return
        self._told[server] = review
        known = set(findings(server, before))
        lines = [line for line in findings(server, review) if line not in known]
        for line in lines[:MAX_LINES]:
            logger.warning("%s", line)
        if len(lines) > MAX_LINES:
            logger.warning("server %s: and %d more; `toolatlas tools list` shows all", server, len(lines) - MAX_LINES)


def _cannot_tell(config: ServerConfig, problem: str) -> Review:
    strict = config.on_change is OnChange.BLOCK or config.on_new is OnNew.ASK
    return Review(withheld=problem) if strict else Review(problem=problem)


def findings(server: str, review: Review) -> list[str]:
    """What its owner should look at, one sentence each."""
    if review.withheld or review.problem:
        return [f"server {server!r}: {review.withheld or review.problem}"]
    differences, then = review.differences, "it is withheld" if review.blocks else "it is served"
    lines = [
        f"the definition of {quoted(tool)} of server {server!r} changed since it was accepted ({', '.join(fields)}); "
        f"{then} until {accept_command(server, tool)}"
        for tool, fields in sorted(differences.changed.items())
    ]
    lines += [
        f"{quoted(tool)} of server {server!r} is new; {then} until {accept_command(server, tool)}"
        for tool in sorted(differences.new)
    ]
    if differences.texts:
        lines.insert(
            0,
            f"what server {server!r} says of itself changed since it was accepted ({', '.join(differences.texts)}); "
            f"{then} until {accept_command(server)}",
        )
    return lines


def withholding(configs: Mapping[str, ServerConfig], reviews: Mapping[str, Review]) -> dict[str, ServerConfig]:
    """The configuration in which a withheld server cannot be used, so that no path starts or asks it."""
    return {
        name: config
        if (review := reviews.get(name)) is None or review.withheld is None or not config.usable
        else replace(config, disabled_reason=review.withheld)
        for name, config in configs.items()
    }
