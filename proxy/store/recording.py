"""Keeps every step in the log without ever holding up the call: the recorder of a gateway process.

Above: app.py makes it, endpoint/ and metatools/ hand it their steps. Below: records.py makes lines of them, outbox.py
holds these, feeding.py brings them to the writer, a process of its own, which makes them durable (writer.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from proxy.store.database import Database
from proxy.store.feeding import Feeder
from proxy.store.outbox import Outbox
from proxy.store.recorder import Ending, Level, ShadowDecision, Step
from proxy.store.records import ending_record, shadow_record, step_record
from proxy.store.redaction import Redactor
from proxy.store.snapshots import CatalogView, records_of
from proxy.store.streams import Counters, StreamFolder

logger = logging.getLogger("toolatlas.log")

QUEUE_BYTES = 64 << 20
"""Memory for what the writer has not made durable yet. It takes all at once unless it is stopped or its disk full."""
JOURNAL_BYTES = 1 << 30
"""Disk for what the database has not taken yet."""
DRAIN_S = 5.0
"""How long all is tried to be brought into the database when the gateway ends. The next start ships what is left."""
END_S = 1.5
"""How much longer than that its process may take."""
ASIDE_BYTES = 1 << 20
"""Of definitions in memory; the next are encoded when these are gone."""
CATALOGUES = 1_000
"""Hashes that are remembered as sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How far the log is. Numbers of steps, from the beginning of this gateway process."""

    assigned: int
    """The highest number given to a step."""
    acknowledged: int
    """It and all before are durable, or known to be missing."""
    shipped: int
    """It and all before are in the tables."""
    dropped: int
    """There was no room for them."""
    waiting_bytes: int
    """In memory and in the journal, on their way into the tables."""
    problem: str | None
    """What is wrong now."""


class StoreRecorder:
    """Writes steps and endings of one gateway process into the log. Used on one event loop.

    Args:
        where: Folder of the journals; several gateways may share it.
        database_url: As `Database` takes it.
        replica: Name of this gateway among those with the same database.
        version: Of the product.
        key, patterns: As `Redactor` takes them.
        catalogue: The catalogue with a hash, or None where it is not known any more.

    Raises:
        ConfigurationError: The URL or a pattern cannot be used.
    """

    def __init__(
        self,
        where: Path,
        database_url: str,
        *,
        replica: str,
        version: str,
        key: bytes,
        patterns: tuple[str, ...],
        catalogue: Callable[[str], CatalogView | None],
        queue_bytes: int = QUEUE_BYTES,
        journal_bytes: int = JOURNAL_BYTES,
        drain_s: float = DRAIN_S,
    ) -> None:
        # The writer would find out too, but nobody would see it.
        Database(database_url)
        Redactor(key, patterns)
        self._where = where.expanduser().absolute()
        self._replica = replica
        self._version = version
        self._catalogue = catalogue
        self._drain_s = drain_s
        self._settings = {
            "database_url": database_url,
            "key": key.hex(),
            "patterns": patterns,
            "journal_bytes": journal_bytes,
            "drain_s": drain_s,
        }
        self._outbox = Outbox(queue_bytes)
        self._feeder: Feeder | None = None
        self._counters: Counters | None = None
        self._assigned = 0
        self._catalogues: dict[str, None] = {}
        self._definitions: set[str] = set()
        self._snapshots: deque[str] = deque()
        self._snapshots_wanted = anyio.Event()
        self._held: list[bytes] = []
        self._stream: str | None = None

    @property
    def stream(self) -> str | None:
        """Name of the stream that is written now."""
        return self._stream

    @property
    def writer_pid(self) -> int | None:
        return self._feeder.pid if self._feeder is not None else None

    @property
    def counts(self) -> Counts:
        progress = self._feeder.progress if self._feeder is not None else None
        return Counts(
            assigned=self._assigned,
            acknowledged=self._counters.acknowledged if self._counters is not None else 0,
            shipped=progress.shipped_seq if progress is not None else 0,
            dropped=self._outbox.dropped,
            waiting_bytes=self._outbox.waiting_bytes + (progress.waiting_bytes if progress is not None else 0),
            problem=progress.problem if progress is not None else "the log is not being written",
        )

    def record(self, step: Step) -> None:
        """Returns at once and never raises. What is recorded outside of `running` is lost, and that is logged."""
        if step.level is Level.OFF:
            return
        if self._feeder is None or self._counters is None:
            logger.error("step %s came when the log was not open, and is not in it", step.id)
            return
        self._assigned = self._counters.assigned = seq = self._assigned + 1
        try:
            self._outbox.put_step(step_record(step, seq), seq)
            self._feeder.wake()
            if step.catalog not in self._catalogues:
                self._want_snapshot(step.catalog)
        except Exception:
            # Serving goes on whatever happens here.
            self._outbox.leave_out(seq)
            logger.exception("step %s cannot be written", step.id)

    def end(self, ending: Ending) -> None:
        """Returns at once and never raises."""
        if ending.level is Level.OFF or self._feeder is None:
            return
        try:
            line = ending_record(ending)
        except Exception:
            logger.exception("the end of episode %s cannot be written", ending.episode.id)
            return
        if self._snapshots:
            # Its sums need the catalogue.
            self._held.append(line)
        else:
            self._outbox.put(line)
            self._feeder.wake()

    def shadow(self, shadow: ShadowDecision) -> None:
        """Returns at once and never raises. Its step was recorded before."""
        if self._feeder is None:
            return
        try:
            self._outbox.put(shadow_record(shadow))
            self._feeder.wake()
        except Exception:
            logger.exception("the shadow's ranking for step %s cannot be written", shadow.step_id)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """The log is open within; at the end, what was recorded is durable, and in the tables if these can be had.

        Raises:
            ConfigurationError: The folder cannot be used.
        """
        folder = StreamFolder.create(self._where, replica=self._replica, version=self._version)
        self._counters = folder.counters()
        self._stream = folder.id
        settings = self._settings | {"folder": str(folder.path), "lock": folder.lock}
        feeder = self._feeder = Feeder(self._outbox, folder, settings, end_s=self._drain_s + END_S)
        # No cancellation from outside ends the work: what was recorded last is still to be written.
        work = anyio.CancelScope(shield=True)
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._work, work, feeder)
                try:
                    yield
                except Exception as error:
                    # It is raised below: here it would become a group of one.
                    failure = error
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._finish(feeder)
                    work.cancel()
        finally:
            self._close(folder)
        if failure is not None:
            raise failure

    async def flushed(self, within_s: float) -> bool:
        """Wait until everything recorded so far is in the tables; whether it is."""
        feeder = self._feeder
        if feeder is None:
            return False
        with anyio.move_on_after(within_s):
            while self._snapshots:
                await feeder.changed()
            outbox, put = self._outbox, self._outbox.put_total
            while outbox.put_total - outbox.queued < put or outbox.aside_bytes:
                await feeder.changed()
            sent = outbox.sent_total
            while feeder.progress.shipped < sent:
                await feeder.changed()
            return True
        return False

    def _want_snapshot(self, catalogue: str) -> None:
        self._catalogues[catalogue] = None
        if len(self._catalogues) > CATALOGUES:
            del self._catalogues[next(iter(self._catalogues))]
        self._snapshots.append(catalogue)
        self._snapshots_wanted.set()

    async def _work(self, scope: anyio.CancelScope, feeder: Feeder) -> None:
        with scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(feeder.run)
                tasks.start_soon(self._send_snapshots, feeder)

    async def _send_snapshots(self, feeder: Feeder) -> None:
        while True:
            await self._snapshots_wanted.wait()
            self._snapshots_wanted = anyio.Event()
            while self._snapshots:
                try:
                    await self._send_snapshot(self._snapshots[0], feeder)
                except Exception:
                    logger.exception("catalogue %s cannot be written", self._snapshots[0])
                self._snapshots.popleft()
            for line in self._held:
                self._outbox.put(line)
            self._held.clear()
            feeder.wake()
            feeder.announce()

    async def _send_snapshot(self, catalogue: str, feeder: Feeder) -> None:
        if (view := self._catalogue(catalogue)) is None:
            return
        async for line in records_of(view, self._definitions):
            while self._outbox.aside_bytes > ASIDE_BYTES:
                await feeder.changed()
            self._outbox.put_aside(line)
            feeder.wake()

    async def _finish(self, feeder: Feeder) -> None:
        with anyio.move_on_after(END_S):
            while self._snapshots or self._held:
                await feeder.changed()
        for line in self._held:
            self._outbox.put(line)
        self._outbox.close()
        feeder.close()
        with anyio.move_on_after(self._drain_s + 2 * END_S):
            await feeder.ended.wait()

    def _close(self, folder: StreamFolder) -> None:
        counts = self.counts
        if counts.acknowledged < counts.assigned:
            logger.error("steps %d to %d of %s are not in the log", counts.acknowledged + 1, counts.assigned, folder.id)
        assert self._counters is not None
        self._counters.close()
        self._counters = self._feeder = None
        folder.close()
