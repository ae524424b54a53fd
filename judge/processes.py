"""Lets workers run until they are done or told to stop: one in this process, or several in processes of their own.

Above: commands/run.py. Below: running.py. Processes help where code alone judges: it is bound by the processor. Each is
a worker like those on other machines and shares the log with them by claims, so there is nothing to hand out.

The first SIGINT or SIGTERM lets each worker finish the batch that it has begun; the second one breaks it off and gives
its episodes back.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any

import anyio

from judge.checks.library import library
from judge.claims import Wanted
from judge.judging import Judge
from judge.rubric import Rubric
from judge.running import Pace, Refused, Worker
from judge.settings import RewardSettings
from judge.tally import Tally
from proxy.errors import GatewayError
from proxy.store.database import Database

LOOK_S = 0.2
"""How often signals are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What processes are told to do; sent to them whole."""

    url: str
    """Of the log; it may hold a password, and goes through a pipe, never onto a command line."""
    reward: RewardSettings
    wanted: Wanted
    pace: Pace
    canaries: Rubric


async def until_told(worker: Worker, *signals: signal.Signals) -> bool:
    """Let `worker` run in this process; whether it was told to stop by one of `signals` before it was done.

    Raises:
        GatewayError: What the worker raises.
    """
    stop = anyio.Event()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        async def listen() -> None:
            with anyio.open_signal_receiver(*signals) as received:
                async for _ in received:
                    if stop.is_set():
                        tasks.cancel_scope.cancel()
                        return
                    stop.set()

        tasks.start_soon(listen)
        try:
            await worker.run(stop)
        except Exception as error:
            # Raised outside, for a task group would wrap it.
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return stop.is_set()


def run_processes(job: Job, count: int, told: Callable[[Tally], None]) -> bool:
    """Let `count` processes judge by checks alone; whether they were told to stop before they were done.

    Raises:
        Refused: A canary got too much in one of them; the others were stopped.
        GatewayError: One failed; the text says how.
    """
    context = multiprocessing.get_context("spawn")
    ends: dict[Connection, Any] = {}
    failures: list[GatewayError] = []
    asked = 0
    for pace in _shares(job.pace, count):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(replace(job, pace=pace), theirs), name="toolatlas-judge")
        process.start()
        theirs.close()
        ends[ours] = process
    processes = list(ends.values())
    try:
        with _signals() as received:
            while ends:
                for end in wait(list(ends), timeout=LOOK_S):
                    assert isinstance(end, Connection)
                    failure = _listen(end, ends, told, stopping=asked > 0)
                    if failure is not None:
                        failures.append(failure)
                # A failure of one, which may be a judge that is not to be trusted, stops all.
                if (wanted := max(len(received), 1 if failures else 0)) > asked:
                    asked = wanted
                    for process in processes:
                        process.terminate()
    finally:
        for process in processes:
            if ends:
                process.kill()
            process.join()
    if failures:
        raise next((failure for failure in failures if isinstance(failure, Refused)), failures[0])
    return asked > 0


def _listen(
    end: Connection, ends: dict[Connection, Any], told: Callable[[Tally], None], *, stopping: bool
) -> GatewayError | None:
    """Take what a process says; why it failed, where it did."""
    try:
        match end.recv():
            case Tally() as sums:
                told(sums)
                return None
            case ("refused", str(text)):
                failure = Refused(text)
            case ("failed", str(text)):
                failure = GatewayError(text)
            case _:
                failure = None
    except EOFError:
        process = ends[end]
        process.join()
        failure = None
        if not stopping:
            failure = GatewayError(
                f"a judging process ended with exit code {process.exitcode} before it was done. What it had begun is "
                "free again when its lease runs out: judge again then"
            )
    del ends[end]
    end.close()
    return failure


def _shares(pace: Pace, count: int) -> Sequence[Pace]:
    """One for each process: a limit is shared out, for none of them knows what the others do."""
    if pace.limit is None:
        return [pace] * count
    each, more = divmod(pace.limit, count)
    return [replace(pace, limit=each + (place < more)) for place in range(count) if each + (place < more)]


@contextmanager
def _signals() -> Generator[list[int]]:
    """Collects the signals that ask to stop."""
    received: list[int] = []

    def receive(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(job: Job, end: Connection) -> None:
    """What a process does."""
    # Ctrl-C reaches all processes of a terminal; the first one passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_worker(job, end))
        end.send("done")
    except Refused as error:
        end.send(("refused", str(error)))
    except BrokenPipeError:
        # Nobody is there any more to work for.
        return
    except Exception as error:
        end.send(("failed", str(error) or type(error).__name__))


async def _worker(job: Job, end: Connection) -> None:
    database = Database(job.url, statement_s=None)
    judge = Judge(library(), job.reward)
    try:
        worker = Worker(database, judge, job.wanted, job.pace, canaries=job.canaries, told=end.send)
        await until_told(worker, signal.SIGTERM)
    finally:
        await judge.close()
        await database.close()
