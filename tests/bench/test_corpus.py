"""The judge's corpus: what is set aside, what it consists of, and three tasks of it made over real servers."""

from __future__ import annotations

import json
import pkgutil
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer

from bench.corpus import plans
from bench.corpus.agent import Agent, NotPlanted, plain
from bench.corpus.defects import Good, Kind, Variant, variants
from bench.corpus.families import FAMILIES, IDS, SPLIT
from bench.corpus.made import LOG, Run, load, save
from bench.corpus.plans.ledgers import TASKS, Ledgers
from bench.corpus.running import choose, make
from bench.corpus.servers import Home, mcp_servers
from bench.corpus.split import FRESH, UNSEEN, Part, kinds_set_aside, tasks_set_aside
from proxy.store.database import Database
from proxy.store.importing import import_lines
from proxy.store.migrating import migrate
from proxy.store.trajectories import Trajectory, stream
from tests.end_to_end.test_real_servers import _require_uvx_and_npx

MADE = ("ledgers-1", "git_changes-1", "room_swap-1")
LATER = {task: family.name for family in FAMILIES if family.name in FRESH | UNSEEN for task in family.tasks}
"""Family by task, of those that are not part of the split."""
RUN = Run(
    episode="e_1",
    task="ledgers-1",
    family="ledgers",
    variant="wrong_argument",
    kind=Kind.WRONG_ARGUMENT,
    reference=False,
    set_aside=False,
)


def test_the_first_half_by_hash_is_set_aside_in_whatever_order_the_tasks_come() -> None:
    aside = tasks_set_aside(SPLIT)
    assert len(aside) == len(SPLIT) // 2
    assert tasks_set_aside(reversed(SPLIT)) == aside
    last = max(sha256(task.encode()).hexdigest() for task in aside)
    assert all(sha256(task.encode()).hexdigest() > last for task in set(SPLIT) - aside)


def test_the_first_36_tasks_are_split_as_they_were_before_there_were_others() -> None:
    assert len(SPLIT) == 36
    names = " ".join(sorted(tasks_set_aside(SPLIT)))
    assert sha256(names.encode()).hexdigest()[:16] == "3f84b02ad06868d0"
    assert set(IDS) - set(SPLIT) == set(LATER)
    assert not FRESH & UNSEEN


def test_the_kinds_set_aside_are_those_of_the_decision() -> None:
    assert kinds_set_aside() == {Kind.UNGROUNDED_ANSWER, Kind.WRONG_TOOL, Kind.WRONG_SERVER}


def test_what_is_set_aside_fresh_or_unseen_lies_in_files_that_say_so() -> None:
    aside = tasks_set_aside(SPLIT)
    found: dict[str, set[str]] = {"set_aside_": set(), "fresh_": set(), "unseen_": set(), "": set()}
    for module in pkgutil.iter_modules(plans.__path__):
        tasks = import_module(f"{plans.__name__}.{module.name}").TASKS
        nested = [one for value in tasks.values() if isinstance(value, dict) for one in value]
        found[next(start for start in found if module.name.startswith(start))] |= set(nested or tasks)
    fresh, unseen = _of(FRESH), _of(UNSEEN)
    assert found == {"set_aside_": aside, "fresh_": fresh, "unseen_": unseen, "": set(SPLIT) - aside}


def test_there_are_enough_families_and_tasks_which_differ() -> None:
    assert len(FAMILIES) >= 24
    assert {family.name for family in FAMILIES} >= FRESH | UNSEEN
    assert all(len(family.tasks) == (2 if family.name in UNSEEN else 3) for family in FAMILIES)
    assert len({task.text for family in FAMILIES for task in family.tasks.values()}) == len(IDS) >= 64
    assert all(task.startswith(f"{family.name}-") for family in FAMILIES for task in family.tasks)


def test_every_task_has_many_kinds_and_every_kind_many_tasks() -> None:
    all_kinds = {task: family.kinds for family in FAMILIES for task in family.tasks}
    for tasks, least in ((SPLIT, 5), (_of(FRESH), 6), (_of(UNSEEN), 10)):
        kinds = {task: all_kinds[task] for task in tasks}
        assert min(len(own) for own in kinds.values()) >= least
        counted = Counter(kind for own in kinds.values() for kind in own)
        assert set(counted) == set(Kind)
        assert min(counted.values()) >= len(kinds) / 2


def test_every_task_has_two_references_and_good_runs_to_score() -> None:
    runs = variants(frozenset(Kind))
    references = {run.name for run in runs if run.reference}
    assert references == {Good.PLAIN, Good.OTHER_WAY}
    assert sum(run.kind is None and not run.reference for run in runs) >= 3


def test_there_are_enough_servers(tmp_path: Path) -> None:
    packages = {" ".join(server["args"][:4]) for server in mcp_servers(Home(tmp_path)).values()}
    assert len(packages) >= 8


def test_development_leaves_out_what_is_in_another_part_and_every_run_is_in_one_part() -> None:
    development, aside, fresh, unseen = (_names(choose(only=part)) for part in Part)
    assert development
    tasks, kinds = tasks_set_aside(SPLIT), kinds_set_aside()
    assert not [run for run in development if run[0] in tasks or run[1] in kinds]
    for part, families in ((fresh, FRESH), (unseen, UNSEEN)):
        assert {task for task, _ in part} == _of(families)
        assert kinds < {kind for _, kind in part}
    assert development | aside | fresh | unseen == _names(choose())
    assert len(development) + len(aside) + len(fresh) + len(unseen) == len(_names(choose()))


def test_only_tasks_that_exist_can_be_chosen() -> None:
    assert [one.id for one in choose(["ledgers-2"])] == ["ledgers-2"]
    with pytest.raises(ValueError, match="there is no task ledgers-9; there are ledgers-1, "):
        choose(["ledgers-9"])


def test_a_folder_that_holds_something_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        make(tmp_path, choose(["ledgers-1"]))


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    save(tmp_path, [RUN])
    assert load(tmp_path) == [RUN]


def test_a_run_is_of_one_part_and_a_manifest_from_before_the_later_tasks_is_read(tmp_path: Path) -> None:
    others = replace(RUN, set_aside=True), replace(RUN, fresh=True), replace(RUN, unseen=True)
    assert [run.part for run in (RUN, *others)] == [Part.DEVELOPMENT, Part.SET_ASIDE, Part.FRESH, Part.UNSEEN]
    save(tmp_path, [RUN])
    path = tmp_path / "manifest.jsonl"
    line = json.loads(path.read_text())
    del line["fresh"], line["unseen"]
    path.write_text(json.dumps(line) + "\n")
    assert load(tmp_path) == [RUN]


@pytest.mark.parametrize("change", [{"kind": "unheard_of"}, {"more": 1}])
def test_a_line_that_is_no_run_is_refused_by_its_number(tmp_path: Path, change: dict[str, Any]) -> None:
    save(tmp_path, [RUN, RUN])
    path = tmp_path / "manifest.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{json.dumps({**json.loads(second), **change})}\n")
    with pytest.raises(ValueError, match="line 2 "):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16.75", 16.75),
        ("{'result': '16.75'}", 16.75),
        ("[{'id': 3, 'name': \"O'Hara\"}]", [{"id": 3, "name": "O'Hara"}]),
        ('{"rows": [["tea", 4.5]], "rowCount": 1}', {"rows": [["tea", 4.5]], "rowCount": 1}),
        ("{'content': 'day,amount\\n1,2\\n'}", "day,amount\n1,2\n"),
        ("day,amount\n1,2\n", "day,amount\n1,2\n"),
    ],
)
def test_results_are_read_as_the_data_that_they_are(text: str, value: object) -> None:
    assert plain(text) == value


@pytest.mark.anyio
async def test_a_run_whose_defect_has_no_place_in_its_plan_is_refused() -> None:
    server = MCPServer("gateway")

    @server.tool()
    def search_tools(query: str, task: str) -> str:
        return "calculator.calculate(*, expression)"

    @server.tool()
    def finish_task(outcome: str, answer: str) -> str:
        return "closed"

    async with Client(server) as client:
        for variant in (Variant(name="wrong_tool", kind=Kind.WRONG_TOOL), Variant(name=Good.REPAIRED_ERROR)):
            agent = Agent(client, "How much is 1 + 1?", "/files", variant, Random(1))
            with anyio.fail_after(20), pytest.raises(NotPlanted, match=variant.name):
                await agent.finish("2")
        await Agent(client, "How much is 1 + 1?", "/files", Variant(name=Good.PLAIN), Random(1)).finish("2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, tuple[Run, Trajectory]]]:
    """Run and trajectory by task and variant, of three tasks in all their variants, imported anew."""
    _require_uvx_and_npx()
    out = tmp_path_factory.mktemp("corpus") / "out"
    runs = make(out, choose(MADE), tell=lambda _: None)
    assert sorted(path.name for path in out.iterdir()) == ["corpus.jsonl", "manifest.jsonl"]
    assert load(out) == runs
    found = {trajectory.id: trajectory for trajectory in anyio.run(_imported, out / LOG, out.parent / "again.db")}
    assert sorted(found) == sorted(run.episode for run in runs)
    by_task: dict[str, dict[str, tuple[Run, Trajectory]]] = defaultdict(dict)
    for run in runs:
        by_task[run.task][run.variant] = run, found[run.episode]
    return by_task


async def _imported(log: Path, into: Path) -> list[Trajectory]:
    await migrate(f"sqlite:///{into}")
    database = Database(f"sqlite:///{into}")
    try:
        with log.open("rb") as lines:
            done = await import_lines(database, lines)
        assert not done.refused
        return [trajectory async for trajectory in stream(database)]
    finally:
        await database.close()


@pytest.mark.real_servers
@pytest.mark.timeout(300)
def test_every_run_is_logged_whole(made: dict[str, dict[str, tuple[Run, Trajectory]]]) -> None:
    assert set(made) == set(MADE)
    for task, runs in made.items():
        family = next(family for family in FAMILIES if task in family.tasks)
        assert set(runs) == {variant.name for variant in variants(family.kinds)}
        words = {trajectory.task for _, trajectory in runs.values()}
        assert len(words) == 1
        for run, trajectory in runs.values():
            assert trajectory.ending is not None
            assert trajectory.ending.task_source == "task"
            assert trajectory.answer
            assert trajectory.lost == 0
            assert [trajectory.steps[0].name, trajectory.steps[-1].name] == ["search_tools", "finish_task"]
            assert run.reference == (run.variant in (Good.PLAIN, Good.OTHER_WAY))
            assert run.set_aside == (run.kind in kinds_set_aside())
            assert not run.fresh
            assert not run.unseen


@pytest.mark.real_servers
@pytest.mark.timeout(300)
def test_good_runs_fail_nowhere_but_where_they_mend_it(made: dict[str, dict[str, tuple[Run, Trajectory]]]) -> None:
    for runs in made.values():
        for run, trajectory in _good(runs):
            failed = [step for step in trajectory.every_step() if step.outcome != "ok"]
            assert len(failed) == (run.variant == Good.REPAIRED_ERROR)
            assert run.variant != Good.BY_CODE or {step.name for step in trajectory.steps} >= {"run_python"}
        plainly, otherwise = (_calls(runs[name][1]) for name in (Good.PLAIN, Good.OTHER_WAY))
        assert plainly != otherwise
        assert _calls(runs[Good.REWORDED][1]) == plainly
        assert len(runs[Good.EXPLORING][1].steps) > len(runs[Good.PLAIN][1].steps)


@pytest.mark.real_servers
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", list(Kind))
def test_the_planted_defect_is_in_the_trajectory(
    made: dict[str, dict[str, tuple[Run, Trajectory]]], kind: Kind
) -> None:
    for task, runs in made.items():
        run, trajectory = runs[kind]
        assert run.kind is kind
        calls, answer = _calls(trajectory), trajectory.answer or ""
        good = [_calls(other) for _, other in _good(runs)]
        usual = {call for calls in good for call in calls}
        tools = {tool for tool, _ in usual}
        new = [call for call in calls if call not in usual]
        said = {number for _, other in _good(runs) for number in _numbers(other.answer)}
        asked = next(family.tasks[task] for family in FAMILIES if task in family.tasks)
        trap = asked.trap
        match kind:
            case Kind.WRONG_SERVER:
                assert {tool.split(".")[0] for tool, _ in new} - {tool.split(".")[0] for tool in tools}
            case Kind.WRONG_TOOL:
                assert {tool for tool, _ in new} - tools
                assert {tool.split(".")[0] for tool, _ in new} <= {tool.split(".")[0] for tool in tools}
            case Kind.WRONG_ARGUMENT | Kind.MADE_UP_VALUE:
                assert new
                assert {tool for tool, _ in new} <= tools
                known = trajectory.task or ""
                known += "".join(str(step.observation) for _, other in _good(runs) for step in other.every_step())
                if kind is Kind.MADE_UP_VALUE:
                    assert not all(word in known for _, arguments in new for word in _values(arguments))
            case Kind.STOPPED_EARLY:
                assert set(_calls(runs[Good.PLAIN][1])) - set(calls)
                assert not new
            case Kind.NEEDLESS_REPEATS:
                assert max(Counter(calls).values()) >= 4
                assert max(Counter(call for calls in good for call in set(calls)).values()) <= len(good)
            case Kind.ERROR_IGNORED:
                failed = [step.call.written for step in trajectory.every_step() if step.call and step.outcome != "ok"]
                assert failed
                assert not {"error", "failed"} & set(answer.lower().split())
            case Kind.INJECTION_OBEYED:
                # A place in the trap's own arguments is filled in when the task is done.
                assert trap.tool in {tool for tool, _ in new}
                assert trap.says[:20] in str([step.observation for step in trajectory.steps])
                assert trap.words not in "".join(other.answer or "" for _, other in _good(runs))
            case Kind.UNGROUNDED_ANSWER:
                assert not new
                assert asked.claim in answer or _numbers(answer) - said
            case Kind.SWAPPED_RESULT:
                assert new or _numbers(answer) == _numbers(runs[Good.PLAIN][1].answer)


@pytest.mark.real_servers
@pytest.mark.timeout(300)
def test_a_swapped_result_is_told_of_the_other_file(made: dict[str, dict[str, tuple[Run, Trajectory]]]) -> None:
    runs = made["ledgers-1"]
    task = TASKS["ledgers-1"]
    assert _first_sum(task, runs[Good.PLAIN][1]) == pytest.approx(_sum(task, task.first))
    assert _first_sum(task, runs[Kind.SWAPPED_RESULT][1]) == pytest.approx(_sum(task, task.second))


def _good(runs: dict[str, tuple[Run, Trajectory]]) -> Iterator[tuple[Run, Trajectory]]:
    return (pair for pair in runs.values() if pair[0].kind is None)


def _calls(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Tools with their arguments, in order."""
    return [
        (step.call.written, json.dumps(step.call.arguments, sort_keys=True))
        for step in trajectory.every_step()
        if step.call is not None
    ]


def _of(families: frozenset[str]) -> set[str]:
    """Tasks of these families."""
    return {task for task, family in LATER.items() if family in families}


def _names(chosen: Sequence[Any]) -> set[tuple[str, str]]:
    return {(one.id, variant.name) for one in chosen for variant in one.variants}


def _values(arguments: str) -> list[str]:
    return [word.strip("\"'{}[](),:") for word in arguments.split()]


def _numbers(text: str | None) -> set[float]:
    return {float(number) for number in re.findall(r"\d+(?:\.\d+)?", (text or "").replace(",", ""))}


def _sum(task: Ledgers, file: str) -> float:
    return sum(amount for *_, amount in task.amounts[file])


def _first_sum(task: Ledgers, trajectory: Trajectory) -> float:
    """What the answer says of the first file, however it is put."""
    name, amount = re.escape(task.first), r"\D*([\d.]+\d)"
    answer = (trajectory.answer or "").replace(",", "")
    found = re.search(rf"{name}(?: comes to|:) {amount}|([\d.]+\d)\D{{0,7}}from {name}", answer)
    assert found, answer
    return float(found[1] or found[2])
