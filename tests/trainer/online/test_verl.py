"""Files for verl have the columns that its datasets read, and say what a policy would have read and written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from bench.targets.small_world import ERRANDS
from bench.targets.tiny_policy import demonstrate
from proxy.errors import ConfigurationError
from proxy.store.filters import Filters
from tests.trainer.online.conftest import Live
from trainer.data.policy_rows import Unfit
from trainer.loop.judging import judge_all
from trainer.online.verl import EPISODES, TASKS, export_verl


def read(path: Path) -> list[Mapping[str, Any]]:
    parquet: Any = pyarrow.parquet
    return parquet.read_table(path).to_pylist()


def test_tasks_and_good_episodes_of_the_log(live: Live, tmp_path: Path) -> None:
    live.portal.call(demonstrate, live.world.url, live.database, 12, random.Random(2))
    live.portal.call(judge_all, live.database, live.judge)
    written = live.portal.call(partial(export_verl, live.database, tmp_path, least_reward=0.7))
    tasks, episodes = read(tmp_path / TASKS), read(tmp_path / EPISODES)
    assert written == {TASKS: len(tasks), EPISODES: len(episodes)}
    assert {each["extra_info"]["task"] for each in tasks} >= {errand.task for errand in ERRANDS}
    for task in tasks:
        assert task.keys() == {"data_source", "agent_name", "prompt", "ability", "reward_model", "extra_info"}
        assert [each["role"] for each in task["prompt"]] == ["system", "user"]
        assert task["prompt"][1]["content"] == task["extra_info"]["task"]
    assert episodes
    for episode in episodes:
        roles = [each["role"] for each in episode["messages"]]
        assert roles == ["system", "user", *["assistant", "user"] * ((len(roles) - 3) // 2), "assistant"]
        assert all(each["trainable"] == (each["role"] == "assistant") for each in episode["messages"])
        assert episode["messages"][-1]["content"].startswith("finish_task ")
        assert episode["reward"] >= 0.7


def test_an_action_that_failed_is_not_to_be_learned(live: Live, tmp_path: Path) -> None:
    play, errand = live.play(), ERRANDS[0]
    said = [
        f'search_tools {{"query": "{errand.query}", "task": "{errand.task}"}}',
        'call_tool {"tool": "census.population", "arguments": {"city": "Bonn"}}',
        'finish_task {"outcome": "done", "answer": "There is no city Bonn."}',
    ]
    (rollout,) = play([errand.task], live.scripted(said))
    filters = Filters(ids=live.portal.call(live.episodes, [rollout.client]))
    live.portal.call(partial(export_verl, live.database, tmp_path, filters=filters, least_reward=0.0))
    (episode,) = read(tmp_path / EPISODES)
    own = [each["trainable"] for each in episode["messages"] if each["role"] == "assistant"]
    assert own == [True, False, True]


def test_without_a_task_in_users_words_there_is_nothing_to_export(live: Live, tmp_path: Path) -> None:
    said = ['call_tool {"tool": "census.population", "arguments": {"city": "Oslo"}}', 'finish_task {"outcome": "done"}']
    (rollout,) = live.play()([ERRANDS[0].task], live.scripted(said))
    filters = Filters(ids=live.portal.call(live.episodes, [rollout.client]))
    unfit = Counter[Unfit]()
    with pytest.raises(ConfigurationError, match="nothing to export"):
        live.portal.call(partial(export_verl, live.database, tmp_path, filters=filters, unfit=unfit))
    assert not list(tmp_path.iterdir())
