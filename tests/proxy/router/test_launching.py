"""The router's process is started before it is known whether there is to be one; a wrong guess is harmless."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from proxy.router.launching import EMBEDDINGS, Launched, launched_early, worker_command
from proxy.router.process import RouterProcess
from proxy.router.weights import DEFAULT_ENCODER
from tests.fixtures import routed
from tests.fixtures.routed import LIMIT_S, QUICK, until

ROUTER = ("torch", "transformers")


@pytest.mark.anyio
async def test_a_process_that_runs_already_is_the_first_one_and_the_next_is_started(tmp_path: Path) -> None:
    command = routed.command(tmp_path / EMBEDDINGS, "mortal")
    launched = Launched(command)
    first = launched.take(command)
    assert first is not None
    process = RouterProcess(command, QUICK, first)
    async with process.running():
        process.offer(routed.catalog())
        await until(lambda: process.health.ready)
        assert (process.health.pid, process.health.starts) == (first.pid, 1)
        first.kill()
        await until(lambda: process.health.ready and process.health.starts == 2)
        assert process.health.pid != first.pid
    assert launched.take(command) is None
    launched.end()


def test_what_runs_something_else_is_not_taken_and_ends() -> None:
    program = [sys.executable, "-c", "import time; print(flush=True); time.sleep(3600)"]
    launched = Launched(program)
    assert launched.take([*program, "further"]) is None
    process = launched.take(program)
    assert process is not None
    assert process.poll() is None
    process.kill()
    process.communicate()
    other = Launched(program)
    other.end()
    assert other.take(program) is None
    other.end()


def test_the_end_of_what_nobody_took_is_waited_for() -> None:
    before = set(psutil.Process().children())
    launched = Launched([sys.executable, "-c", "import time; time.sleep(3600)"])
    (child,) = set(psutil.Process().children()) - before
    launched.end()
    assert not child.is_running()


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        ([], {}),
        (["servers"], {}),
        (["stdio", "serve"], {}),
        (["serve", "--help"], {}),
        (["serve", "--router", "lexical"], {}),
        (["serve", "--router-model=other"], {}),
        (["serve"], {"TOOLATLAS_ROUTER": "lexical"}),
    ],
)
def test_where_it_may_not_be_needed_none_is_started(
    arguments: Sequence[str], environ: dict[str, str], tmp_path: Path
) -> None:
    assert launched_early(arguments, environ, tmp_path) is None


@pytest.mark.parametrize("package", ROUTER)
def test_a_light_installation_starts_none(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert launched_early(["serve"], {}, tmp_path) is None


@pytest.mark.parametrize("named", [None, "/no/such/model"])
def test_the_guess_is_what_the_gateway_starts_by_default(named: str | None, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    environ = {} if named is None else {"TOOLATLAS_ROUTER_MODEL": named}
    launched = launched_early(["serve", "--port", "0"], environ, tmp_path)
    assert launched is not None
    process = launched.take(worker_command(named or DEFAULT_ENCODER, tmp_path / EMBEDDINGS))
    assert process is not None
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("module", "spared"),
    [
        ("proxy.cli", ("numpy", "proxy.app", "proxy.router.process", "sqlalchemy", "torch")),
        ("proxy.router.worker", ("fastapi", "mcp", "proxy.gateway", "sqlalchemy", "transformers")),
    ],
)
def test_what_a_restart_waits_for_is_not_imported_for_nothing(module: str, spared: Sequence[str]) -> None:
    """The process is started by the one, and begins with the other."""
    program = f"import sys, {module}; print(*sorted({set(spared)!r} & sys.modules.keys()))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert said.stdout.split() == []
