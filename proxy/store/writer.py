"""The process that writes the log of one gateway: `python -m proxy.store.writer STREAM`.

Above: feeding.py starts it. Below: intake.py in a thread makes durable what comes, shipping.py and adopting.py bring it
into the database. On its standard input it reads one line of settings, which holds secrets, then records, until the
gateway closes it or dies; on its standard output it says how far it is. It holds its stream's lock for the gateway.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError
from proxy.store.intake import Intake
from proxy.store.journal import Journal, Position
from proxy.store.redaction import Redactor
from proxy.store.rows import Rows
from proxy.store.streams import StreamFolder
from proxy.store.tokens import Tokens

logger = logging.getLogger("toolatlas.log")

RETRY_S = (0.2, 5.0)
"""Pause before the database is tried again: at first, and at most."""
GATHER_S = 0.2
SMALL_BYTES = 256 << 10
"""Of the journal; when more waits, there is no time to lose."""
IDLE_S = 0.5
"""After so long without records, the journal's file is removed when all of it is in the tables."""
ADOPT_S = 10.0
"""Between two looks for streams that others left."""
RECURSION = 10_000
"""JSON may be nested deeper than Python's functions usually."""
STACK_BYTES = 256 << 20


class Voice:
    """Lines to the gateway. Once that is gone, nobody hears them."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._mutex = threading.Lock()

    def say(self, what: dict[str, Any]) -> None:
        line = memoryview(json.dumps(what).encode() + b"\n")
        with self._mutex:
            try:
                while line:
                    line = line[os.write(self._output, line) :]
            except OSError:
                return


class Warnings(logging.Handler):
    """Warnings appear in the gateway's log."""

    def __init__(self, voice: Voice) -> None:
        super().__init__(logging.WARNING)
        self._voice = voice

    def emit(self, record: logging.LogRecord) -> None:
        self._voice.say({"warning": record.getMessage()})


class Writer:
    """One stream's way into the database."""

    def __init__(self, settings: dict[str, Any], voice: Voice) -> None:
        self._settings = settings
        self._voice = voice
        self._folder = StreamFolder(Path(settings["folder"]), settings["lock"])
        self._counters = self._folder.counters()
        self._journal = Journal(self._folder.path)
        self._intake = Intake(
            0,
            Rows(Redactor(bytes.fromhex(settings["key"]), tuple(settings["patterns"])), Tokens()),
            self._journal,
            self._counters,
            limit_bytes=settings["journal_bytes"],
            patience_s=settings["drain_s"],
            told=self._told,
        )
        self._intake.marks.append((self._journal.durable, 0))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._shipped: int | None = None
        self._shipped_seq = 0
        self._problem: str | None = None

    def run(self) -> None:
        """Returns when the gateway is gone and all is in the tables; ends the process when that takes too long."""
        threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(RECURSION)
        # Before anything large is imported: what comes first is durable at once, too.
        threading.Thread(target=self._take, daemon=True).start()
        asyncio.run(self._ship())

    def _take(self) -> None:
        try:
            self._intake.run()
        except BaseException:
            # A process that takes nothing any more is worth less than the next one.
            traceback.print_exc()
            os._exit(1)

    async def _ship(self) -> None:
        from proxy.store.database import Database
        from proxy.store.inserting import Inserter
        from proxy.store.shipping import Shipper

        self._loop = asyncio.get_running_loop()
        self._heard()
        database = Database(self._settings["database_url"])
        shipper = Shipper(self._journal, Inserter(database, self._folder.id, self._folder.about()))
        await self._persist(lambda: self._prepare(database), database.shown)
        adopting = asyncio.create_task(self._adopt(database))
        while True:
            ended = self._intake.ended
            self._news.clear()
            some = await self._persist(shipper.ship, database.shown)
            self._moved(shipper.place, shipper.last_seq)
            if some:
                if self._journal.waiting_bytes < SMALL_BYTES:
                    await self._gather()
                continue
            if ended:
                break
            if not await self._waited(IDLE_S):
                if shipper.place is not None:
                    self._journal.discard(shipper.place, idle=True)
                await self._news.wait()
                await self._gather()
        adopting.cancel()
        with suppress(asyncio.CancelledError):
            await adopting
        if self._intake.complete and self._counters.acknowledged == self._counters.assigned:
            self._folder.remove()
        await database.close()

    async def _prepare(self, database: Any) -> bool:
        from proxy.store.migrating import HEAD, migrate, revision

        url = self._settings["database_url"]
        if database.sqlite:
            await migrate(url)
        elif (found := await revision(url)) != HEAD:
            raise ConfigurationError(
                f"the database's tables are at revision {found}, and {HEAD} is needed: run `toolatlas migrate`"
            )
        return True

    async def _persist(self, work: Callable[[], Any], shown: str) -> bool:
        """What `work` answers, once the database can do it."""
        pause_s = RETRY_S[0]
        while True:
            try:
                done = await work()
            except Exception as error:
                reason = str(error) if isinstance(error, ConfigurationError) else type(error).__name__
                self._trouble(f"the log cannot be brought into {shown} now ({reason}); it is kept on disk until then")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S[1])
            else:
                self._trouble(None)
                return done

    async def _adopt(self, database: Any) -> None:
        from proxy.store.adopting import adopt_all

        said = None
        while True:
            try:
                await adopt_all(self._folder.path.parent, database, lambda: asyncio.sleep(0))
            except Exception as error:
                if (reason := type(error).__name__) != said:
                    said = reason
                    logger.warning("what other gateways left in the log's folder cannot be taken over now: %s", reason)
            await asyncio.sleep(ADOPT_S)

    async def _gather(self) -> None:
        """Let some more come before the next transaction, which costs the same for one step and for fifty."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GATHER_S
        while not self._intake.ended and (left := deadline - loop.time()) > 0:
            self._news.clear()
            await self._waited(left)

    async def _waited(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _moved(self, place: Position | None, seq: int) -> None:
        marks = self._intake.marks
        before = self._shipped, self._shipped_seq
        while marks and place is not None and marks[0][0] <= place:
            self._shipped = marks.popleft()[1]
        self._shipped_seq = seq
        if before != (self._shipped, seq):
            self._report()

    def _trouble(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
            self._report()

    def _told(self) -> None:
        """The intake's thread has news."""
        self._report()
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._news.set()
        if self._intake.ended:
            # What a kill would do: all that is not in the tables is in the journal.
            asyncio.get_running_loop().call_later(self._settings["drain_s"], os._exit, 0)

    def _report(self) -> None:
        self._voice.say(
            {
                "taken": self._intake.taken,
                "shipped": self._shipped,
                "shipped_seq": self._shipped_seq,
                "waiting_bytes": self._journal.waiting_bytes,
                "problem": self._intake.problem or self._problem,
            }
        )


def read_settings(source: int) -> dict[str, Any]:
    """The first line, and not a byte more."""
    line = bytearray()
    while (byte := os.read(source, 1)) not in (b"", b"\n"):
        line += byte
    return json.loads(line)


def main() -> None:
    # The end of its input is what ends it, after all that came was written.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    voice = Voice(os.dup(1))
    logging.basicConfig(handlers=[Warnings(voice)], level=logging.INFO)
    Writer(read_settings(0), voice).run()


if __name__ == "__main__":
    main()
