"""What the router's process does first, and which queries it does not begin with any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.router.base import Query
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import MAX_TOKENS, Vectors
from proxy.router.frames import told_query, told_server
from proxy.router.sentences import passages
from proxy.router.worker import REST, Inbox, Voice, Worker
from tests.fixtures import routed
from tests.fixtures.router_worker import WordEncoder

COST_S = 0.05
BUDGET_S = 0.12
END = {"kind": "end"}
"""No message that a worker knows: it stops there."""


class Clocked(WordEncoder):
    """Time passes only while it encodes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.rests: list[float] = []

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)

    def encode(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Vectors:
        self.now += COST_S * len(texts)
        return super().encode(texts, max_tokens)


class Heard(Voice):
    """What a worker says; `on_ready` is called when it can answer."""

    def __init__(self, on_ready: Callable[[], None]) -> None:
        super().__init__(-1)
        self.said: list[tuple[str, Any]] = []
        self._on_ready = on_ready

    def say(self, kind: str, **more: Any) -> None:
        self.said.append((kind, more.get("id")))
        if kind == "ready":
            self._on_ready()


def heard(then: Callable[[Inbox, float], None]) -> list[tuple[str, Any]]:
    """What a worker says to what `then` puts into its inbox, at that time, when it is ready."""
    return of_clocked(Clocked(), then)


def of_clocked(encoder: Clocked, then: Callable[[Inbox, float], None]) -> list[tuple[str, Any]]:
    inbox = Inbox()
    tell(inbox)
    voice = Heard(lambda: then(inbox, encoder.now))
    with pytest.raises(ValueError, match="'end'"):
        Worker(encoder, EmbeddingCache(None), voice, lambda: encoder.now, sleep=encoder.rest).run(inbox)
    return voice.said[1:]


def tell(inbox: Inbox) -> None:
    """Of the catalogue."""
    known, keys = routed.catalog(), list[str]()
    for server in known.servers:
        keys.append(server.written)
        inbox.put({"kind": "server", "key": server.written, "server": told_server(server)})
    inbox.put({"kind": "catalog", "hash": known.hash, "servers": keys, "keep": [known.hash]})


def query(number: int, until: float, kind: str = "query") -> dict[str, Any]:
    told = {"query": told_query(Query(f"find music {number}")), "limit": 5, "catalog": routed.catalog().hash}
    return {"kind": kind, "id": number, "adapter": None, "until": until, "budget_s": BUDGET_S, **told}


def test_queries_come_first_and_shadows_last() -> None:
    def then(inbox: Inbox, now: float) -> None:
        inbox.put(query(1, now + 60, "shadow"))
        inbox.put({"kind": "ping"})
        inbox.put(query(2, now + 60))
        inbox.put(query(3, now + 60))

    inbox = Inbox()
    then(inbox, 0.0)
    taken = [inbox.take(wait=False) for _ in range(5)]
    assert [message and (message["kind"], message.get("id")) for message in taken] == [
        ("query", 2),
        ("query", 3),
        ("ping", None),
        ("shadow", 1),
        None,
    ]


def test_of_more_queries_than_it_can_answer_in_time_some_are_answered_in_time() -> None:
    def then(inbox: Inbox, now: float) -> None:
        for number in range(6):
            inbox.put(query(number, now + BUDGET_S))
        inbox.put(END)

    assert heard(then) == [("answer", 0), ("answer", 1), *(("no_answer", number) for number in range(2, 6))]


def test_after_slow_queries_it_does_not_give_up_on_the_next() -> None:
    """However long the last one took: one that has most of its budget left is tried."""

    long = "Find the music that was played there. Then share all of it with the others. " * 20
    cost_s = COST_S * len(passages(long))
    assert cost_s > 2 * BUDGET_S

    def then(inbox: Inbox, now: float) -> None:
        inbox.put({**query(0, now + 60), "query": told_query(Query(long))})
        inbox.put(query(1, now + cost_s + BUDGET_S))
        inbox.put(END)

    assert heard(then) == [("answer", 0), ("answer", 1)]


def test_a_query_of_a_catalogue_that_it_does_not_have_is_not_answered() -> None:
    def then(inbox: Inbox, now: float) -> None:
        inbox.put({**query(0, now + 60), "catalog": "another"})
        inbox.put({**query(1, now + 60), "adapter": "/another"})
        inbox.put(END)

    assert heard(then) == [("no_answer", 0), ("no_answer", 1)]


def test_where_queries_never_pause_what_is_new_is_loaded_and_made_ready_all_the_same(tmp_path: Path) -> None:
    adapter = routed.head(tmp_path / "head", 1)
    said: list[str] = []
    encoder, inbox = Clocked(), Inbox()

    class Pressing(Voice):
        """Whoever is answered asks again at once, with the adapter as soon as that is ready."""

        def __init__(self) -> None:
            super().__init__(-1)
            self.folder: str | None = None

        def say(self, kind: str, **more: Any) -> None:
            said.append(kind)
            if kind == "ready":
                self.folder = more["adapter"]
            if kind == "ready" and self.folder is None:
                inbox.put({"kind": "load", "adapter": str(adapter.folder), "load": 1})
                for number in range(4):
                    inbox.put(query(number, encoder.now + 1_000))
            elif kind == "answer" and len(said) < 400:
                inbox.put({**query(len(said), encoder.now + 1_000), "adapter": self.folder})
            elif kind == "answer":
                inbox.put(END)

    tell(inbox)
    with pytest.raises(ValueError, match="'end'"):
        Worker(encoder, EmbeddingCache(None), Pressing(), lambda: encoder.now, sleep=encoder.rest).run(inbox)
    assert "loaded" in said[:100]
    assert said.count("ready") == 2
    assert said[-200:].count("answer") == 200


def test_while_queries_wait_it_rests_between_them() -> None:
    encoder = Clocked()

    def then(inbox: Inbox, now: float) -> None:
        for number in range(3):
            inbox.put(query(number, now + 60))
        inbox.put({"kind": "ping"})
        inbox.put(END)

    assert of_clocked(encoder, then) == [*(("answer", number) for number in range(3)), ("pong", None)]
    # Not behind the last one, nor behind what is no query.
    assert encoder.rests == [pytest.approx(REST * COST_S)] * 2


def test_what_came_first_is_taken_first_where_nothing_may_overtake() -> None:
    inbox = Inbox()
    for message in (query(1, 0.0), {"kind": "drop"}, query(2, 0.0), query(3, 0.0, "shadow")):
        inbox.put(message)
    taken = [inbox.take(wait=False, in_turn=True) for _ in range(5)]
    assert [message and message.get("id", message["kind"]) for message in taken] == [1, "drop", 2, 3, None]
