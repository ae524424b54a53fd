"""The router's process: `python -m proxy.router.worker ENCODER CACHE PARENT [SECOND WITHIN_S]`.

Above: process.py starts it, and frames.py says how they talk. Below: fusion.py, reranking.py, encoder.py,
embeddings.py, adapters.py. It runs niced and on one thread, answers one query at a time, and between queries makes
ready what it was told of, piece by piece. It ends when the gateway does, however that ends.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind, load_adapter
from proxy.router.base import Query
from proxy.router.documents import all_documents
from proxy.router.embeddings import EmbeddingCache, embed, missing
from proxy.router.encoder import Encoder, load_encoder, missing_package
from proxy.router.frames import Unframed, frame, query_of, server_of, told_ranked
from proxy.router.fusion import FusedRouter
from proxy.router.launching import API_KEY
from proxy.router.reranking import Answering, NoSecond, Second, second_of

logger = logging.getLogger("toolatlas.router")

NICENESS = 10
PIECE, FIRST_PIECE = 1, 16
"""Texts embedded between two looks for queries, and while there is no router yet that could answer any."""
PATIENCE_S = 0.1
"""So long, while queries wait, nothing else is done; then one thing is, if there is any."""
REST = 0.5
"""Of the time that a query took, so much is rested while others wait: with less the rest of the machine would feel a
queue of searches, with more a queue would take longer than it has time."""
RECENT = 0.2
"""How much the last query counts for what is usual."""
SERVERS = 10
"""Told of an answer."""
READ_BYTES = 1 << 20
_PDEATHSIG = 1
_URGENCY = {"query": 0, "shadow": 2}
"""Of messages; all others stand between the two. What is equally urgent is taken in the order it came."""


class Inbox:
    """Messages of the gateway, queries first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: tuple[deque[tuple[int, dict[str, Any]]], ...] = (deque(), deque(), deque())
        """By urgency, with their numbers."""
        self._numbers = count()

    @property
    def behind(self) -> bool:
        """Something waits that is less urgent than queries, but no shadow."""
        return bool(self._waiting[1])

    @property
    def queries(self) -> bool:
        """One waits for its answer."""
        return bool(self._waiting[0])

    def put(self, message: dict[str, Any]) -> None:
        with self._changed:
            self._waiting[_URGENCY.get(message["kind"], 1)].append((next(self._numbers), message))
            self._changed.notify()

    def take(self, *, wait: bool, in_turn: bool = False) -> dict[str, Any] | None:
        """The next one; with `in_turn` what came first, shadows left aside: nothing overtakes what was asked before."""
        with self._changed:
            while not any(self._waiting):
                if not wait:
                    return None
                self._changed.wait()
            filled = [each for each in self._waiting if each]
            first = min(filled[:2], key=lambda each: each[0][0]) if in_turn else filled[0]
            return first.popleft()[1]


class Voice:
    """Messages to the gateway. Once that is gone, nobody hears them."""

    def __init__(self, output: int) -> None:
        self._output = output

    def say(self, kind: str, **more: Any) -> None:
        content = memoryview(frame({"kind": kind, **more}))
        try:
            while content:
                content = content[os.write(self._output, content) :]
        except OSError:
            return


Pair = tuple[str, str | None]
"""A catalogue's hash and an adapter's folder: one router each."""


class Worker:
    """Keeps routers for pairs of a catalogue and an adapter, and answers with them."""

    def __init__(
        self,
        encoder: Encoder,
        cache: EmbeddingCache,
        voice: Voice,
        clock: Callable[[], float] = time.monotonic,
        second: Second | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock`: the one by which queries say how long they may take; `second`: what reorders, if anything does."""
        self._encoder = encoder
        self._cache = cache
        self._voice = voice
        self._clock = clock
        self._sleep = sleep
        self._second = second or NoSecond()
        self._servers: dict[str, ServerRecord] = {}
        self._catalogs: dict[str, tuple[str, ...]] = {}
        """Hash -> keys of its servers; oldest first."""
        self._adapters: dict[str, Adapter] = {}
        self._loads: dict[str, int] = {}
        """By folder, the number of the request that it was loaded for: what is said of it is said of that request."""
        self._routers: dict[Pair, Answering] = {}
        self._usual_s = 0.0
        """What a query took of late."""
        self._building: tuple[Pair, Generator[None, None, Answering]] | None = None

    def run(self, inbox: Inbox) -> None:
        """For ever."""
        other_at = self._clock()
        while True:
            wanted = self._wanted() is not None
            # Where queries come without a pause, nothing new would ever be loaded or made ready.
            starved = self._clock() - other_at > PATIENCE_S
            if starved and wanted and not inbox.behind:
                message = None
            else:
                message = inbox.take(wait=not wanted, in_turn=starved and inbox.behind)
            if message is not None:
                began = self._clock()
                self._take(message)
                if message["kind"] in _URGENCY and inbox.queries:
                    self._sleep(REST * (self._clock() - began))
            # With a message in its turn goes a piece: pings come often enough to take all turns.
            due = message is None or (starved and message["kind"] != "query")
            if due and self._wanted() is not None:
                self._build_on()
                other_at = self._clock()
            elif not wanted and not inbox.behind:
                other_at = self._clock()

    def _take(self, message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "query" | "shadow":
                self._answer(message)
            case "ping":
                self._voice.say("pong")
            case "server":
                self._servers[message["key"]] = server_of(message["server"])
            case "catalog":
                self._catalogs[message["hash"]] = tuple(message["servers"])
                self._keep(message["keep"])
            case "load":
                self._load(message["adapter"], message["load"])
            case "drop":
                self._drop(message["adapter"])
            case kind:
                raise ValueError(f"the gateway says {kind!r}, which this process does not know")

    def _answer(self, message: Mapping[str, Any]) -> None:
        number, began = message["id"], self._clock()
        router = self._routers.get((message["catalog"], message["adapter"]))
        # In a queue of queries that are all nearly too old, one after the other would be answered just too late.
        needed_s = min(self._usual_s, message["budget_s"] / 2)
        if router is None or began + needed_s > message["until"]:
            self._voice.say("no_answer", id=number)
            return
        query: Query = query_of(message["query"])
        try:
            ranking = router.answer(query, message["limit"])
            servers = router.base.rank_servers(query, len(self._servers))
        except Exception:
            # One query that a router cannot take must not take the process from all others.
            logger.exception("the router failed")
            self._voice.say("no_answer", id=number, failed=True)
            return
        took_s = self._clock() - began
        self._usual_s += (RECENT if self._usual_s else 1) * (took_s - self._usual_s)
        within = [server for server in servers if query.servers is None or server in query.servers]
        told = {"tools": told_ranked(ranking.tools), "servers": within[:SERVERS], "policy": ranking.policy}
        self._voice.say("answer", id=number, degraded=ranking.degraded, **told)

    def _load(self, folder: str, number: int) -> None:
        if folder not in self._adapters:
            try:
                adapter = load_adapter(Path(folder))
                if adapter.kind is Kind.SCORER:
                    self._second.attach(adapter)
                else:
                    adapter.encoder(self._encoder)
            except ConfigurationError as error:
                self._voice.say("refused", adapter=folder, load=number, reason=str(error))
                return
            self._adapters[folder] = adapter
        self._loads[folder] = number
        self._voice.say("loaded", adapter=folder, load=number, hash=self._adapters[folder].hash)

    def _drop(self, folder: str) -> None:
        adapter = self._adapters.pop(folder, None)
        self._loads.pop(folder, None)
        if self._building is not None and self._building[0][1] == folder:
            self._building = None
        self._forget_routers()
        # The same may lie in two folders.
        if adapter is not None and all(adapter.hash != each.hash for each in self._adapters.values()):
            self._second.detach(adapter)

    def _keep(self, hashes: Iterable[str]) -> None:
        self._catalogs = {hashed: self._catalogs[hashed] for hashed in hashes if hashed in self._catalogs}
        used = {key for keys in self._catalogs.values() for key in keys}
        self._servers = {key: server for key, server in self._servers.items() if key in used}
        self._forget_routers()

    def _forget_routers(self) -> None:
        possible = set(self._pairs())
        self._routers = {pair: router for pair, router in self._routers.items() if pair in possible}

    def _pairs(self) -> list[Pair]:
        """Of the newest catalogue first, and the router without an adapter before all with one."""
        return [(hashed, adapter) for hashed in reversed(self._catalogs) for adapter in (None, *self._adapters)]

    def _wanted(self) -> Pair | None:
        return next((pair for pair in self._pairs() if pair not in self._routers), None)

    def _build_on(self) -> None:
        """One piece of what is wanted first."""
        pair = self._wanted()
        assert pair is not None
        if self._building is None or self._building[0] != pair:
            self._building = (pair, self._build(pair))
        try:
            next(self._building[1])
        except StopIteration as built:
            self._routers[pair] = built.value
            self._building = None
            load = None if pair[1] is None else self._loads[pair[1]]
            self._voice.say("ready", catalog=pair[0], adapter=pair[1], load=load)
            # What stays for long need not be looked through for garbage in the middle of a query.
            gc.collect()
            gc.freeze()

    def _build(self, pair: Pair) -> Generator[None, None, Answering]:
        hashed, folder = pair
        servers = [self._servers[key] for key in self._catalogs[hashed]]
        adapter = None if folder is None else self._adapters[folder]
        if adapter is not None and adapter.kind is Kind.SCORER:
            # What it reorders is what is found without an adapter, which was made before.
            return self._second.over(self._routers[hashed, None].base, servers, adapter)
        encoder = self._encoder if adapter is None else adapter.encoder(self._encoder)
        learned = None if adapter is None else adapter.servers
        texts = missing(encoder, self._cache, all_documents(servers, learned))
        yield
        while texts:
            size = PIECE if self._routers else FIRST_PIECE
            embed(encoder, self._cache, texts[:size])
            texts = texts[size:]
            yield
        return self._second.over(FusedRouter(servers, self._encoder, self._cache, adapter), servers, None)


def main(arguments: Sequence[str]) -> None:
    name, cache, parent, *second = arguments

    def load_second() -> Second:
        # In this environment only for this; what it starts is not to have it.
        key = os.environ.pop(API_KEY, None) or None
        return second_of(second[0], key, float(second[1])) if second else NoSecond()

    serve(lambda: _loaded(name), Path(cache), int(parent), load_second)


def serve(load: Callable[[], Encoder], cache: Path, parent: int, load_second: Callable[[], Second] = NoSecond) -> None:
    """Be the router's process of the gateway with the process id `parent`, on standard input and output.

    `load` makes the encoder, or raises ConfigurationError, and `load_second` what reorders; `cache` is the file of
    embeddings.
    """
    _end_with(parent)
    os.nice(NICENESS)
    # What libraries print must not come between messages.
    voice = Voice(os.dup(1))
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    inbox = Inbox()
    threading.Thread(target=_read, args=(inbox,), daemon=True).start()
    # Millions of objects that come with libraries and a model would be looked through again and again.
    gc.disable()
    try:
        encoder, second = load(), load_second()
        _give_way()
        voice.say("hello")
        gc.freeze()
        gc.enable()
        Worker(encoder, EmbeddingCache(cache), voice, second=second).run(inbox)
    except ConfigurationError as error:
        voice.say("unusable", reason=str(error))


def _loaded(name: str) -> Encoder:
    """Raises ConfigurationError where there is no such encoder, or a package is missing."""
    if (problem := missing_package(name)) is not None:
        raise ConfigurationError(problem)
    import torch
    import transformers.utils

    torch.set_num_threads(1)
    library: Any = transformers.utils
    # Losses for training what detects objects, which come with every model, import a large part of scipy.
    library.is_scipy_available = lambda: False
    encoder = load_encoder(name)
    # The first passes of each shape are slow.
    for length in (2, 20, 90):
        encoder.encode(["word " * length])
    return encoder


def _read(inbox: Inbox) -> None:
    unframed = Unframed()
    while content := os.read(0, READ_BYTES):
        for message in unframed.take(content):
            inbox.put(message)
    # In the middle of whatever it does: nobody is there to hear of it.
    os._exit(0)


def _give_way() -> None:
    """To all other sessions. Where Linux shares processor time among them first, niceness counts within one only, and
    this process has one to itself: sched(7), "The autogroup feature". Not before it is loaded: beside many that compute
    that would take minutes.
    """
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def _end_with(parent: int) -> None:
    """The end of the gateway closes our standard input; but a process that is stopped reads nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
