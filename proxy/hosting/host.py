"""Starts stdio servers for gateways and sees to their end: the side that runs under the servers' own user.

Above: commands/host.py. Below: messages.py, listening.py, and the parts that a gateway without a host uses as well:
`Orphans`, which ends all servers even when this process is killed, and `end_group`. Whatever a connection started ends
with the connection.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import stat
import struct
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import PurePath
from typing import cast

import anyio
from anyio.abc import Listener, Process, SocketAttribute, SocketStream, UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from proxy.hosting.messages import DESCRIPTORS, MAX_START_BYTES, Reply, Start, Violation, next_line
from proxy.servers.orphans import Orphans, Stdio
from proxy.servers.process import GRACES_S, child_environment, end_group

logger = logging.getLogger("toolatlas.hosting")

MAX_SERVERS = 200
"""With four descriptors each while they are started, these are well within the usual limit of 1024."""
MAX_TEXT = 1000
REQUEST_S = 10.0
"""How long whoever has connected may take to say what is to be started."""
FULL_S = 0.2
"""Between two tries to accept a connection when that fails."""
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class _Refused(Exception):
    """The text goes to the gateway."""


class Host:
    """Serves connections of the users in `allowed`. `environ` is the environment of this process, of which servers get
    the safe part; `graces_s` are the seconds after the end of stdin, SIGTERM and SIGKILL."""

    def __init__(
        self, allowed: Set[int], environ: Mapping[str, str], graces_s: tuple[float, float, float] = GRACES_S
    ) -> None:
        self._allowed = allowed
        self._environ = environ
        self._graces_s = graces_s
        self._orphans = Orphans(graces_s)
        self._connections = 0

    async def serve(self, listener: Listener[SocketStream]) -> None:
        """Until it is cancelled; then all servers are ended."""
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await listener.serve(self._connected, tasks)
                except anyio.BrokenResourceError as error:
                    # No descriptor is left, say. That is no reason to end the servers that run.
                    logger.warning("no connection can be accepted: %s", error.__cause__ or "the listener broke")
                    await anyio.sleep(FULL_S)

    async def _connected(self, stream: SocketStream) -> None:
        self._connections += 1
        try:
            async with stream:
                await self._served(cast(UNIXSocketStream, stream))
        except GONE:
            pass
        except Exception:
            # One connection must not be the end of the servers of all others.
            logger.exception("a connection failed")
        finally:
            self._connections -= 1

    async def _served(self, stream: UNIXSocketStream) -> None:
        descriptors: list[int] = []
        try:
            uid = self._admitted(stream)
            request = await _received(stream, descriptors)
            process = await self._started(request, _standard_streams(descriptors))
        except _Refused as refused:
            logger.warning("refused: %s", refused)
            await stream.send(Reply(kind="refused", text=str(refused)[:MAX_TEXT]).line())
            return
        finally:
            # The server has its own copies; with ours open, the gateway would never see their end.
            for descriptor in descriptors:
                os.close(descriptor)
        name = PurePath(request.command).name
        try:
            logger.info("%s (process %d) was started for user %d", name, process.pid, uid)
            await stream.send(Reply(kind="started").line())
            await _until_left(stream, process)
        except anyio.get_cancelled_exc_class():
            # We end: told at once, the gateway closes the server's stdin, and the server can end in peace.
            await anyio.aclose_forcefully(stream)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await end_group(process, self._graces_s)
                await self._orphans.ended(process)
            logger.info("%s (process %d) has ended with code %s", name, process.pid, process.returncode)
        if process.returncode is not None:
            await stream.send(Reply(kind="ended", code=process.returncode).line())

    def _admitted(self, stream: UNIXSocketStream) -> int:
        """The user at the other end."""
        size = struct.calcsize("iII")
        peer = stream.extra(SocketAttribute.raw_socket).getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        _, uid, _ = struct.unpack("iII", peer)
        if uid not in self._allowed:
            raise _Refused(f"user {uid} may not start servers here; --allow-uid of the host names those who may")
        if self._connections > MAX_SERVERS:
            raise _Refused(f"{MAX_SERVERS} servers run here already")
        return uid

    async def _started(self, request: Start, stdio: Stdio) -> Process:
        environment = child_environment(request.env, self._environ)
        process: Process | None = None
        try:
            # Cancelled between the fork and its return, it would leave a process that nobody ends.
            with anyio.CancelScope(shield=True):
                process = await self._orphans.start(request.command, request.args, environment, request.cwd, stdio)
        except OSError as error:
            raise _Refused(_problem(error, request)) from error
        assert process is not None
        return process


async def _received(stream: UNIXSocketStream, descriptors: list[int]) -> Start:
    """What is to be started; what came with it is put into `descriptors`."""
    line: bytes | None = None
    with anyio.move_on_after(REQUEST_S):
        first, received = await stream.receive_fds(1, DESCRIPTORS)
        descriptors.extend(received)
        for descriptor in received:
            os.set_inheritable(descriptor, False)
        try:
            line = await next_line(BufferedByteReceiveStream(stream), MAX_START_BYTES)
        except Violation as violation:
            raise _Refused(f"the request is {violation}") from None
        if line is None:
            raise anyio.EndOfStream
        line = first + line
    if line is None:
        raise _Refused(f"no request came within {REQUEST_S:g} s")
    try:
        return Start.model_validate_json(line)
    except ValidationError as error:
        first_problem = error.errors(include_input=False, include_context=False)[0]
        where = ".".join(map(str, first_problem["loc"])) or "request"
        raise _Refused(f"the request is not one to start a server: {where[:100]}: {first_problem['msg']}") from None


def _standard_streams(descriptors: list[int]) -> Stdio:
    """Pipes with the right ends: what else could be sent might be something that the servers' user must not have, or
    that stops whoever reads it."""
    accesses = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
    if len(descriptors) != DESCRIPTORS or any(
        not stat.S_ISFIFO(os.fstat(each).st_mode) or fcntl.fcntl(each, fcntl.F_GETFL) & os.O_ACCMODE != access
        for each, access in zip(descriptors, accesses, strict=True)
    ):
        raise _Refused("with a request come three pipes: one to read from and two to write to")
    stdin, stdout, stderr = descriptors
    return stdin, stdout, stderr


async def _until_left(stream: UNIXSocketStream, process: Process) -> None:
    """Return when the gateway has ended its side; told meanwhile of the end of the server, it will."""

    async def tell() -> None:
        code = await process.wait()
        with suppress(*GONE):
            await stream.send(Reply(kind="ended", code=code).line())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        # Nothing is to be said after the request; whoever does is not one of ours.
        with suppress(*GONE):
            await stream.receive()
        tasks.cancel_scope.cancel()


def _problem(error: OSError, request: Start) -> str:
    # A folder that cannot be entered fails the launcher, of which some event loops do not say that it was the folder.
    what = error.filename or request.cwd or request.command
    if error.errno == errno.ENOENT:
        return f"where it runs there is no such command or folder: {what!r}; install it there, or correct it"
    return f"{error.strerror or type(error).__name__}: {what!r}"
