"""`toolatlas stdio`: MCP on standard input and output, for agents that start their servers as processes.

Above: cli.py. Below: endpoint/running.py finds or starts the gateway, endpoint/stdio.py relays to it. Nothing but MCP
may reach standard output.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxy.errors import ConfigurationError, GatewayError
from proxy.settings import Folders

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LEAVE_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("stdio")(stdio)


def stdio(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration of the gateway to join or start.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="MCP endpoint of a gateway that runs already.")
    ] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="VAR", help="Environment variable that holds the token.")
    ] = None,
) -> None:
    """Serve MCP on standard input and output, through the gateway that runs or one started for it."""
    if config is not None and url is not None:
        raise ConfigurationError(
            "--config starts or joins a gateway of this machine and --url names one: give one of them."
        )
    token = None if token_env is None else os.environ.get(token_env)
    if token_env is not None and not token:
        raise ConfigurationError(f"--token-env names the variable {token_env}, which is not set or empty.")
    # The SDK takes a second to import, which the other commands need not wait for.
    import anyio

    anyio.run(_relay, config, url, token)


async def _relay(config: Path | None, url: str | None, token: str | None) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    from proxy.endpoint.running import Registry
    from proxy.endpoint.stdio import bridge

    folders = Folders.from_environment(os.environ)
    registry = Registry(folders.state_dir)

    async def local_gateway() -> str:
        log_path = folders.state_dir / "gateway.log"
        return (await registry.find_or_start(config or folders.config, log_path=log_path)).url

    target = url or await local_gateway()
    # Raised once the task groups are left, which would wrap it into a group.
    failure: GatewayError | None = None
    with closing(_Stdin(sys.stdin.fileno())) as stdin, anyio.CancelScope() as everything:
        async with anyio.create_task_group() as tasks:

            async def leave_when_told() -> None:
                with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                    async for _ in signals:
                        # As if the agent had closed its side: the session is ended properly, if that goes quickly.
                        stdin.stop()
                        everything.deadline = anyio.current_time() + _LEAVE_S

            tasks.start_soon(leave_when_told)
            lines = anyio.wrap_file(io.TextIOWrapper(io.BufferedReader(stdin), encoding="utf-8", errors="replace"))
            async with stdio_server(stdin=lines) as (read, write):
                try:
                    await bridge(target, read=read, write=write, token=token, reconnect=None if url else local_gateway)
                except GatewayError as error:
                    failure = error
                finally:
                    stdin.stop()
                    await write.aclose()
                    async with read:
                        # The reading thread may hold a message still: it fails unless somebody takes that.
                        async for _ in read:
                            pass
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _Stdin(io.RawIOBase):
    """Standard input whose blocking read can be ended from outside; a thread inside a plain read would keep the process
    alive until its agent says something more.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._stopped, self._stop = os.pipe()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        ready, _, _ = select.select([self._descriptor, self._stopped], [], [])
        if self._stopped in ready:
            return 0
        view = memoryview(buffer)
        data = os.read(self._descriptor, len(view))
        view[: len(data)] = data
        return len(data)

    def stop(self) -> None:
        """Every read from now on finds the end. May be called from any thread, and again."""
        if not self.closed:
            os.write(self._stop, b".")

    def close(self) -> None:
        if not self.closed:
            os.close(self._stopped)
            os.close(self._stop)
        super().close()
