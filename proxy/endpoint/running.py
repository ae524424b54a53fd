"""Which gateways run on this machine: one for each configuration file, found through a record in the state folder.

Above: `toolatlas serve` announces itself here, `toolatlas stdio` joins or starts one. Below: files and processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Thread

import anyio
import anyio.to_thread
import httpx2
from pydantic import TypeAdapter, ValidationError

from proxy.endpoint.tokens import write_private
from proxy.errors import ConfigurationError, GatewayError
from proxy.files import lock_file, try_lock

SERVICE = "toolatlas"
"""What `/healthz` of a gateway answers as `service`."""

# -P: without it a folder called `proxy` where the agent happens to run would be imported instead of us.
_SERVE = (sys.executable, "-P", "-m", "proxy.cli", "serve")
_HEALTH_S = 2.0
_START_S = 90.0
"""A first start may fetch and build the image of the sandbox."""
_POLL_S = 0.1
_TAIL = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRecord:
    """One running gateway. `url` is its MCP endpoint, with the path; `/healthz` is on the same host and port."""

    pid: int
    url: str
    config: str
    version: str
    started_at: str


@dataclass(frozen=True, slots=True)
class _Health:
    service: str


_RECORD = TypeAdapter(GatewayRecord)
_HEALTH = TypeAdapter(_Health)


class Registry:
    """The records of one state folder. `serve` is the command that `find_or_start` runs, before its options."""

    def __init__(self, state_dir: Path, *, serve: Sequence[str] = _SERVE) -> None:
        self._state_dir = state_dir
        self._serve = tuple(serve)
        self._announced: tuple[Path, str] | None = None

    def announce(self, record: GatewayRecord) -> None:
        """Tell others that this gateway can be joined."""
        path = self._path(Path(record.config))
        text = _RECORD.dump_json(record).decode()
        write_private(path, text)
        self._announced = (path, text)

    def withdraw(self) -> None:
        """Take back what was announced, unless another gateway has announced itself in its place."""
        if self._announced is not None:
            _remove(*self._announced)
            self._announced = None

    def find(self, config: Path) -> GatewayRecord | None:
        """The gateway that serves this file now. A record whose gateway is gone is removed."""
        path = self._path(config)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            record = _RECORD.validate_json(text)
        except ValidationError:
            record = None
        if record is not None and _alive(record.pid):
            try:
                if _healthy(record.url):
                    return record
            except httpx2.TimeoutException:
                # Too busy to answer, or still on its way up: not to be joined now, but not gone either.
                return None
        _remove(path, text)
        return None

    async def find_or_start(self, config: Path, *, log_path: Path) -> GatewayRecord:
        """The gateway that serves this file, started if there is none; it ends by itself ten idle minutes later."""
        config = config.resolve()  # noqa: ASYNC240 - as quick as the loop's own system calls
        if not config.is_file():
            raise ConfigurationError(
                f"There is no configuration file {config}: create it with the servers you want under `mcpServers`,"
                " or name another one with --config."
            )
        record = await self._found(config)
        if record is not None:
            return record
        async with self._starting(config):
            # Whoever held the lock before us has probably just started it.
            return await self._found(config) or await self._start(config, log_path)

    async def _found(self, config: Path) -> GatewayRecord | None:
        return await anyio.to_thread.run_sync(self.find, config, abandon_on_cancel=True)

    async def _start(self, config: Path, log_path: Path) -> GatewayRecord:
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            start_of_log = os.fstat(log).st_size
            process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once, and the process outlives this event loop
                [*self._serve, "--config", str(config), "--port", "0", "--exit-when-idle", "600"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Not the folder of whichever agent came first: paths in the file mean the same for all of them.
                cwd=config.parent,
                env={**os.environ, "TOOLATLAS_STATE_DIR": str(self._state_dir.absolute())},
                start_new_session=True,
            )
        finally:
            os.close(log)
        # Collects the exit status whenever it comes: as a zombie, a dead gateway would still look alive to os.kill.
        Thread(target=process.wait, name="toolatlas-gateway", daemon=True).start()
        with anyio.move_on_after(_START_S):
            while process.poll() is None:
                record = await self._found(config)
                if record is not None:
                    return record
                await anyio.sleep(_POLL_S)
        if process.poll() is None:
            process.terminate()
            what = f"The gateway did not come up within {_START_S:.0f} s and was stopped"
        else:
            what = f"The gateway ended while starting, with exit status {process.returncode}"
        tail = _tail(log_path, start_of_log)
        raise GatewayError(f"{what}. End of its log {log_path}:\n{tail}" if tail else f"{what}; its log is empty.")

    @asynccontextmanager
    async def _starting(self, config: Path) -> AsyncGenerator[None]:
        """Held by the one process that starts a gateway for this file."""
        path = self._path(config).with_suffix(".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(path) as lock:
            with anyio.move_on_after(_START_S + 2 * _HEALTH_S) as waiting:
                while not try_lock(lock):
                    await anyio.sleep(_POLL_S)
            if waiting.cancelled_caught:
                raise GatewayError(f"Another process has been starting a gateway for {config} for too long: try again.")
            yield

    def _path(self, config: Path) -> Path:
        name = sha256(os.fsencode(config.resolve())).hexdigest()[:24]
        return self._state_dir / "gateways" / f"{name}.json"


def _remove(path: Path, text: str) -> None:
    """Delete a record that still says this: a gateway started meanwhile keeps its own."""
    try:
        if path.read_text(encoding="utf-8") == text:
            path.unlink()
    except FileNotFoundError:
        pass


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _healthy(url: str) -> bool:
    """Whether one of ours answers there; raises TimeoutException where something accepts and then says nothing."""
    try:
        # The record names this machine, whatever proxy the environment names for the world outside.
        with httpx2.Client(timeout=_HEALTH_S, trust_env=False) as http:
            answer = http.get(httpx2.URL(url).join("/healthz"))
        return _HEALTH.validate_json(answer.content).service == SERVICE
    except httpx2.TimeoutException:
        raise
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
        return False


def _tail(log_path: Path, start: int) -> str:
    with log_path.open("rb") as log:
        end = log.seek(0, os.SEEK_END)
        log.seek(max(start, end - _TAIL))
        return log.read().decode("utf-8", "replace").strip()
