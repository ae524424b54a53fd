"""Compose as a command, whichever of its two forms is installed, over a copy of what images are built from.

Above: the tests of this folder. Below: the Docker engine. Everything that a project made is removed by `remove`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.docker_client import open_engine

ROOT = Path(__file__).parents[2]
NEEDED = ("deploy", "proxy", "judge", "trainer", "migrations", "docker-compose.yml", ".dockerignore")
NEEDED_OF_THE_PROJECT = ("pyproject.toml", "README.md", "LICENSE")
PROFILES = ("sandbox", "observability", "judge", "learn")
BUILD_S, UP_S, DOWN_S, COMMAND_S = 600.0, 180.0, 120.0, 60.0
POLL_S = 0.25
RESTARTS = 6
"""Of a gateway whose broker is still starting; more are a failure."""
PROJECT, SERVICE, ONE_OFF = (f"com.docker.compose.{name}" for name in ("project", "service", "oneoff"))
SHOWN = 6_000
"""Characters of a service's log in a failure."""


@cache
def commands() -> tuple[tuple[str, ...], ...]:
    """Every form of Compose that is installed here."""
    forms = [form for form in (("docker", "compose"), ("docker-compose",)) if shutil.which(form[0])]
    return tuple(form for form in forms if subprocess.run([*form, "version"], capture_output=True).returncode == 0)


def require_compose() -> None:
    """Skip the test where there is none; in CI, which installs one, that is a failure."""
    if not commands():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "Compose is not installed: apt-get install docker-compose"
        )


def copy_of_the_repository(to: Path) -> Path:
    """What Compose reads, without the .env, the wheels and the tokens that a developer may have there."""
    private = shutil.ignore_patterns("__pycache__", "*.whl", "*.token", ".env", "mcp.json.lock")
    for name in (*NEEDED, *NEEDED_OF_THE_PROJECT):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=private)
        else:
            shutil.copy(source, to / name)
    return to


def environment(**more: str) -> dict[str, str]:
    """That of this process without what Compose and our files would read from it: only .env counts."""
    read = (
        "COMPOSE_",
        "TOOLATLAS_",
        "POSTGRES_",
        "SERVERS_IMAGE",
        "BASE_IMAGE",
        "OTEL_",
        "PIP_INDEX_URL",
        "DOCKER_SOCKET",
    )
    return {name: value for name, value in os.environ.items() if not name.startswith(read)} | more


@dataclass(frozen=True)
class Compose:
    """One project in one folder."""

    folder: Path
    project: str
    command: tuple[str, ...]
    files: tuple[str, ...] = ()
    """Beside docker-compose.yml."""

    def run(self, *words: str, limit_s: float = COMMAND_S, check: bool = True, given: str | None = None) -> str:
        """Standard output of `compose WORDS`; with `check`, fails with what it said when it fails."""
        files = [part for name in ("docker-compose.yml", *self.files) for part in ("-f", name)]
        done = subprocess.run(
            [*self.command, *files, "-p", self.project, *words],
            cwd=self.folder,
            env=environment(),
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        if check and done.returncode != 0:
            pytest.fail(
                f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-SHOWN:]}\n{done.stderr[-SHOWN:]}"
            )
        return done.stdout

    def inside(self, service: str, *words: str, check: bool = True) -> str:
        """Standard output of a command in the running container of a service."""
        return self.run("exec", "-T", service, *words, check=check)

    def build(self) -> None:
        # Other services have the same images; each build would be sent all files again.
        self.run("build", "gateway", "servers", limit_s=BUILD_S)

    def up(self, *services: str) -> None:
        self.run("up", "-d", "--no-build", *services, limit_s=UP_S)

    def container(self, service: str) -> dict[str, Any]:
        """What the engine says of the one container of a service."""
        labels = [f"{PROJECT}={self.project}", f"{SERVICE}={service}", f"{ONE_OFF}=False"]
        with engine() as client:
            found = client.containers.list(all=True, filters={"label": labels})
            assert len(found) == 1, f"{len(found)} containers of {service}"
            return found[0].attrs

    def wait_until_healthy(self, service: str, within_s: float = UP_S) -> None:
        deadline = time.monotonic() + within_s
        while self.container(service)["State"].get("Health", {}).get("Status") != "healthy":
            if time.monotonic() > deadline:
                pytest.fail(f"{service} is not healthy within {within_s:g} s:\n{self.logs(service)}")
            if self.container(service)["RestartCount"] > RESTARTS:
                pytest.fail(f"{service} ends again and again:\n{self.logs(service)}")
            time.sleep(POLL_S)

    def logs(self, *services: str) -> str:
        return self.run("logs", "--no-color", "--tail", "60", *services, check=False)[-SHOWN:]

    def remove(self) -> None:
        self.run("down", "--volumes", "--remove-orphans", limit_s=DOWN_S)

    def rest(self) -> list[str]:
        """What the engine still has of this project."""
        of = {"label": f"{PROJECT}={self.project}"}
        with engine() as client:
            things = [*client.containers.list(all=True, filters=of), *client.volumes.list(filters=of)]
            return [thing.name for thing in [*things, *client.networks.list(filters=of)]]


@contextmanager
def engine() -> Iterator[Any]:
    """A client of the engine."""
    client = open_engine(os.environ)
    try:
        yield client
    finally:
        client.close()
