"""Simulated traffic through a real gateway: what is logged is what was worked, and seeds repeat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.lean import Era, HttpWire, LeanClient
from bench.targets.gateway import write_catalog
from bench.targets.invented import invented_rows
from bench.traffic.agents import Worked
from bench.traffic.habits import careless_share
from bench.traffic.poison import POISONER, PRAISE, STUFFER
from bench.traffic.running import Made, make_traffic, plan, write_labels
from bench.traffic.stage import stage
from bench.traffic.tasks import known_tasks, read_work
from bench.traffic.worlds import world_of
from proxy.endpoint.tokens import ANONYMOUS
from proxy.store.database import Database
from proxy.store.trajectories import Trajectory, stream

TASKS = [
    {
        "task_id": "picnic",
        "text": "I plan a picnic near Lake Orlo with Mira Tolvane. What does the forecast say, and who has to be told?",
        "needed_servers": ["weather", "mail"],
        "needed_tools": ["weather:get_forecast", "mail:search_message"],
    },
    {
        "task_id": "trip",
        "text": "Find me a route to Castle Venn, and put an event about it into the calendar for Jonas Beck.",
        "concrete_text": "1. Search a route to Castle Venn. 2. Create the event in the calendar of Jonas Beck.",
        "needed_servers": ["maps", "calendar"],
        "needed_tools": ["maps:search_route", "calendar:create_event"],
    },
    {"task_id": "none", "text": "Nobody can do this.", "needed_servers": ["x"], "needed_tools": ["x:y"]},
]
EPISODES = 10


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalog(tmp_path_factory.mktemp("catalog"), invented_rows(servers=6, tools=120))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in TASKS), "utf-8")
    return path


async def make(catalog: Path, tasks: Path, database: str, **more: Any) -> Made:
    given = {"episodes": EPISODES, "seed": 5, "agents": 2, "bad": 0.5, "router": "lexical", **more}
    return await make_traffic(catalog, tasks, database, **given)


async def read(database: str) -> dict[str, Trajectory]:
    log = Database(database)
    try:
        return {trajectory.id: trajectory async for trajectory in stream(log)}
    finally:
        await log.close()


def everything(folder: Path, name: str) -> bytes:
    """All that files of a database hold."""
    return b"".join(path.read_bytes() for path in folder.glob(f"{name}*"))


def said(trajectory: Trajectory) -> list[tuple[str, Any, str]]:
    return [(step.name, step.arguments, step.outcome) for step in trajectory.steps]


@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_every_server_answers_through_the_gateway(catalog: Path, tasks: Path, tmp_path: Path) -> None:
    async with stage(catalog, tasks, f"sqlite:///{tmp_path / 'log.db'}", agents=1, router="lexical") as running:
        work = known_tasks(read_work(tasks), frozenset(map(":".join, running.written)))
        assert [task.task_id for task in work] == ["picnic", "trip"]
        wire = HttpWire(running.url)
        client = LeanClient(wire, Era.SESSION, running.credentials["agent-01"])
        await client.open()
        words = {name: running.offers[written].description for name, written in running.written.items()}
        for task in work:
            for need, known in zip(task.needs, world_of(task, words), strict=True):
                parameter = next(iter(running.offers[running.written[need]].schema["properties"]))
                call = {"tool": running.written[need], "arguments": {parameter: task.entities[0]}}
                result = await client.call("call_tool", call)
                assert json.loads(result["content"][0]["text"]) == known.record
        for server in {server for server, _ in running.written}:
            tool = next(written for (name, _), written in running.written.items() if name == server)
            arguments = {next(iter(running.offers[tool].schema["properties"])): "nobody"}
            result = await client.request(
                "tools/call", {"name": "call_tool", "arguments": {"tool": tool, "arguments": arguments}}
            )
            text = result["content"][0]["text"]
            assert text == "not found: nobody" if result.get("isError") else json.loads(text) == {"results": []}
        wire.close()


@pytest.mark.anyio
@pytest.mark.timeout(240)
async def test_episodes_are_logged_as_they_were_worked_and_repeat(catalog: Path, tasks: Path, tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("first", "second")]
    made, again = [await make(catalog, tasks, url) for url in urls]
    first, second = [await read(url) for url in urls]
    assert (len(made.episodes), made.left_out, len(first)) == (EPISODES, 1, EPISODES)
    for worked in made.episodes:
        trajectory = first[str(worked.episode)]
        assert trajectory.agent == worked.agent
        called = [step.arguments["tool"] for step in trajectory.steps if step.name == "call_tool"]
        assert called == [decision["tool"] for decision in worked.decisions]
        assert sum(step.name == "search_tools" for step in trajectory.steps) == worked.searches
        assert trajectory.ending is not None
        assert (trajectory.ending.outcome, trajectory.steps[-1].name) == (worked.outcome, "finish_task")
    for one, other in zip(made.episodes, again.episodes, strict=True):
        assert said(first[str(one.episode)]) == said(second[str(other.episode)])
    assert made.counts() == again.counts()
    assert 0 < made.counts()["good episodes"] < EPISODES
    assert 0 < made.counts()["bad decisions"] < made.counts()["decisions"]


@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_what_the_simulator_knows_is_not_in_the_log(catalog: Path, tasks: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    made = await make(catalog, tasks, f"sqlite:///{tmp_path / 'log.db'}", episodes=4, labels=labels)
    rows = [json.loads(line) for line in labels.read_text("utf-8").splitlines()]
    assert [(row["episode"], row["good"]) for row in rows] == [(each.episode, each.good) for each in made.episodes]
    logged = everything(tmp_path, "log.db")
    assert b"finish_task" in logged
    for told in (b"careless", b"claimed", b'"slip"', b'"useful"', b"needed_tools"):
        assert told not in logged


@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_poisoner_claims_success_with_a_wrong_server(catalog: Path, tasks: Path, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'log.db'}"
    made = await make(catalog, tasks, database, episodes=4, poison=1.0, stuffed=True)
    log = await read(database)
    for worked in made.episodes:
        trajectory = log[str(worked.episode)]
        assert (trajectory.agent, worked.outcome, worked.good) == (POISONER, "done", False)
        calls = [step for step in trajectory.steps if step.call is not None]
        assert calls
        assert all(step.call is not None and step.call.server == STUFFER for step in calls)
        assert all(PRAISE in json.dumps(step.observation) for step in calls)


def test_each_task_is_worked_by_several_agents(tasks: Path) -> None:
    work = read_work(tasks)
    wishes = plan(work, ["a", "b", ANONYMOUS], range(300), seed=1, poison=0.0)
    for task in work:
        agents = [wish.agent for wish in wishes if wish.task is task]
        assert len(agents) == 100
        assert set(agents) == {"a", "b", ANONYMOUS}
    part = plan(work, ["a", "b", ANONYMOUS], range(100, 200), seed=1, poison=0.0)
    assert part == wishes[100:200]
    poisoned = plan(work, ["a", "b"], range(300), seed=1, poison=0.9)
    assert 240 < sum(wish.agent == POISONER for wish in poisoned) < 300


@pytest.mark.parametrize("bad", [0.0, 0.1, 0.3, 0.6])
def test_the_share_of_careless_episodes_gives_the_share_of_slips(bad: float) -> None:
    share = careless_share(bad)
    assert share * 0.8 + (1 - share) * 0.2 * bad == pytest.approx(bad)


def labels_of(path: Path, episodes: Sequence[Worked]) -> list[dict[str, Any]]:
    write_labels(path, Made(episodes=episodes, seconds=1.0, cpu_s={}, left_out=0))
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_labels_are_added_to_those_of_earlier_traffic(tmp_path: Path) -> None:
    good = Worked(task="t", agent="a", careless=False, episode="e_1", outcome="done", needs=1, met=1)
    bad = Worked(task="t", agent="a", careless=True, episode="e_2", outcome="done", needs=1, met=1, claimed=True)
    labels_of(tmp_path / "labels", [good])
    rows = labels_of(tmp_path / "labels", [bad])
    assert [(row["episode"], row["good"]) for row in rows] == [("e_1", True), ("e_2", False)]
