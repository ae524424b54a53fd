"""What an agent is trying to get done now: owner of what it found, of kept results, and of one episode in the log.

Between endpoint/, which finds the task of a request, and metatools/, which work within it.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256

from proxy.errors import UnknownName
from proxy.store.recorder import Ending, EndReason, Episode, Level

MAX_TASKS = 10_000
MOST_IMPLIED = 200
"""Calls of one implied task: under steady traffic it would never end, and its episode could not be read."""


MOST_SEARCHED = 8
"""Searches of a task that its next one takes into account."""
SEARCH_CHARS = 1_000
MOST_KNOWN = 200
"""Tools of a task that its next search takes into account."""


@dataclass(slots=True)
class Trail:
    """What a task has searched, been shown and called so far, the latest of it, oldest first. Written names of tools.
    It is no log: it is kept of tasks that are logged nowhere, too, and goes with them."""

    searched: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_SEARCHED))
    revealed: dict[str, None] = field(default_factory=dict[str, None])
    """Found by a search, or read the definition of; lists of all tools of a server say nothing of what was sought."""
    called: dict[str, None] = field(default_factory=dict[str, None])
    """Successfully."""

    def search(self, text: str, shown: Iterable[str]) -> None:
        self.searched.append(text[:SEARCH_CHARS])
        self.reveal(shown)

    def reveal(self, tools: Iterable[str]) -> None:
        for tool in tools:
            _note(self.revealed, tool)

    def call(self, tool: str) -> None:
        _note(self.called, tool)


@dataclass(slots=True)
class Task:
    """Bound to the credential that began it; `last_used` in seconds of the store's clock."""

    id: str
    agent: str
    last_used: float
    episode: Episode
    trail: Trail = field(default_factory=Trail)
    level: Level = Level.FULL
    """The most that may still be written of it. Once a server that is not logged in full was called, what it answered
    may turn up anywhere: in code's variables, in arguments for another server, in the answer."""
    calls: int = 0
    open_calls: int = 0
    """Calls under way."""
    ending: Ending | None = None
    """How it ended, until that is told."""

    def touched(self, level: Level) -> None:
        """Something was called that is written at this level."""
        if level is not Level.FULL:
            self.level = Level.METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginner:
    """Whoever begins a task: the agent's credential, and the way it came."""

    agent: str
    mode: str = "search"
    """As in `Episode`."""
    client: str | None = None
    protocol: str | None = None
    parent_step: str | None = None
    """Of a delegated task: the step that delegates it."""


class TaskStore:
    """Running tasks of this replica. Idle ones are forgotten, the least recently used first when there are too many.

    `on_end` frees what a task holds, at once; `on_ended` is told of the end of its episode once its last call is over
    and recorded.
    """

    def __init__(
        self,
        replica: str,
        idle_s: float,
        on_end: Callable[[Task], None],
        on_ended: Callable[[Ending], None],
        *,
        gap_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gap_s`: how long nothing may come from a credential without sessions before what comes is another task."""
        self._replica = replica
        self._idle_s = idle_s
        self._gap_s = gap_s
        self._on_end = on_end
        self._on_ended = on_ended
        self._clock = clock
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._implied: dict[tuple[str, str], str] = {}

    @property
    def running(self) -> tuple[Task, ...]:
        """The least recently used first."""
        return tuple(self._tasks.values())

    def begin(self, by: Beginner) -> Task:
        self.forget_idle()
        if len(self._tasks) >= MAX_TASKS:
            self.finish(next(iter(self._tasks.values())), EndReason.CROWDED_OUT)
        task_id = f"t{self._replica}_{secrets.token_hex(12)}"
        episode = Episode(
            # Whoever knows the task's id can carry it on; whoever reads the log must not.
            id=f"e_{sha256(task_id.encode()).hexdigest()[:24]}",
            agent=by.agent,
            mode=by.mode,
            client=by.client,
            protocol=by.protocol,
            began_at=datetime.now(UTC),
            parent_step=by.parent_step,
        )
        task = Task(task_id, by.agent, self._clock(), episode)
        self._tasks[task.id] = task
        return task

    def get(self, agent: str, task_id: str) -> Task:
        """The running task of that id.

        Raises:
            UnknownName: Never begun, over, expired, or somebody else's: one answer for all, since the id is a secret.
        """
        self.forget_idle()
        task = self._tasks.get(task_id)
        if task is None or task.agent != agent:
            raise UnknownName(
                f"no running task '{task_id[:40]}': it is over, expired, or not yours; "
                "leave task_id out to begin a new one, and search again"
            )
        return self._touch(task)

    def of_session(self, by: Beginner, current: str | None) -> Task:
        """The session's task; a new one when there is none, or when it was finished or forgotten."""
        self.forget_idle()
        task = self._tasks.get(current) if current is not None else None
        return self._touch(task) if task is not None else self.begin(by)

    def implied(self, by: Beginner) -> Task:
        """The task that a request belongs to which has neither a session nor a task's id: that of its credential, until
        nothing came for a while. It holds nothing that the next request could come by, only an episode."""
        key = (by.agent, by.mode)
        self.forget_idle()
        task = self._tasks.get(self._implied.get(key, ""))
        if task is not None and task.calls >= MOST_IMPLIED:
            self.finish(task, EndReason.LONG)
            task = None
        if task is None:
            task = self.begin(by)
            self._implied[key] = task.id
        return self._touch(task)

    def finish(self, task: Task, reason: EndReason, outcome: str | None = None, answer: str | None = None) -> None:
        """End a task, if it still runs."""
        if self._tasks.pop(task.id, None) is None:
            return
        task.ending = Ending(
            episode=task.episode, reason=reason, ended_at=datetime.now(UTC), outcome=outcome, answer=answer
        )
        if self._implied.get(key := (task.agent, task.episode.mode)) == task.id:
            del self._implied[key]
        self._on_end(task)
        self._tell(task)

    def end(self, task_id: str, reason: EndReason) -> None:
        """Finish a task by id, if it still runs."""
        if (task := self._tasks.get(task_id)) is not None:
            self.finish(task, reason)

    def finish_all(self, reason: EndReason) -> None:
        for task in self.running:
            self.finish(task, reason)

    def hold(self, task: Task) -> None:
        """A call of it begins."""
        task.calls += 1
        task.open_calls += 1

    def release(self, task: Task) -> None:
        """A call of it is over, and recorded."""
        task.open_calls -= 1
        if task.id in self._tasks:
            # A long call is use of the task, too.
            self._touch(task)
        self._tell(task)

    def forget_idle(self) -> None:
        """End the tasks that nothing came for in a long time."""
        now = self._clock()
        for task_id in list(self._implied.values()):
            task = self._tasks[task_id]
            if not task.open_calls and now - task.last_used > self._gap_s:
                self.finish(task, EndReason.IDLE)
        while self._tasks:
            task = next(iter(self._tasks.values()))
            if task.last_used >= now - self._idle_s:
                return
            if task.open_calls:
                self._touch(task)
            else:
                self.finish(task, EndReason.IDLE)

    def _tell(self, task: Task) -> None:
        if task.ending is not None and not task.open_calls:
            ending, task.ending = replace(task.ending, level=task.level), None
            self._on_ended(ending)

    def _touch(self, task: Task) -> Task:
        task.last_used = self._clock()
        self._tasks.move_to_end(task.id)
        return task


def _note(known: dict[str, None], tool: str) -> None:
    known.pop(tool, None)
    known[tool] = None
    if len(known) > MOST_KNOWN:
        del known[next(iter(known))]
