"""`toolatlas agent` and the bench of its variants: a gateway process before published servers, a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from bench.agent import errands, measured, servers, table
from bench.measure import Missing
from bench.scripted_agent import Competent
from bench.targets.gateway import start_gateway
from proxy.policy.base import Variant
from proxy.policy.limits import WorkLimits
from proxy.settings import ModelSettings
from tests.fixtures.openai_server import openai_server

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(600), pytest.mark.anyio]
COMMAND = (sys.executable, "-m", "proxy.cli", "agent")
LIMIT_S = 300.0


@dataclass(frozen=True)
class Running:
    url: str
    files: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("agent").resolve()
    try:
        configured = servers(folder / "files")
    except Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with start_gateway(folder / "gateway", configured, sandbox="embedded") as program:
        yield Running(f"http://127.0.0.1:{program.wait().port}/mcp", folder / "files")


@pytest.fixture
async def rows(running: Running) -> dict[str, dict[str, Any]]:
    with anyio.fail_after(LIMIT_S):
        found = await measured(running.url, running.files, None, list(Variant), WorkLimits())
    return {row["variant"]: row for row in found}


async def test_all_variants_do_all_tasks_and_hiding_tools_saves_what_it_promises(
    rows: dict[str, dict[str, Any]],
) -> None:
    assert [row["wrong"] for row in rows.values()] == [[]] * 4
    assert [row["failed_actions"] for row in rows.values()] == [0] * 4
    read = {variant: row["tokens_in"] for variant, row in rows.items()}
    assert read["eager"] > 2 * read["servers"] > 2 * read["tools"] * 0.9
    assert read["code"] < read["tools"]
    assert rows["code"]["turns"] < rows["tools"]["turns"]
    assert "│ eager   │   3/3 │" in table({"model": "scripted", "variants": list(rows.values())})


@pytest.mark.parametrize("variant", Variant)
async def test_the_command_works_a_task_and_prints_its_steps(running: Running, variant: Variant) -> None:
    tasks = errands(running.files)
    done = await command(running, tasks[2].task, variant, "--variant", variant)
    assert done.returncode == 0, done.stderr
    assert "\n4711\n[done; " in done.stdout
    assert done.stdout.startswith("1. ")
    shown = {
        Variant.EAGER: "1. filesystem__read_text_file",
        Variant.SERVERS: '1. list_tools {"server": "filesystem"}',
        Variant.TOOLS: '1. search_tools {"query": "read a text file"',
        Variant.CODE: "3. run_python\n```python\ntotal = 0\n",
    }
    assert shown[variant] in done.stdout


async def test_the_command_answers_in_json(running: Running) -> None:
    done = await command(running, errands(running.files)[0].task, Variant.TOOLS, "--json")
    worked = json.loads(done.stdout)
    assert (worked["outcome"], worked["answer"], worked["turns"]) == ("done", "21:00", 4)
    assert [did["name"] for did in worked["did"]][-2:] == ["call_tool", "finish_task"]
    assert worked["folded"] == []


async def test_a_small_context_folds_old_observations_and_the_task_is_still_done(running: Running) -> None:
    limits = ("--limit", "context_tokens=1450", "--limit", "keep=1", "--json")
    done = await command(running, errands(running.files)[2].task, Variant.TOOLS, *limits)
    worked = json.loads(done.stdout)
    assert worked["folded"]
    assert worked["outcome"] == "done"


async def test_the_bench_asks_an_endpoint_that_it_is_given(running: Running) -> None:
    async with openai_server(Competent(errands(running.files), Variant.TOOLS)) as served:
        own = ModelSettings(model="given", url=served.url)
        (row,) = await measured(running.url, running.files, own, [Variant.TOOLS], WorkLimits())
    assert row["wrong"] == []
    assert {each.body["model"] for each in served.asked} == {"given"}
    assert row["turns"] == len(served.asked)


async def test_what_is_missing_is_named(running: Running) -> None:
    gone = Running("http://127.0.0.1:1/mcp", running.files)
    done = await command(gone, errands(running.files)[0].task, Variant.TOOLS)
    assert done.returncode == 1
    assert "no gateway answers at http://127.0.0.1:1/mcp: start it with `toolatlas serve`" in done.stderr
    unnamed = await anyio.run_process([*COMMAND, "do it"], check=False, env={**os.environ, "TOOLATLAS_AGENT_MODEL": ""})
    assert unnamed.returncode == 1
    assert b"name the model that shall work" in unnamed.stderr


async def command(running: Running, task: str, variant: Variant, *options: str) -> subprocess.CompletedProcess[str]:
    async with openai_server(Competent(errands(running.files), variant)) as served:
        own = {"TOOLATLAS_AGENT_URL": served.url, "TOOLATLAS_AGENT_MODEL": "scripted", "COLUMNS": "300"}
        run = partial(
            subprocess.run,
            [*COMMAND, task, "--url", running.url, *options],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return await anyio.to_thread.run_sync(run)
