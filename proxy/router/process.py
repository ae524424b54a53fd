"""The gateway's side of the router's process: started, asked, watched, and started again when it ends or hangs.

Above: serving.py, which has an answer of its own for whenever this one has none. Below: child.py, launching.py
and frames.py. Nothing here waits for the process longer than it was told to: what is known to take longer
is said at once.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from proxy.catalog.catalog import Catalog
from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError
from proxy.router.base import Query, Ranking
from proxy.router.child import Child
from proxy.router.frames import frame, ranked_of, told_query, told_server
from proxy.router.launching import launch
from proxy.router.unanswered import NoAnswer, Why

logger = logging.getLogger("toolatlas.router")

CATALOGS = 2
"""The newest ones are kept ready: searches of the one before may still be on their way."""
MAX_WAITING = 64
"""Queries at the process at once; many more than it answers within any budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    ping_s: float = 2.0
    mute_s: float = 1.0
    """After so long without a word it is not waited for."""
    hang_s: float = 10.0
    """After so long without a word it is killed."""
    build_s: float = 180.0
    """The same while it starts or builds: loading a model and indexing words are long single pieces."""
    restart_s: tuple[float, float] = (0.1, 60.0)
    """Pause before it is started again: at first, and at most."""
    steady_s: float = 60.0
    """A process that lived so long has not failed at starting."""
    load_s: float = 900.0
    """For an adapter that needs all tools embedded anew."""


@dataclass(slots=True, kw_only=True)
class Health:
    """What is told of the process to people and metrics."""

    pid: int | None = None
    ready: bool = False
    """It can answer queries of the newest catalogue."""
    starts: int = 0
    problem: str | None = None


@dataclass(slots=True)
class _Wish:
    """What every run of the program is told first."""

    catalogs: dict[str, Catalog] = field(default_factory=dict[str, Catalog])
    """By hash; oldest first."""
    adapters: dict[str, int] = field(default_factory=dict[str, int])
    """Folder -> number of the request to load it: what is said of an earlier one, dropped since, does not count."""


class RouterProcess:
    """Use inside `async with process.running()`. All on one event loop."""

    def __init__(
        self, command: Sequence[str], timing: Timing | None = None, first: subprocess.Popen[bytes] | None = None
    ) -> None:
        """`command`: of the program, `worker_command` as a rule; `first`: it runs already, and is used before any other
        is started."""
        self._command = tuple(command)
        self._first = first
        self._timing = timing or Timing()
        self._wish = _Wish()
        self._child: Child | None = None
        self._numbers = count()
        self._starts = 0
        self._problem: str | None = None
        self._news = asyncio.Event()
        """There is a catalogue to tell."""
        self._changed = asyncio.Event()

    @property
    def health(self) -> Health:
        child, newest = self._child, next(reversed(self._wish.catalogs), None)
        ready = child is not None and (newest, None) in child.ready
        return Health(pid=child and child.pid, ready=ready, starts=self._starts, problem=self._problem)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._supervise)
            yield
            tasks.cancel_scope.cancel()

    def offer(self, catalog: Catalog) -> None:
        """Have the process made ready for a catalogue; older ones but one go."""
        self._wish.catalogs.pop(catalog.hash, None)
        self._wish.catalogs[catalog.hash] = catalog
        while len(self._wish.catalogs) > CATALOGS:
            del self._wish.catalogs[next(iter(self._wish.catalogs))]
        self._news.set()

    async def ask(self, catalog: str, query: Query, limit: int, adapter: Path | None, budget_s: float) -> Ranking:
        """`catalog`: its hash. `adapter`: its folder, which `load` was called with.

        Raises:
            NoAnswer: There is none within the budget, which is known at once in most cases.
        """
        return await self._ask("query", catalog, query, limit, adapter, budget_s)

    async def ask_later(self, catalog: str, query: Query, limit: int, adapter: Path, budget_s: float) -> Ranking:
        """As `ask` does, when the process has no queries that somebody waits for."""
        return await self._ask("shadow", catalog, query, limit, adapter, budget_s)

    def want(self, adapter: Path) -> None:
        """Have an adapter loaded, now and whenever the process is started again."""
        folder = str(adapter)
        if folder not in self._wish.adapters:
            number = self._wish.adapters[folder] = next(self._numbers)
            if self._child is not None:
                self._child.say({"kind": "load", "adapter": folder, "load": number})

    async def load(self, adapter: Path) -> str:
        """Its hash, once queries of the newest catalogue can be answered with it.

        Raises:
            ConfigurationError: It cannot be loaded, or is not in time.
        """
        self.want(adapter)
        folder = str(adapter)
        with anyio.move_on_after(self._timing.load_s):
            while True:
                child, newest = self._child, next(reversed(self._wish.catalogs), None)
                if child is not None:
                    if (reason := child.refused.get(folder)) is not None:
                        raise ConfigurationError(reason)
                    if folder in child.loaded and (newest is None or (newest, folder) in child.ready):
                        return child.loaded[folder]
                elif self._problem is not None:
                    raise ConfigurationError(f"{adapter} cannot be loaded: {self._problem}")
                await self._changed.wait()
        raise ConfigurationError(f"{adapter} was not loaded within {self._timing.load_s:.0f} s")

    def drop(self, adapter: Path) -> None:
        """Queries asked before are answered with it still."""
        folder = str(adapter)
        self._wish.adapters.pop(folder, None)
        if (child := self._child) is not None:
            child.loaded.pop(folder, None)
            child.refused.pop(folder, None)
            child.ready = {pair for pair in child.ready if pair[1] != folder}
            child.say({"kind": "drop", "adapter": folder})

    async def _ask(
        self, kind: str, catalog: str, query: Query, limit: int, adapter: Path | None, budget_s: float
    ) -> Ranking:
        child, folder = self._child, None if adapter is None else str(adapter)
        if child is None:
            raise NoAnswer(Why.DOWN)
        if (why := self._why_not(child, catalog, folder)) is not None:
            raise NoAnswer(why)
        number = next(self._numbers)
        child.asked[number] = None if folder is None else child.loaded[folder]
        future = child.waiting[number] = asyncio.get_running_loop().create_future()
        child.say(
            {
                "kind": kind,
                "id": number,
                "catalog": catalog,
                "adapter": folder,
                "query": told_query(query),
                "limit": limit,
                # The clock is the machine's own, the same for all processes.
                "until": time.monotonic() + budget_s,
                "budget_s": budget_s,
            }
        )
        try:
            # Of an answer and the end of the budget that come together, the answer counts.
            await asyncio.wait((future,), timeout=budget_s)
            answer = future.result() if future.done() else Why.LATE
        finally:
            del child.waiting[number], child.asked[number]
        if isinstance(answer, Why):
            raise NoAnswer(answer)
        return answer

    def _why_not(self, child: Child, catalog: str, adapter: str | None) -> Why | None:
        """What speaks against asking now."""
        if child.ended.is_set():
            return Why.DOWN
        if not child.greeted:
            return Why.STARTING
        if (catalog, None) not in child.ready:
            return Why.EMBEDDING
        if adapter is not None and (catalog, adapter) not in child.ready:
            return Why.UNADAPTED
        if child.mute_s > self._timing.mute_s:
            return Why.LATE
        return Why.BUSY if len(child.waiting) >= MAX_WAITING else None

    async def _supervise(self) -> None:
        pause_s, longest_s = self._timing.restart_s
        while True:
            child = Child(self._heard)
            try:
                await self._start(child)
                await self._watch(child)
            except OSError as error:
                self._say(f"the router's process cannot be started: {error.strerror}")
            finally:
                self._child = None
                with anyio.CancelScope(shield=True):
                    await child.end()
                self._announce()
            if time.monotonic() - child.started > self._timing.steady_s:
                pause_s = self._timing.restart_s[0]
            if self._problem is not None:
                # It said itself why it cannot be used; that rarely changes soon.
                pause_s = longest_s
            else:
                logger.warning(
                    "the router's process ended (%s); searches go by words alone until it is started again, in %.1f s",
                    _ending(child.exit_code),
                    pause_s,
                )
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def _start(self, child: Child) -> None:
        process, self._first = self._first or launch(self._command), None
        await child.attach(process)
        self._child = child
        self._starts += 1
        for folder, number in self._wish.adapters.items():
            child.say({"kind": "load", "adapter": folder, "load": number})
        self._news.set()

    async def _watch(self, child: Child) -> None:
        """Until it ends, by itself or because it hangs."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_catalogs, child)
            while not child.ended.is_set():
                settled = child.settled and self._wish.adapters.keys() <= {*child.loaded, *child.refused}
                limit_s = self._timing.hang_s if settled else self._timing.build_s
                if child.mute_s > limit_s:
                    logger.warning("the router's process has said nothing for %.0f s and is killed", child.mute_s)
                    child.kill()
                child.say({"kind": "ping"})
                with anyio.move_on_after(self._timing.ping_s):
                    await child.ended.wait()
            tasks.cancel_scope.cancel()

    async def _tell_catalogs(self, child: Child) -> None:
        while True:
            self._news.clear()
            for hashed, catalog in tuple(self._wish.catalogs.items()):
                if hashed not in child.catalogs:
                    await self._tell(child, hashed, catalog)
            await self._news.wait()

    async def _tell(self, child: Child, hashed: str, catalog: Catalog) -> None:
        frames = await anyio.to_thread.run_sync(_frames, catalog.servers)
        for key, content in frames.items():
            if key not in child.servers:
                child.say(content)
        kept = [*child.catalogs, hashed][-CATALOGS:]
        child.say({"kind": "catalog", "hash": hashed, "servers": list(frames), "keep": kept})
        child.catalogs = kept
        # Of the one before it keeps what it had; what is said again is no harm.
        child.servers = frozenset(frames)
        child.ready = {pair for pair in child.ready if pair[0] in kept}

    def _heard(self, child: Child, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "answer" | "no_answer":
                self._answered(child, message)
                return
            case "hello":
                child.greeted = True
                self._say(None)
            case "ready":
                pair = (message["catalog"], message["adapter"])
                if pair[0] in child.catalogs and (pair[1] is None or self._meant(message)):
                    child.ready.add(pair)
            case "loaded" if self._meant(message):
                child.loaded[message["adapter"]] = message["hash"]
            case "refused" if self._meant(message):
                logger.error("%s", message["reason"])
                child.refused[message["adapter"]] = message["reason"]
            case "unusable":
                self._say(message["reason"])
            case _:
                return
        self._announce()

    def _meant(self, message: Mapping[str, Any]) -> bool:
        """Whether it speaks of an adapter as it is wanted now."""
        return self._wish.adapters.get(message["adapter"]) == message["load"]

    def _answered(self, child: Child, message: dict[str, Any]) -> None:
        future = child.waiting.get(message["id"])
        if future is None or future.done():
            return
        if message["kind"] == "answer":
            adapter = child.asked[message["id"]]
            tools, servers = ranked_of(message["tools"]), tuple(message["servers"])
            future.set_result(Ranking(tools, message["policy"], adapter, message["degraded"], servers))
        else:
            future.set_result(Why.FAILING if message.get("failed") else Why.LATE)

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _say(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            logger.error("searches go by words alone: %s", problem)
        self._problem = problem


def _frames(servers: Sequence[ServerRecord]) -> dict[str, bytes]:
    """Key -> what is said of a server; each apart, so that other threads get their turns."""
    frames: dict[str, bytes] = {}
    for server in servers:
        if server.tools:
            told = told_server(server)
            key = sha256(frame(told)).hexdigest()
            frames[key] = frame({"kind": "server", "key": key, "server": told})
    return frames


def _ending(code: int | None) -> str:
    if code is None:
        return "it was not started"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
