"""Chooses the backend, once, when the gateway starts, and says which and why.

Above: app.py. Below: docker.py and embedded.py. Nothing changes the choice later: an agent that was told what its
language can do must not find another one half-way, and a Docker engine that is gone is an error, not a reason to run
code elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from proxy.errors import ConfigurationError, SandboxError
from proxy.sandbox.base import Backend, Limits
from proxy.sandbox.container import Container
from proxy.sandbox.docker import ContainerBackend, DockerBackend
from proxy.sandbox.engine import Engine
from proxy.sandbox.engine_source import EngineSource
from proxy.sandbox.source import Source

Wanted = Literal["auto", "docker", "embedded", "off"]
ProvideImage = Callable[[Any], str]
"""Given a `docker.DockerClient`, the id of the sandbox's image, built where it is not there. Blocks. Raises
SandboxError."""
ProvideEmbedded = Callable[[Limits], Backend]
"""Raises ImportError where this machine has no embedded interpreter."""

logger = logging.getLogger("toolatlas.sandbox")


@dataclass(frozen=True, slots=True)
class Choice:
    """`backend` is None where code cannot be run; `why` is one sentence for the gateway's owner."""

    backend: Backend | None
    why: str

    @property
    def name(self) -> str:
        return self.backend.name if self.backend is not None else "off"


async def choose(
    wanted: Wanted,
    limits: Limits,
    *,
    folder: Path,
    environ: Mapping[str, str],
    image: ProvideImage,
    embedded: ProvideEmbedded,
    broker: Source | None = None,
) -> Choice:
    """The backend to use until the gateway ends. `folder` is for the state of the Docker backend. With a `broker`,
    containers come from it, and no engine is looked for.

    Raises:
        ConfigurationError: What was asked for by name cannot be had; says why.
    """
    choice = await _choose(wanted, limits, folder, environ, image, embedded, broker)
    logger.info("run_python: %s; %s", choice.name, choice.why)
    return choice


async def _choose(
    wanted: Wanted,
    limits: Limits,
    folder: Path,
    environ: Mapping[str, str],
    image: ProvideImage,
    embedded: ProvideEmbedded,
    broker: Source | None,
) -> Choice:
    if wanted == "off":
        return Choice(None, "it is switched off")
    no_docker = ""
    if wanted in ("docker", "auto"):
        try:
            return Choice(*await _docker(limits, folder, environ, image, broker))
        except SandboxError as error:
            if wanted == "docker":
                see_to = "Docker engine" if broker is None else "broker"
                raise ConfigurationError(
                    f"the sandbox 'docker' cannot be used: {error}; see to the {see_to}, or choose 'auto'"
                ) from error
            no_docker = f"{error}; "
    try:
        why = f"{no_docker}so the embedded interpreter, which knows less of Python" if no_docker else "it was asked for"
        # Whether its program runs here shows only when it is started.
        async with embedded(limits).running():
            pass
        return Choice(embedded(limits), why)
    except (ImportError, SandboxError) as error:
        if wanted == "embedded":
            raise ConfigurationError(
                f"the sandbox 'embedded' cannot be used: {error}; install pydantic-monty, or choose 'docker'"
            ) from error
        return Choice(None, f"{no_docker}and the embedded interpreter cannot be used ({error})")


async def _docker(
    limits: Limits,
    folder: Path,
    environ: Mapping[str, str],
    image: ProvideImage,
    broker: Source | None,
) -> tuple[ContainerBackend, str]:
    """Raises SandboxError."""
    if broker is not None:
        await try_out(broker, limits)
        return ContainerBackend(limits, broker), "a broker of a Docker engine answers"
    engine = await anyio.to_thread.run_sync(lambda: Engine.connect(environ))
    try:
        image_id = await anyio.to_thread.run_sync(lambda: image(engine.client))
        await try_out(EngineSource(engine, image_id, limits, folder), limits)
    finally:
        engine.close()
    runtime = f" with {engine.runtime}" if engine.runtime is not None else ""
    return DockerBackend(limits, engine=engine, image=image_id, folder=folder), f"a Docker engine answers{runtime}"


async def try_out(source: Source, limits: Limits) -> None:
    """Start one container: engines differ in which limits they can hold, and that shows only at a start.

    Raises:
        SandboxError: It does not come up.
    """
    problem: SandboxError | None = None
    async with source.running():
        try:
            container = await Container.start(source, limits)
            try:
                await container.until_ready()
            finally:
                container.close()
                with anyio.CancelScope(shield=True):
                    await source.remove(container.id)
        except SandboxError as error:
            # Raised in there, a task group would wrap it.
            problem = error
    if problem is not None:
        raise problem
