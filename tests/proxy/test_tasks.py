"""Tasks: whose they are, and when they end."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from proxy.errors import UnknownName
from proxy.tasks import MAX_TASKS, Task, TaskStore

IDLE_S = 100.0


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Begun:
    """A store on a clock of ours, and the ids of the tasks that it ended."""

    clock: Clock = field(default_factory=Clock)
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = TaskStore("7", IDLE_S, self._note, self.clock)

    def _note(self, task: Task) -> None:
        self.ended.append(task.id)


def test_a_task_is_found_by_its_id_which_names_the_replica() -> None:
    store = Begun().store
    task = store.begin("alice")
    assert task.id.startswith("t7_")
    assert store.get("alice", task.id) is task
    assert store.begin("alice").id != task.id


def test_unknown_foreign_finished_and_expired_tasks_are_answered_alike() -> None:
    begun = Begun()
    answers: set[str] = set()

    def refuse(agent: str, task_id: str) -> None:
        with pytest.raises(UnknownName) as refused:
            begun.store.get(agent, task_id)
        answers.add(str(refused.value).replace(task_id, "ID"))

    refuse("alice", "t7_" + "0" * 24)
    task = begun.store.begin("alice")
    refuse("mallory", task.id)
    begun.store.finish(task)
    refuse("alice", task.id)
    idle = begun.store.begin("alice")
    begun.clock.now += IDLE_S + 1
    refuse("alice", idle.id)
    assert len(answers) == 1


def test_asking_for_anothers_task_does_not_keep_it_alive() -> None:
    begun = Begun()
    task = begun.store.begin("alice")
    begun.clock.now = IDLE_S - 1
    with pytest.raises(UnknownName):
        begun.store.get("mallory", task.id)
    begun.clock.now = IDLE_S + 1
    begun.store.begin("bob")
    assert begun.ended == [task.id]


def test_an_idle_task_ends_and_a_used_one_does_not() -> None:
    begun = Begun()
    idle, used = begun.store.begin("alice"), begun.store.begin("alice")
    begun.clock.now = IDLE_S
    begun.store.get("alice", used.id)
    begun.clock.now += 1
    assert begun.store.get("alice", used.id) is used
    assert begun.ended == [idle.id]


def test_the_end_of_a_task_is_told_once() -> None:
    begun = Begun()
    task = begun.store.begin("alice")
    begun.store.end(task.id)
    begun.store.end(task.id)
    begun.store.finish(task)
    begun.store.end("t7_unknown")
    assert begun.ended == [task.id]


def test_a_session_keeps_its_task_until_it_is_finished_or_idle() -> None:
    begun = Begun()
    first = begun.store.of_session("alice", None)
    assert begun.store.of_session("alice", first.id) is first
    begun.store.finish(first)
    second = begun.store.of_session("alice", first.id)
    assert second.id != first.id
    begun.clock.now += IDLE_S + 1
    third = begun.store.of_session("alice", second.id)
    assert third.id != second.id
    assert begun.ended == [first.id, second.id]


def test_too_many_tasks_cost_the_least_recently_used_one_and_asking_costs_none() -> None:
    begun = Begun()
    tasks = [begun.store.begin("alice") for _ in range(MAX_TASKS)]
    for task in (tasks[1], tasks[0]):
        assert begun.store.get("alice", task.id) is task
    assert begun.ended == []
    begun.store.begin("alice")
    assert begun.ended == [tasks[2].id]
