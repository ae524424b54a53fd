"""The order in which servers are introduced."""

from __future__ import annotations

from proxy.catalog.catalog import Source, build_catalog
from proxy.catalog.prior import Prior

NAMES = ("mail", "files", "weather", "maps")
SERVERS = build_catalog((Source(name, "Is there.", None) for name in NAMES), lambda _server, _tool: None).servers


def order(prior: Prior) -> tuple[str, ...]:
    return tuple(server.name for server in prior.order(SERVERS))


def test_without_use_servers_stand_as_they_are_configured() -> None:
    prior = Prior()
    assert order(prior) == NAMES
    prior.learn({})
    assert order(prior) == NAMES


def test_the_most_used_comes_first_and_what_was_used_alike_stays_as_configured() -> None:
    prior = Prior()
    prior.learn({"maps": 9, "weather": 2, "files": 2, "removed": 40})
    assert order(prior) == ("maps", "files", "weather", "mail")


def test_what_is_learned_later_counts_alone() -> None:
    prior = Prior()
    prior.learn({"maps": 9})
    prior.learn({"weather": 1})
    assert order(prior) == ("weather", "mail", "files", "maps")
