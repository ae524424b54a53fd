"""What an agent is trying to get done now: owner of revealed tools and kept results, and of the episode in the log.

Between endpoint/, which finds the task of a request, and metatools/, which work within it.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.errors import UnknownName

MAX_TASKS = 10_000


@dataclass(slots=True)
class Task:
    """Bound to the credential that began it; `last_used` in seconds of the store's clock."""

    id: str
    agent: str
    last_used: float
    revealed: set[str] = field(default_factory=set[str])
    """Written names of the tools whose definition the agent has been given."""


class TaskStore:
    """Running tasks of this replica. Idle ones are forgotten, the least recently used first when there are too many."""

    def __init__(
        self,
        replica: str,
        idle_s: float,
        on_end: Callable[[Task], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replica = replica
        self._idle_s = idle_s
        self._on_end = on_end
        self._clock = clock
        self._tasks: OrderedDict[str, Task] = OrderedDict()

    def begin(self, agent: str) -> Task:
        self._forget_idle()
        if len(self._tasks) >= MAX_TASKS:
            self.finish(next(iter(self._tasks.values())))
        task = Task(f"t{self._replica}_{secrets.token_hex(12)}", agent, self._clock())
        self._tasks[task.id] = task
        return task

    def get(self, agent: str, task_id: str) -> Task:
        """The running task of that id.

        Raises:
            UnknownName: Never begun, over, expired, or somebody else's: one answer for all, since the id is a secret.
        """
        self._forget_idle()
        task = self._tasks.get(task_id)
        if task is None or task.agent != agent:
            raise UnknownName(
                f"no running task '{task_id[:40]}': it is over, expired, or not yours; "
                "leave task_id out to begin a new one, and search again"
            )
        return self._touch(task)

    def of_session(self, agent: str, current: str | None) -> Task:
        """The session's task; a new one when there is none, or when it was finished or forgotten."""
        self._forget_idle()
        task = self._tasks.get(current) if current is not None else None
        return self._touch(task) if task is not None else self.begin(agent)

    def finish(self, task: Task) -> None:
        if self._tasks.pop(task.id, None) is not None:
            self._on_end(task)

    def end(self, task_id: str) -> None:
        """Finish a task by id, if it still runs."""
        if (task := self._tasks.get(task_id)) is not None:
            self.finish(task)

    def _touch(self, task: Task) -> Task:
        task.last_used = self._clock()
        self._tasks.move_to_end(task.id)
        return task

    def _forget_idle(self) -> None:
        oldest_allowed = self._clock() - self._idle_s
        while self._tasks:
            task = next(iter(self._tasks.values()))
            if task.last_used >= oldest_allowed:
                return
            self.finish(task)
