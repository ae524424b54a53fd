"""Has stdio servers started by a host: the gateway's side.

Above: the composition root, which puts it into open_transport. Below: pipes.py and messages.py. The host runs under the
user of the servers, so it is believed no more than a server is: it hands over no descriptors, and its texts are cut.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from pathlib import Path

import anyio
from anyio.abc import UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from proxy.catalog.text import one_line
from proxy.errors import ServerDown
from proxy.hosting.messages import MAX_REPLY_BYTES, MAX_START_BYTES, Reply, Start, Violation, next_line
from proxy.hosting.pipes import Pipes
from proxy.servers.config import ServerConfig
from proxy.servers.process import GRACES_S, Running

ANSWER_S = 30.0
END_S = sum(GRACES_S) + 3.0
"""How long the host gets to end a server before we stop waiting for it; it goes on alone."""


class HostClient:
    """Starts stdio servers through the host that listens at `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def start(self, config: ServerConfig) -> Running:
        """Start a server and give its streams. When it is cancelled, the host leaves nothing of the server.

        Raises:
            ServerDown: There is no host, or it cannot or may not start the command; the text says why.
        """
        request, problem = _request(config), ""
        async with AsyncExitStack() as undo:
            connection = await self._connected(config)
            undo.push_async_callback(anyio.aclose_forcefully, connection)
            try:
                pipes = Pipes()
            except OSError as error:
                raise ServerDown(config.name, f"no pipes for it can be made: {error.strerror}") from error
            undo.push_async_callback(pipes.aclose)
            server = _Hosted(connection, pipes, f"the host of the servers at {self._socket}")
            with pipes.handed_over() as ends, anyio.move_on_after(ANSWER_S) as limit:
                # One that refuses us may have closed already; what it said is read all the same.
                with suppress(anyio.BrokenResourceError):
                    await connection.send_fds(request[:1], ends)
                    await connection.send(request[1:])
                problem = await server.refusal()
            if limit.cancelled_caught:
                problem = f"the host of the servers at {self._socket} did not answer within {ANSWER_S:g} s"
            if problem:
                raise ServerDown(config.name, problem)
            undo.pop_all()
            return server
        raise AssertionError  # nothing above swallows an exception

    async def _connected(self, config: ServerConfig) -> UNIXSocketStream:
        try:
            return await anyio.connect_unix(self._socket)
        except PermissionError:
            reason = f"the user of the gateway may not connect to {self._socket}, where the host of the servers listens"
        except OSError as error:
            reason = (
                f"the host of the servers cannot be reached at {self._socket} ({error.strerror or error}); "
                "start it with `toolatlas host-servers`"
            )
        raise ServerDown(config.name, reason)


class _Hosted:
    """One server at the host."""

    def __init__(self, connection: UNIXSocketStream, pipes: Pipes, host: str) -> None:
        self.stdin, self.stdout, self.stderr = pipes.stdin, pipes.stdout, pipes.stderr
        self.exit_code: int | None = None
        self.lost = ""
        self._connection = connection
        self._replies = BufferedByteReceiveStream(connection)
        self._pipes = pipes
        self._host = host

    async def refusal(self) -> str:
        """Why the server was not started; empty when it was."""
        reply = await self._next()
        if reply is None:
            return self.lost
        if reply.kind == "refused":
            return f"{self._host} does not start it: {one_line(reply.text, 300)}"
        return "" if reply.kind == "started" else f"{self._host} says that it ended before it was started"

    async def ended(self) -> None:
        while self.exit_code is None and not self.lost:
            reply = await self._next()
            if reply is not None and reply.kind == "ended":
                self.exit_code = reply.code

    async def end(self) -> None:
        await self.stdin.aclose()
        with suppress(OSError, anyio.ClosedResourceError):
            await self._connection.send_eof()
        with anyio.move_on_after(END_S):
            await self.ended()
            # The leader's end is not yet that of its group; the host closes when nothing is left.
            while await self._next() is not None:
                pass
        await self._pipes.aclose()
        await self._connection.aclose()

    async def _next(self) -> Reply | None:
        """What the host says next; None when it will say no more. `lost` is set then, unless we know the exit code."""
        problem = "has ended, and with it the server"
        try:
            if (line := await next_line(self._replies, MAX_REPLY_BYTES)) is not None:
                return Reply.model_validate_json(line)
        except (Violation, ValidationError):
            problem = "answers with something else than a host does"
        if self.exit_code is None:
            self.lost = f"{self._host} {problem}"
        return None


def _request(config: ServerConfig) -> bytes:
    """Raises ServerDown for what no process can be given; the text names fields, not their values."""
    try:
        start = Start(command=config.command, args=config.args, env=dict(config.env), cwd=config.cwd)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ServerDown(config.name, f"its entry cannot be sent to the host: {where}: {first['msg']}") from None
    line = start.model_dump_json().encode() + b"\n"
    if len(line) > MAX_START_BYTES:
        raise ServerDown(config.name, f"its command and variables are longer than {MAX_START_BYTES} bytes together")
    return line
