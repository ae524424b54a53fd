"""The meta-tool delegate_task: a whole task for the gateway's own model, worked with the agent's permissions.

Above: endpoint/search_mode.py, which also is what the model works through, then without this meta-tool: no task is
delegated from within one. Below: proxy/policy. What the model does is an episode of its own in the log, linked to the
step that delegated it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import anyio
from mcp.shared.dispatcher import ProgressFnT

from proxy.catalog.text import block, one_line
from proxy.errors import GatewayError, InvalidArguments, ModelError, UnknownName
from proxy.metatools.base import STRING, Caller, Request, Target, definition, text_result
from proxy.metatools.code_calls import ERROR_LIMIT, origin_within
from proxy.metatools.steps import Finished, Steps
from proxy.policy.base import FINISH, Action, Model, Variant
from proxy.policy.limits import WorkLimits
from proxy.policy.loop import Did, Stop, Worked, work
from proxy.policy.making import opened
from proxy.policy.surface import Surface
from proxy.settings import ModelSettings
from proxy.store.recorder import EndReason, Level, Outcome
from proxy.tasks import Beginner, Task, TaskStore

logger = logging.getLogger("toolatlas.delegating")

MODE = "search"
AT_ONCE = 4
"""Tasks that are worked at one time; more are refused, not queued, so that an agent can do its task itself."""
TASK_CHARS = 20_000
PROGRESS_CHARS = 200
_STOPPED: Mapping[Stop, str] = {
    Stop.SILENT: "it asked for no tool any more",
    Stop.TURNS: "it took as many turns as it may",
    Stop.TOKENS: "it used as many tokens as it may",
    Stop.TIME: "it took as long as it may",
    Stop.CONTEXT: "there was more to remember than it can",
}


class Shown(Protocol):
    """What an agent sees of the gateway in search mode, and the way to its meta-tools."""

    def introduction(self) -> str: ...

    def offered(self) -> list[Mapping[str, Any]]: ...

    async def call(
        self,
        name: str,
        arguments: Any,
        params: Mapping[str, Any],
        caller: Caller,
        task: Callable[[str | None], Task],
    ) -> dict[str, Any]: ...


class Delegates:
    """Whoever works delegated tasks: one model for all agents. Use inside `async with delegates.running()`."""

    def __init__(self, settings: ModelSettings, variant: Variant, limits: WorkLimits) -> None:
        self._settings = settings
        self.variant = variant
        self.limits = limits
        self._model: Model | None = None
        self._working = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with opened(self._settings, self.limits) as self._model:
            yield

    async def work(self, task: str, surface: Surface, on_step: Callable[[Did], Any]) -> Worked:
        """Raises ModelError where too many are worked already, or the model cannot be asked."""
        if self._model is None:
            raise ModelError("the gateway is starting or stopping; try again")
        if self._working >= AT_ONCE:
            raise ModelError(f"{AT_ONCE} delegated tasks are being worked; do this one yourself, or try again later")
        self._working += 1
        try:
            return await work(task, self._model, surface, self.limits, on_step)
        finally:
            self._working -= 1


class DelegateTask:
    name = "delegate_task"

    def __init__(self, shown: Shown, delegates: Delegates, steps: Steps, tasks: TaskStore) -> None:
        self._shown = shown
        self._delegates = delegates
        self._steps = steps
        self._tasks = tasks

    def definition(self) -> dict[str, Any]:
        made = definition(
            self.name,
            "Have a model here do a task.",
            {"task": STRING},
            ("task",),
            read_only=False,
        )
        # An agent can do without it: it need not be loaded in any case.
        del made["_meta"]
        return made

    async def run(self, request: Request) -> dict[str, Any]:
        text = str(request.arguments["task"]).strip()
        if not text:
            raise InvalidArguments("task: say what is to be done, and with which values")
        if len(text) > TASK_CHARS:
            raise InvalidArguments(f"task: {len(text):,} characters, at most {TASK_CHARS:,}")
        delegated = self._begin(request)
        world = _Within(self._shown, self._steps, self._tasks, delegated, request)
        progress = _Progress(request.caller.on_progress)
        try:
            worked = await self._delegates.work(text, Surface(world, self._delegates.variant), progress.say)
        finally:
            # Whatever ended it: a task that the model finished is over already.
            self._tasks.finish(delegated, EndReason.SESSION)
        return _told(worked, delegated.episode.id)

    def _begin(self, request: Request) -> Task:
        caller, episode = request.caller, request.task.episode
        task = self._tasks.begin(
            Beginner(
                agent=caller.agent,
                mode=MODE,
                client=self.name,
                protocol=episode.protocol,
                parent_step=caller.step_id,
            )
        )
        # The words of the task may be those of a server that is not logged in full.
        task.level = request.task.level
        return task


class _Within:
    """A `World`: the gateway as the delegating agent sees it, in a task of its own."""

    def __init__(self, shown: Shown, steps: Steps, tasks: TaskStore, task: Task, request: Request) -> None:
        self._shown = shown
        self._steps = steps
        self._tasks = tasks
        self._task = task
        self._request = request
        caller = request.caller
        self._origin = origin_within(caller.origin, task.id, caller.origin.ask)

    @property
    def introduction(self) -> str:
        return self._shown.introduction()

    @property
    def actions(self) -> tuple[Action, ...]:
        offered = self._shown.offered()
        return tuple(
            Action(name=each["name"], description=each["description"], parameters=each["inputSchema"])
            for each in offered
        )

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `World`; every call is a step of the log."""
        target = Target(on_level=self._touched)
        caller = Caller(agent=self._request.caller.agent, origin=self._origin, target=target)
        started_at, began = datetime.now(UTC), time.perf_counter()

        def record(outcome: Outcome, result: Mapping[str, Any] | None = None, error: str | None = None) -> None:
            finished = Finished(
                id=caller.step_id,
                mode=MODE,
                name=name,
                arguments=arguments,
                target=target,
                outcome=outcome,
                result=result,
                error=error,
                started_at=started_at,
                began=began,
            )
            self._steps.record(self._task, finished)

        self._tasks.hold(self._task)
        try:
            result = await self._shown.call(name, dict(arguments), {}, caller, self._own)
        except anyio.get_cancelled_exc_class():
            record(Outcome.CANCELLED)
            raise
        except GatewayError as error:
            result = text_result(block(str(error), ERROR_LIMIT), is_error=True)
            record(error.outcome, result, str(error))
        except Exception as error:
            logger.exception("answering %s", name)
            result = text_result("The gateway failed at this call, not you; its log says why.", is_error=True)
            record(Outcome.PROTOCOL_ERROR, result, f"internal error: {type(error).__name__}")
        else:
            failed = Outcome.TOOL_ERROR if result.get("isError") is True else Outcome.OK
            record(target.outcome or failed, result)
        finally:
            self._tasks.release(self._task)
        return result

    def _own(self, named: str | None) -> Task:
        """The only task that there is here."""
        if named is not None and named != self._task.id:
            raise UnknownName("leave task_id out: this task has no other")
        return self._task

    def _touched(self, level: Level) -> None:
        # What such a server said may turn up in the answer, too.
        self._task.touched(level)
        self._request.task.touched(level)


class _Progress:
    """Tells the delegating agent of each step."""

    def __init__(self, on_progress: ProgressFnT | None) -> None:
        self._on_progress = on_progress

    async def say(self, did: Did) -> None:
        if self._on_progress is not None:
            failed = " (failed)" if did.failed else ""
            await self._on_progress(did.place, None, f"{one_line(did.action, PROGRESS_CHARS)}{failed}")


def _told(worked: Worked, episode: str) -> dict[str, Any]:
    calls = sum(did.name != FINISH for did in worked.did)
    how = f"[{worked.turns} turns, {calls} calls, {worked.seconds:.0f} s; episode {episode}]"
    if worked.stop is not Stop.FINISHED:
        done = _lines(worked.did)
        last = f"\nIts last words: {worked.answer}" if worked.answer else ""
        why = f"The task was not finished: {_STOPPED[worked.stop]}. What it did may have had effects:"
        return text_result(f"{why}\n{done}{last}\n{how}", is_error=True)
    answer = worked.answer or "(the model gave no answer)"
    if worked.outcome != "done":
        return text_result(f"The model says {worked.outcome}: {answer}\n{how}", is_error=True)
    return text_result(f"{answer}\n{how}")


def _lines(did: Sequence[Did]) -> str:
    return "\n".join(f"{each.place}. {one_line(each.action, 160)}{' (failed)' if each.failed else ''}" for each in did)
