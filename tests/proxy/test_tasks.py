"""Tasks: whose they are, and when they end."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from proxy.errors import UnknownName
from proxy.store.recorder import Ending, EndReason, Level
from proxy.tasks import (
    MAX_TASKS,
    MOST_IMPLIED,
    MOST_KNOWN,
    MOST_SEARCHED,
    SEARCH_CHARS,
    Beginner,
    Task,
    TaskStore,
    Trail,
)

IDLE_S, GAP_S = 100.0, 10.0
ALICE, BOB = Beginner(agent="alice"), Beginner(agent="bob")


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
    endings: list[Ending] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = TaskStore("7", IDLE_S, self._note, self.endings.append, gap_s=GAP_S, clock=self.clock)

    def _note(self, task: Task) -> None:
        self.ended.append(task.id)


def test_a_task_is_found_by_its_id_which_names_the_replica() -> None:
    store = Begun().store
    task = store.begin(ALICE)
    assert task.id.startswith("t7_")
    assert store.get("alice", task.id) is task
    assert store.begin(ALICE).id != task.id


def test_unknown_foreign_finished_and_expired_tasks_are_answered_alike() -> None:
    begun = Begun()
    answers: set[str] = set()

    def refuse(agent: str, task_id: str) -> None:
        with pytest.raises(UnknownName) as refused:
            begun.store.get(agent, task_id)
        answers.add(str(refused.value).replace(task_id, "ID"))

    refuse("alice", "t7_" + "0" * 24)
    task = begun.store.begin(ALICE)
    refuse("mallory", task.id)
    begun.store.finish(task, EndReason.FINISHED)
    refuse("alice", task.id)
    idle = begun.store.begin(ALICE)
    begun.clock.now += IDLE_S + 1
    refuse("alice", idle.id)
    assert len(answers) == 1


def test_asking_for_anothers_task_does_not_keep_it_alive() -> None:
    begun = Begun()
    task = begun.store.begin(ALICE)
    begun.clock.now = IDLE_S - 1
    with pytest.raises(UnknownName):
        begun.store.get("mallory", task.id)
    begun.clock.now = IDLE_S + 1
    begun.store.begin(BOB)
    assert begun.ended == [task.id]


def test_an_idle_task_ends_and_a_used_one_does_not() -> None:
    begun = Begun()
    idle, used = begun.store.begin(ALICE), begun.store.begin(ALICE)
    begun.clock.now = IDLE_S
    begun.store.get("alice", used.id)
    begun.clock.now += 1
    assert begun.store.get("alice", used.id) is used
    assert begun.ended == [idle.id]


def test_the_end_of_a_task_is_told_once() -> None:
    begun = Begun()
    task = begun.store.begin(ALICE)
    begun.store.end(task.id, EndReason.SESSION)
    begun.store.end(task.id, EndReason.SESSION)
    begun.store.finish(task, EndReason.FINISHED)
    begun.store.end("t7_unknown", EndReason.SESSION)
    assert begun.ended == [task.id]


def test_a_session_keeps_its_task_until_it_is_finished_or_idle() -> None:
    begun = Begun()
    first = begun.store.of_session(ALICE, None)
    assert begun.store.of_session(ALICE, first.id) is first
    begun.store.finish(first, EndReason.FINISHED)
    second = begun.store.of_session(ALICE, first.id)
    assert second.id != first.id
    begun.clock.now += IDLE_S + 1
    third = begun.store.of_session(ALICE, second.id)
    assert third.id != second.id
    assert begun.ended == [first.id, second.id]


def test_too_many_tasks_cost_the_least_recently_used_one_and_asking_costs_none() -> None:
    begun = Begun()
    tasks = [begun.store.begin(ALICE) for _ in range(MAX_TASKS)]
    for task in (tasks[1], tasks[0]):
        assert begun.store.get("alice", task.id) is task
    assert begun.ended == []
    begun.store.begin(ALICE)
    assert begun.ended == [tasks[2].id]


def test_the_episode_does_not_lead_to_the_task_and_says_who_began_it() -> None:
    store = Begun().store
    task = store.begin(Beginner(agent="alice", mode="direct", client="editor 1", protocol="2026-07-28"))
    assert task.id not in task.episode.id
    assert task.id.partition("_")[2] not in task.episode.id
    episode = task.episode
    assert (episode.agent, episode.mode, episode.client, episode.protocol) == (
        "alice",
        "direct",
        "editor 1",
        "2026-07-28",
    )


def test_the_end_of_an_episode_is_told_after_its_last_call() -> None:
    begun = Begun()
    task = begun.store.begin(ALICE)
    begun.store.hold(task)
    begun.store.hold(task)
    begun.store.finish(task, EndReason.FINISHED, "done", "42")
    begun.store.release(task)
    assert begun.ended == [task.id]
    assert begun.endings == []
    begun.store.release(task)
    (ending,) = begun.endings
    assert (ending.episode, ending.reason, ending.outcome, ending.answer) == (
        task.episode, EndReason.FINISHED, "done", "42",
    )  # fmt: skip


def test_a_task_with_a_call_under_way_is_not_idle() -> None:
    begun = Begun()
    task = begun.store.begin(ALICE)
    begun.store.hold(task)
    begun.clock.now = IDLE_S + 1
    begun.store.forget_idle()
    assert begun.ended == []
    begun.store.release(task)
    begun.clock.now += IDLE_S + 1
    begun.store.forget_idle()
    assert [ending.reason for ending in begun.endings] == [EndReason.IDLE]


def test_without_session_and_id_a_silence_parts_the_tasks_of_a_credential() -> None:
    begun = Begun()
    first = begun.store.implied(ALICE)
    begun.clock.now = GAP_S
    assert begun.store.implied(ALICE) is first
    assert begun.store.implied(BOB) is not first
    assert begun.store.implied(Beginner(agent="alice", mode="direct")) is not first
    begun.clock.now += GAP_S + 1
    second = begun.store.implied(ALICE)
    assert second is not first
    assert first.id in begun.ended
    begun.store.finish(second, EndReason.FINISHED)
    assert begun.store.implied(ALICE) is not second


def test_an_implied_task_does_not_go_on_for_ever() -> None:
    begun = Begun()
    first = begun.store.implied(ALICE)
    for _ in range(MOST_IMPLIED):
        begun.store.hold(begun.store.implied(ALICE))
        begun.store.release(first)
    assert begun.store.implied(ALICE) is not first
    assert [ending.reason for ending in begun.endings] == [EndReason.LONG]


def test_what_a_server_that_is_not_logged_in_full_was_asked_for_marks_the_rest_of_the_task() -> None:
    task = Begun().store.begin(ALICE)
    task.touched(Level.FULL)
    assert task.level is Level.FULL
    task.touched(Level.OFF)
    assert task.level is Level.METADATA
    task.touched(Level.FULL)
    assert task.level is Level.METADATA


def test_all_running_tasks_end_with_the_gateway() -> None:
    begun = Begun()
    tasks = [begun.store.begin(ALICE), begun.store.begin(BOB)]
    begun.store.finish_all(EndReason.SHUTDOWN)
    assert begun.ended == [task.id for task in tasks]
    assert {ending.reason for ending in begun.endings} == {EndReason.SHUTDOWN}
    assert begun.store.running == ()


def test_a_trail_keeps_the_latest_of_each_in_order() -> None:
    trail = Trail()
    for number in range(MOST_SEARCHED + 2):
        trail.search(f"search {number}" + "x" * SEARCH_CHARS, ["a.b"])
    assert [text[:8].strip("x") for text in trail.searched] == [f"search {number}" for number in range(2, 10)]
    assert {len(text) for text in trail.searched} == {SEARCH_CHARS}
    trail.reveal(f"a.{number}" for number in range(MOST_KNOWN))
    trail.reveal(["a.1"])
    assert len(trail.revealed) == MOST_KNOWN
    assert "a.b" not in trail.revealed
    assert [*trail.revealed][-2:] == [f"a.{MOST_KNOWN - 1}", "a.1"]
    trail.call("a.2")
    assert [*trail.called] == ["a.2"]
