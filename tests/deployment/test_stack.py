"""`docker compose up` on a real engine, with images that are built here without a registry, as a stranger would do it.

The tests build on each other in the order of the file: the last one takes everything down. They need a Docker engine,
Compose, PostgreSQL's programs on this machine, and an index that pip reaches.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from docker.errors import ImageNotFound
from mcp import Client
from mcp import types as t
from mcp.client.streamable_http import streamable_http_client

from proxy.sandbox.engine import OWNER
from tests.deployment.compose import (
    ROOT,
    Compose,
    commands,
    copy_of_the_repository,
    engine,
    environment,
    require_compose,
)
from tests.fixtures.running import free_port

pytestmark = [pytest.mark.docker, pytest.mark.anyio, pytest.mark.timeout(1500)]

PREPARE_S, ANSWER_S, ROWS_S, LISTED_S = 300.0, 60.0, 30.0, 60.0
SERVICES = ("gateway", "postgres", "servers", "broker")
AGENT = "laptop"
OVERRIDE = """
services:
  servers:
    volumes:
      - ./plain.py:/srv/plain.py:ro
"""
PLAIN = {"command": "python3", "args": ["-I", "-S", "/srv/plain.py", "echo"], "description": "Echoes and adds"}
NOTES = {**PLAIN, "description": "Keeps a note and repeats it"}
LEARN_S, TAKEN_S = 400.0, 120.0
LEARNED = 60
"""Episodes that are learned from; what gates ask for is scaled down with them, and nothing else is changed."""
SCALED = (
    *("--least", "40", "--good-episodes", "2", "--new", "1", "--no-rubrics", "--shadowed", "0", "--share", "0.5"),
    *("--least-tasks", "2", "--least-clusters", "2", "--margin", "0.5", "--router-budget-ms", "10000"),
)
NOUNS = (
    "anchor basket candle dragon engine falcon garden hammer island jacket kettle ladder magnet needle orchid pencil "
    "quartz ribbon saddle tunnel urchin velvet walnut yogurt zipper barley copper desert emblem feather glacier "
    "harvest insect jungle kitten lantern marble nectar oyster parrot rabbit salmon timber utopia violin window acorn "
    "bishop cactus dolphin elbow forest goblet helmet ink jewel knight lemon mirror napkin olive puzzle rocket spider"
)


@dataclass(frozen=True)
class Stack:
    """What runs, and what an agent was told of it."""

    compose: Compose
    url: str
    token: str

    @asynccontextmanager
    async def agent(self) -> AsyncGenerator[Client]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=ANSWER_S) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, mode="legacy", read_timeout_seconds=ANSWER_S) as client:
                yield client

    async def call(self, client: Client, name: str, **arguments: Any) -> str:
        with anyio.fail_after(ANSWER_S):
            result = await client.call_tool(name, arguments)
        text = "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))
        assert not result.is_error, text
        return text

    def query(self, sql: str) -> list[str]:
        """Rows of the database, one text each, asked with the password that only .env and these containers have."""
        ask = f'PGPASSWORD="$POSTGRES_PASSWORD" psql -h 127.0.0.1 -U toolatlas -d toolatlas -At -c "{sql}"'
        return self.compose.inside("postgres", "sh", "-c", ask).splitlines()

    def wait_for_rows(self, sql: str, at_least: int) -> list[str]:
        deadline = time.monotonic() + ROWS_S
        while len(found := self.query(sql)) < at_least:
            if time.monotonic() > deadline:
                pytest.fail(f"{len(found)} rows of {at_least} within {ROWS_S:g} s:\n{self.compose.logs('gateway')}")
            time.sleep(0.25)
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    require_compose()
    folder = copy_of_the_repository(tmp_path_factory.mktemp("stack"))
    project = f"toolatlas-test-{secrets.token_hex(4)}"
    compose = Compose(folder, project, commands()[0], ("test.yml",))
    (folder / "test.yml").write_text(OVERRIDE)
    (folder / "deploy" / "config" / "mcp.json").write_text(json.dumps({"mcpServers": {"plain": PLAIN, "notes": NOTES}}))
    shutil.copy(ROOT / "tests" / "fixtures" / "plain.py", folder / "plain.py")
    subprocess.run([folder / "deploy" / "make-env", "--sandbox"], check=True, env=environment(), timeout=20)
    with engine() as client:
        before = {tag for image in client.images.list() for tag in image.tags}
    bases = prepare(folder)
    port = free_port()
    own = {
        "GATEWAY_IMAGE": f"{project}-gateway:1",
        "SERVERS_IMAGE": f"{project}-servers:1",
        "GATEWAY_PORT": str(port),
    }
    with (folder / ".env").open("a") as file:
        file.write("".join(f"{name}={value}\n" for name, value in (bases | own).items()))
    try:
        compose.build()
        token = compose.run("run", "--rm", "--no-deps", "gateway", "token", "create", AGENT).strip()
        compose.up()
        for service in SERVICES:
            compose.wait_until_healthy(service)
        yield Stack(compose, f"http://127.0.0.1:{port}", token)
    finally:
        compose.remove()
        # Whoever has made such bases before keeps them.
        made = [own["GATEWAY_IMAGE"], own["SERVERS_IMAGE"], *(name for name in bases.values() if name not in before)]
        with engine() as client:
            for name in made:
                with suppress(ImageNotFound):
                    client.images.remove(name, force=True)
            client.images.prune(filters={"label": "toolatlas.stage=build"})


def prepare(folder: Path) -> dict[str, str]:
    """Bases of this machine's files, and wheels."""
    done = subprocess.run(
        [sys.executable, folder / "deploy" / "local" / "prepare.py"],
        capture_output=True,
        text=True,
        timeout=PREPARE_S,
        # pip is configured by the environment here and there.
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    if done.returncode != 0:
        pytest.fail(f"images cannot be built here: {done.stderr[-3000:]}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_every_service_runs_as_hardened_as_it_is_written(stack: Stack) -> None:
    for service in SERVICES:
        container = stack.compose.container(service)
        host, user = container["HostConfig"], container["Config"]["User"]
        assert host["CapDrop"] == ["ALL"], service
        assert not host["CapAdd"]
        assert host["ReadonlyRootfs"] is True
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["Privileged"] is False
        assert user == "0:10002" if service == "broker" else user.split(":")[0] not in ("", "0", "root")
        sockets = [mount for mount in container["Mounts"] if mount["Destination"].endswith("docker.sock")]
        assert bool(sockets) == (service == "broker")
    assert stack.compose.container("migrate")["State"]["ExitCode"] == 0


def test_whoever_has_no_token_gets_nothing(stack: Stack) -> None:
    for headers in ({}, {"Authorization": "Bearer ta_guessed"}):
        answer = httpx2.post(f"{stack.url}/mcp", json={}, headers=headers, timeout=ANSWER_S)
        assert answer.status_code == 401


async def test_an_agent_finds_a_tool_and_calls_it_where_servers_run(stack: Stack) -> None:
    async with stack.agent() as client:
        await until_listed(stack, client)
        assert "plain.add" in await stack.call(
            client, "search_tools", query="add two numbers", task="What is 2 and 40?"
        )
        assert await stack.call(client, "call_tool", tool="plain.add", arguments={"a": 2, "b": 40}) == "42"
        await stack.call(client, "finish_task", outcome="done", answer="42")


async def test_a_server_gets_none_of_the_gateways_variables(stack: Stack) -> None:
    async with stack.agent() as client:
        told = await stack.call(client, "call_tool", tool="plain.whoami", arguments={})
    assert "PATH" in told
    assert not re.search(r"POSTGRES|TOOLATLAS|OTEL", told)


def test_where_servers_run_neither_database_nor_state_nor_the_gateway_can_be_reached(stack: Stack) -> None:
    attempts = """
import os, socket
found = []
for host, port in (("postgres", 5432), ("gateway", 8765)):
    try:
        socket.create_connection((host, port), 3)
        found.append(host)
    except OSError:
        pass
found += [path for path in ("/var/lib/toolatlas", "/etc/toolatlas", "/var/run/docker.sock") if os.path.exists(path)]
print(os.getuid(), found)
"""
    assert stack.compose.inside("servers", "python3", "-c", attempts).strip() == "10003 []"


def test_servers_of_python_and_of_node_can_be_started(stack: Stack) -> None:
    for command in ("uvx", "npx", "node"):
        assert re.search(r"\d+\.\d+\.\d+", stack.compose.inside("servers", command, "--version"))


async def test_a_program_runs_in_a_container_that_the_broker_starts(stack: Stack) -> None:
    code = "import os\nprint(os.getuid(), [plain.add(a=n, b=1) for n in range(3)])"
    async with stack.agent() as client:
        said = await stack.call(client, "run_python", code=code)
    assert "10001 ['1', '2', '3']" in said or "10001 [1, 2, 3]" in said
    assert stack.compose.inside(
        "gateway", "python3", "-c", "import os; print(os.path.exists('/var/run/docker.sock'))"
    ) == ("False\n")


def test_what_the_agent_did_is_in_postgresql(stack: Stack) -> None:
    stack.wait_for_rows(f"select id from episodes where agent = '{AGENT}'", 3)
    steps = stack.wait_for_rows(
        "select name || ' ' || outcome from steps where name in ('search_tools', 'run_python')", 2
    )
    assert {"search_tools ok", "run_python ok"} <= set(steps)
    calls = stack.wait_for_rows("select server || '.' || tool || ' ' || outcome from calls", 5)
    assert calls.count("plain.add ok") == 4
    assert stack.wait_for_rows("select answer from endings where outcome = 'done'", 1) == ["42"]


def test_what_the_agent_did_is_judged_by_a_service_that_ends(stack: Stack) -> None:
    ended = stack.wait_for_rows("select episode_id from endings", 1)
    said = json.loads(stack.compose.run("run", "--rm", "-T", "judge", "judge", "run", "--json", limit_s=120))
    assert said["judged"] >= len(ended)
    assert len(stack.wait_for_rows("select reward from judgements where reward is not null", 1)) == said["rewarded"]


async def work(stack: Stack, client: Client, number: int) -> None:
    """One task: look for what adds, or for what repeats, use it, and say what it said."""
    # Words that no other task has in this order, so that they are no near duplicates.
    nouns = NOUNS.split()
    words = [nouns[(number * 11 + place * (number % 13 + 3)) % len(nouns)] for place in range(9)]
    # The numbers are the user's, or the judge would take them for made up.
    task = f"{' '.join(words)} {number} and 1" if number % 2 else " ".join(words)
    if number % 2:
        await stack.call(client, "search_tools", query=f"sum of {words[0]}", task=task)
        answer = await stack.call(client, "call_tool", tool="plain.add", arguments={"a": number, "b": 1})
    else:
        await stack.call(client, "search_tools", query=f"say {words[0]} once more", task=task)
        answer = await stack.call(client, "call_tool", tool="notes.echo", arguments={"text": words[1]})
    await stack.call(client, "finish_task", outcome="done", answer=answer)


def learned(stack: Stack, *options: str) -> dict[str, Any]:
    words = ("run", "--rm", "-T", "learn", "learn", "--json", *options)
    return json.loads(stack.compose.run(*words, limit_s=LEARN_S, check=False))


def test_with_too_little_traffic_learning_says_how_much_there_is_and_why(stack: Stack) -> None:
    said = learned(stack)
    assert said["adapter"] is None
    assert re.match(
        r"[0-9]+ of 200 episodes: with less, nothing is trained\. The log has [0-9]+; left out are", said["idle"]
    )


async def test_what_is_learned_from_the_log_is_taken_by_the_running_gateway(stack: Stack) -> None:
    started = stack.compose.container("gateway")["State"]["StartedAt"]
    async with stack.agent() as client:
        for number in range(LEARNED):
            await work(stack, client, number)
        stack.wait_for_rows("select episode_id from endings where outcome = 'done'", LEARNED)
        made = learned(stack, *SCALED)
        assert made["idle"] is None
        assert [look["after"] for look in made["looks"]] == ["shadow"], made["looks"]
        assert [look["after"] for look in learned(stack, *SCALED, "--new", "1000")["looks"]] == ["canary"]
        answered = f"select step_id from decisions where adapter = '{made['adapter']}'"
        deadline, number = time.monotonic() + TAKEN_S, LEARNED
        while not stack.query(answered):
            assert time.monotonic() < deadline, stack.compose.logs("gateway")
            await work(stack, client, number)
            number += 1
    assert stack.compose.container("gateway")["State"]["StartedAt"] == started


async def test_calls_go_on_while_the_database_is_away_and_the_log_catches_up(stack: Stack) -> None:
    stack.compose.run("stop", "postgres")
    async with stack.agent() as client:
        for number in range(5):
            assert await stack.call(client, "call_tool", tool="plain.echo", arguments={"text": f"away {number}"})
    stack.compose.run("start", "postgres")
    stack.compose.wait_until_healthy("postgres")
    stack.wait_for_rows("select step_id from calls where tool = 'echo'", 5)


async def test_a_gateway_that_is_replaced_knows_its_tokens_and_its_log(stack: Stack) -> None:
    stack.compose.run("up", "-d", "--no-build", "--no-deps", "--force-recreate", "gateway", limit_s=120)
    stack.compose.wait_until_healthy("gateway")
    async with stack.agent() as client:
        await until_listed(stack, client)
        assert await stack.call(client, "call_tool", tool="plain.add", arguments={"a": 1, "b": 1}) == "2"
    stack.wait_for_rows("select step_id from calls where tool = 'add'", 5)


def test_everything_goes_down_again_and_nothing_is_left(stack: Stack) -> None:
    owner = stack.compose.inside("broker", "sh", "-c", "cat /run/toolatlas/broker/state/broker/owner").strip()
    stack.compose.remove()
    assert stack.compose.rest() == []
    with engine() as client:
        assert client.containers.list(all=True, filters={"label": f"{OWNER}={owner}"}) == []


async def until_listed(stack: Stack, client: Client) -> None:
    """The server has just been started, or is being."""
    with anyio.move_on_after(LISTED_S):
        while "plain.add" not in await stack.call(client, "list_tools", server="plain"):
            await anyio.sleep(0.25)
        return
    pytest.fail(stack.compose.logs("gateway", "servers"))
