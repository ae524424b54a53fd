"""The connection to a Docker engine, opened where it is needed: a gateway without one never loads its library.

Above: image.py, docker.py and commands/sandbox.py. The library has no types; its client is `Any` outside this module.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.errors import SandboxError

INSTALL = (
    "Install and start Docker (https://docs.docker.com/engine/install), or set DOCKER_HOST to an engine that runs; "
    "without one, run_python uses its embedded interpreter"
)


def open_engine(environ: Mapping[str, str], *, timeout_s: int = 60) -> Any:
    """A `docker.DockerClient` that has reached its engine. Blocks; close it.

    Raises:
        SandboxError: There is none, or it may not be used; says what to do.
    """
    import docker
    from docker.errors import DockerException

    address = environ.get("DOCKER_HOST") or _local_address(environ)
    _try_socket(address, timeout_s)
    try:
        return docker.DockerClient.from_env(environment={**environ, "DOCKER_HOST": address}, timeout=timeout_s)
    except DockerException as error:
        raise SandboxError(_explained(address, error)) from error


@contextmanager
def engine_errors(doing: str) -> Generator[None]:
    """Turns what the library raises into a SandboxError that begins with `doing`."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        explanation = getattr(error, "explanation", None) or error
        raise SandboxError(f"{doing}: {explanation}") from error


def _try_socket(address: str, timeout_s: int) -> None:
    """Raises SandboxError. The library forgets to close a socket that it could not connect."""
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.settimeout(timeout_s)
            try:
                attempt.connect(address.removeprefix("unix://"))
            except OSError as error:
                raise SandboxError(_explained(address, error)) from error


def _local_address(environ: Mapping[str, str]) -> str:
    """The engine's socket, Docker Desktop's, or that of a rootless engine; the first that exists."""
    places = [Path("/var/run/docker.sock")]
    if home := environ.get("HOME"):
        places.append(Path(home, ".docker/run/docker.sock"))
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        places.append(Path(runtime, "docker.sock"))
    if os.name == "nt":
        return "npipe:////./pipe/docker_engine"
    return f"unix://{next((place for place in places if place.exists()), places[0])}"


def _explained(address: str, error: Exception) -> str:
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    # The library's own errors carry the reason as an argument of an argument.
    reasons = [*causes, *(inner for cause in causes for inner in _inside(cause))]
    if any(isinstance(reason, PermissionError) for reason in reasons):
        return (
            f"this user may not use the Docker engine at {address}: add it to the group `docker` and log in again, "
            "or run a rootless engine and set DOCKER_HOST to its socket"
        )
    if any(isinstance(reason, FileNotFoundError | ConnectionRefusedError) for reason in reasons):
        return f"there is no Docker engine at {address}. {INSTALL}"
    return f"the Docker engine at {address} cannot be reached: {error}"


def _inside(error: BaseException) -> Iterator[BaseException]:
    for argument in error.args:
        if isinstance(argument, BaseException):
            yield argument
            yield from _inside(argument)
