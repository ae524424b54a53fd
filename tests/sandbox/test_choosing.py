"""Which backend a gateway gets: with and without an engine, and what it is told."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigurationError, SandboxError
from proxy.sandbox.base import Backend, Limits
from proxy.sandbox.choosing import choose
from proxy.sandbox.docker import DockerBackend
from proxy.sandbox.engine import Engine
from tests.sandbox.conftest import Tools

pytestmark = pytest.mark.anyio

LIMITS = Limits(warm=0)


class Embedded:
    """Stands for the embedded backend where only the choice of it matters."""

    name = "embedded"

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        yield

    def __init__(self, limits: Limits) -> None:
        self.limits = limits


def embedded(limits: Limits) -> Backend:
    return Embedded(limits)  # type: ignore[return-value]


def broken(limits: Limits) -> Backend:
    """An embedded interpreter whose program does not run on this machine."""

    class Broken(Embedded):
        @asynccontextmanager
        async def running(self) -> AsyncGenerator[None]:
            raise SandboxError("it cannot be started")
            yield

    return Broken(limits)  # type: ignore[return-value]


def not_installed(limits: Limits) -> Backend:
    raise ImportError("no module pydantic_monty")


def no_image(client: Any) -> str:
    raise SandboxError("the image cannot be built")


NOWHERE = {"DOCKER_HOST": "unix:///no/such/docker.sock"}


@pytest.mark.parametrize(
    ("wanted", "provided", "name", "words"),
    [
        ("off", embedded, "off", "switched off"),
        ("embedded", embedded, "embedded", "asked for"),
        ("auto", broken, "off", "it cannot be started"),
        ("auto", embedded, "embedded", "there is no Docker engine at unix:///no/such/docker.sock"),
        ("auto", not_installed, "off", "no module pydantic_monty"),
    ],
)
async def test_without_an_engine(wanted: Any, provided: Any, name: str, words: str, tmp_path: Path) -> None:
    choice = await choose(wanted, LIMITS, folder=tmp_path, environ=NOWHERE, image=no_image, embedded=provided)
    assert choice.name == name
    assert words in choice.why


@pytest.mark.parametrize("wanted", ["docker", "embedded"])
async def test_what_is_asked_for_by_name_and_cannot_be_had_is_an_error(wanted: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"the sandbox '{wanted}' cannot be used"):
        await choose(wanted, LIMITS, folder=tmp_path, environ=NOWHERE, image=no_image, embedded=not_installed)


async def test_another_way_to_an_engine_is_refused_in_clear_words() -> None:
    with pytest.raises(SandboxError, match=r"npipe.*must begin with unix:// or tcp://"):
        Engine.connect({"DOCKER_HOST": "npipe:////./pipe/docker_engine"})


@pytest.mark.docker
async def test_with_an_engine_docker_is_chosen_if_its_containers_start(image: str, tmp_path: Path) -> None:
    environ = dict(os.environ)
    chosen = await choose("auto", LIMITS, folder=tmp_path, environ=environ, image=lambda _: image, embedded=embedded)
    assert chosen.name == "docker"
    assert "a Docker engine answers" in chosen.why
    assert isinstance(chosen.backend, DockerBackend)
    async with chosen.backend.running():
        interpreter = await chosen.backend.open("t")
        assert (await interpreter.run("1", 10, Tools())).value == "1"
    for provide, words in ((no_image, "cannot be built"), (lambda _: "toolatlas-sandbox:no-such", "could not start")):
        other = await choose("auto", LIMITS, folder=tmp_path, environ=environ, image=provide, embedded=embedded)
        assert other.name == "embedded"
        assert words in other.why
