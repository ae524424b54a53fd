"""Hardened containers of a Docker engine: started, looked at and removed.

Above: engine_source.py and choosing.py. Below: docker_client.py. Everything here blocks and belongs into a worker
thread. The library has no types: what it gives is `Any`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

from proxy.catalog.text import one_line
from proxy.errors import SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.docker_client import engine_errors, open_engine
from proxy.sandbox.source import Started, State

OWNER = "toolatlas.sandbox.owner"
"""Label: whose container this is, by the state folder of a gateway or broker."""
GATEWAY = "toolatlas.sandbox.gateway"
"""Label: the running process, gateway or broker, that started it."""
PING_S = 5
REQUEST_S = 60
REMOVED_S = 5.0
STRONGER_RUNTIME = "runsc"
"""gVisor's, used by itself where the engine has it."""
USER = "10001:10001"
OPEN_FILES = 256
SHARED_MEMORY = 8 * 1024 * 1024
ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
STREAMS = ("unix://", "tcp://", "http://", "https://", "http+unix://")
"""Addresses whose connections are sockets, which can be waited for."""


class Engine:
    """One engine, that of DOCKER_HOST or of the usual socket. Safe to use from several threads."""

    def __init__(self, client: Any, runtime: str | None) -> None:
        self.client = client
        """`docker.DockerClient`."""
        self.runtime = runtime
        """Of the containers; None for the engine's default."""

    @classmethod
    def connect(cls, environ: Mapping[str, str]) -> Engine:
        """
        Raises:
            SandboxError: No engine answers, or one that this cannot use.
        """
        if (host := environ.get("DOCKER_HOST")) and not host.startswith(STREAMS):
            raise SandboxError(
                f"the Docker engine at {one_line(host, 100)} cannot be used: its address must begin with unix:// or "
                "tcp://"
            )
        # Who does not answer soon does not count as an engine; one that does may be slow.
        quick = open_engine(environ, timeout_s=PING_S)
        try:
            with engine_errors("the Docker engine does not say what it is"):
                runtimes = cast("dict[str, Any]", quick.info().get("Runtimes") or {})
        finally:
            quick.close()
        client = open_engine(environ, timeout_s=REQUEST_S)
        if str(client.api.base_url).startswith("http+docker://localnpipe"):
            client.close()
            raise SandboxError("a Docker engine behind a named pipe cannot be used; let it listen on tcp:// too")
        return cls(client, STRONGER_RUNTIME if STRONGER_RUNTIME in runtimes else None)

    def close(self) -> None:
        """Close connections that are not in use; it can be used again."""
        self.client.close()

    def start(self, image: str, limits: Limits, labels: Mapping[str, str]) -> Started:
        """Start a container that reaches nothing, attached.

        Raises:
            SandboxError: The engine refused or is gone; nothing is left behind where it can be helped.
        """
        api = self.client.api
        with engine_errors("the Docker engine could not start a container"):
            host = api.create_host_config(**hardening(limits, self.runtime))
            made = api.create_container(host_config=host, **options(image, labels))
            try:
                # Before the start, so that no output is missed, nor read by the HTTP client together with its headers.
                raw = api.attach_socket(made["Id"], params=ATTACH)
                try:
                    api.start(made["Id"])
                except BaseException:
                    _close(raw)
                    raise
            except BaseException:
                with suppress(SandboxError):
                    self.remove(made["Id"])
                raise
        connected = cast(socket.socket, getattr(raw, "_sock", raw))
        return Started(cast(str, made["Id"]), connected, lambda: _close(raw))

    def state(self, container: str) -> State | None:
        """None when the engine knows it no more. Raises SandboxError."""
        from docker.errors import NotFound

        with engine_errors("the Docker engine does not say how a container is"):
            try:
                state = self.client.api.inspect_container(container)["State"]
            except NotFound:
                return None
        return State(bool(state["Running"]), bool(state["OOMKilled"]), int(state["ExitCode"]))

    def remove(self, container: str) -> None:
        """End and forget a container; one that is gone already is no error. Raises SandboxError."""
        from docker.errors import APIError, NotFound

        with engine_errors("the Docker engine could not remove a container"):
            try:
                self.client.api.remove_container(container, force=True, v=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise
                # It is removing itself, as it was started to.
                self._wait_until_gone(container)

    def _wait_until_gone(self, container: str) -> None:
        deadline = time.monotonic() + REMOVED_S
        while self.state(container) is not None and time.monotonic() < deadline:
            time.sleep(0.02)

    def owned(self, owner: str) -> dict[str, str]:
        """Containers of all gateways of an owner, running or not, with the gateway that started each.

        Raises:
            SandboxError: The engine is gone.
        """
        with engine_errors("the Docker engine does not list its containers"):
            found = self.client.api.containers(all=True, filters={"label": f"{OWNER}={owner}"})
        return {each["Id"]: each["Labels"].get(GATEWAY, "") for each in found}


def options(image: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """What runs, as arguments of the SDK: the image's own command, as nobody, on streams that end with the gateway."""
    return {
        "image": image,
        # Not detached, so that the engine closes the container's stdin when its one client is gone, however that
        # ended, and the supervisor ends by itself.
        "detach": False,
        "stdin_open": True,
        "tty": False,
        "network_disabled": True,
        "user": USER,
        "labels": dict(labels),
        "environment": {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
    }


def hardening(limits: Limits, runtime: str | None) -> dict[str, Any]:
    """What holds a container, as arguments of the SDK's host configuration. Nothing of the host is mounted."""
    from docker.types import LogConfig, Ulimit

    ulimit, log_config = cast("tuple[Any, Any]", (Ulimit, LogConfig))
    return {
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "privileged": False,
        "pids_limit": limits.processes,
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "nano_cpus": int(limits.cpus * 1_000_000_000),
        "ipc_mode": "private",
        "shm_size": SHARED_MEMORY,
        "tmpfs": {
            "/tmp": f"rw,noexec,nosuid,nodev,size={limits.disk_bytes},nr_inodes={limits.files},mode=1777",
        },
        "ulimits": [
            ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
            ulimit(name="core", soft=0, hard=0),
            ulimit(name="fsize", soft=limits.disk_bytes, hard=limits.disk_bytes),
        ],
        # The engine's usual one would write every frame to the host's disk, without end.
        "log_config": log_config(type="none"),
        "auto_remove": True,
        "runtime": runtime,
    }


def _close(raw: Any) -> None:
    """Close an attached socket together with the response it came with, which holds the connection."""
    for holder in (raw, getattr(raw, "_sock", None), getattr(raw, "_response", None)):
        if holder is not None:
            with suppress(OSError, ValueError):
                holder.close()
