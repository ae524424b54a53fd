"""The interpreter of one task: which container it has now, and what became of the variables.

Above: docker.py, which hands containers out. Below: container.py and exchange.py. A container that is lost, for
whatever reason, is replaced at the next run, and that run says that it began without variables, and why.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from proxy.errors import SandboxError
from proxy.sandbox.base import Calls, Failure, Limits, RunResult, Status
from proxy.sandbox.channel import ChannelClosed
from proxy.sandbox.container import Container
from proxy.sandbox.exchange import Exchange, Overdue


class DockerInterpreter:
    """Made by `DockerBackend.open`. `acquire` and `release` are the backend's, `forget` is told when it is closed."""

    def __init__(
        self,
        limits: Limits,
        acquire: Callable[[], Awaitable[Container]],
        release: Callable[[Container], None],
        forget: Callable[[DockerInterpreter], None],
    ) -> None:
        self._limits = limits
        self._acquire = acquire
        self._release = release
        self._forget = forget
        self._container: Container | None = None
        self._turn = anyio.Lock(fast_acquire=True)
        self._closed = False
        self._used = False
        """Whether there are, or were, variables that an agent may count on."""
        self._lost: str | None = None
        """Why they are gone, until a run has said so."""
        self._born = self._last_used = time.monotonic()

    @property
    def container_id(self) -> str | None:
        """Of the container it has now."""
        return self._container.id if self._container is not None else None

    @property
    def idle_s(self) -> float:
        """Seconds since it last ran code; 0 while it does, and where it holds no container."""
        return 0.0 if self._turn.locked() or self._container is None else time.monotonic() - self._last_used

    def make_room(self) -> None:
        """Give the container up for another task."""
        self._lose("it made room for another task, since all interpreters were in use")

    async def need_container(self) -> Container:
        """The container of this task; a new one where there is none, or none that lives.

        Raises:
            SandboxError: None can be had now.
        """
        if self._container is not None and not self._container.alive():
            self._lose(await self._container.why_it_ended())
        if self._container is None:
            container = await self._acquire()
            if self._closed:
                self._release(container)
                raise SandboxError("the interpreter is closed")
            self._container = container
            self._born = self._last_used = time.monotonic()
        return self._container

    async def run(self, code: str, timeout_s: float, calls: Calls) -> RunResult:
        """Run code for at most `timeout_s`, and no longer than the limits allow. See `Interpreter`.

        Raises:
            SandboxError: No container can be had now.
        """
        if (size := len(code.encode("utf-8", "replace"))) > self._limits.code_bytes:
            most = self._limits.code_bytes
            return _refused("ValueError", f"the code has {size:,} bytes; {most:,} are the most")
        async with self._turn:
            if self._closed:
                raise SandboxError("the interpreter is closed")
            container = await self._ready_container()
            exchange = Exchange(
                container.channel, next(container.runs), self._limits, calls, min(timeout_s, self._limits.max_run_s)
            )
            try:
                result = await self._perform(exchange, container, code)
            except BaseException:
                await self._broken_off(container, exchange)
                raise
            finally:
                self._last_used = time.monotonic()
            return self._with_losses(result, exchange.fresh)

    async def reset(self) -> None:
        """Forget all variables.

        Raises:
            SandboxError: The interpreter is closed.
        """
        async with self._turn:
            if self._closed:
                raise SandboxError("the interpreter is closed")
            self._used, self._lost = False, None
            if self._container is not None and self._container.alive():
                try:
                    await self._container.reset()
                except SandboxError:
                    # The next run gets a new one, which has no variables either.
                    self._let_go()
                except BaseException:
                    self._let_go()
                    raise

    async def close(self) -> None:
        """End it for good; a run in progress ends with it. Never raises."""
        self._closed = True
        self._forget(self)
        self._let_go()

    def expire(self) -> None:
        """Give the container up if it has not been used for long, or is too old."""
        if self._turn.locked() or self._container is None:
            return
        now = time.monotonic()
        if now - self._last_used >= self._limits.idle_s:
            self._lose(f"no code was run for {self._limits.idle_s:g} s")
        elif now - self._born >= self._limits.lifetime_s:
            self._lose(f"its container had reached its lifetime of {self._limits.lifetime_s:g} s")

    async def _ready_container(self) -> Container:
        container = await self.need_container()
        try:
            await container.until_ready()
            return container
        except SandboxError as error:
            self._lose(str(error))
        except BaseException:
            self._lose("a run was cancelled while its interpreter was starting")
            raise
        return await self.need_container()

    async def _perform(self, exchange: Exchange, container: Container, code: str) -> RunResult:
        started = time.monotonic()
        try:
            result = await exchange.perform(code)
        except (ChannelClosed, Overdue) as error:
            reason = str(error)
            if isinstance(error, ChannelClosed):
                reason = "it was closed" if self._closed else await container.why_it_ended(error)
            self._lose(reason)
            return RunResult(
                status=Status.DIED,
                calls=exchange.calls,
                seconds=time.monotonic() - started,
                kept=False,
                lost_because=reason,
            )
        container.ready = result.kept
        return result

    async def _broken_off(self, container: Container, exchange: Exchange) -> None:
        """The run was cancelled, or a call raised: keep the container if its supervisor has reported."""
        settled = exchange.settled
        if settled is None:
            self._lose("a cancelled run did not stop")
            return
        container.ready = settled.kept
        self._used = True
        if exchange.fresh or not settled.kept:
            self._lost = settled.lost_because or "a cancelled run did not stop when it was interrupted"

    def _with_losses(self, result: RunResult, fresh: bool) -> RunResult:
        """Add what this run has to say of the variables before it, and keep what the next one has to."""
        before, self._lost = self._lost, None
        if fresh:
            before = before or "its interpreter ended between two runs"
        before = before if self._used else None
        self._used = True
        if result.kept:
            return replace(result, lost_because=result.lost_because or before)
        self._lost = result.lost_because or "its interpreter ended"
        return replace(result, lost_because=self._lost)

    def _lose(self, reason: str) -> None:
        self._lost = reason
        self._let_go()

    def _let_go(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            self._release(container)


def _refused(kind: str, message: str) -> RunResult:
    return RunResult(status=Status.ERROR, failure=Failure(kind, message))
