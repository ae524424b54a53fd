"""Rows for verl, which trains on many machines: tasks for its agent loop, and good episodes for its multi-turn SFT.

Above: commands/export.py. Below: trainer/data and proxy/policy, by whose code an episode is told again; pyarrow, which
comes with the extra `trainer`. verl reads Parquet: its `RLHFDataset` the columns `data_source`, `prompt`, `ability`,
`reward_model`, `extra_info` and `agent_name`, its `MultiTurnSFTDataset` the column `messages`, and it makes tokens of
texts itself. Failed actions have `trainable` false, which datasets of verl that know it leave out of the loss.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError
from proxy.policy.base import Asked, Exchange, Variant
from proxy.policy.context import Context
from proxy.policy.limits import WorkLimits
from proxy.policy.text_calls import messages, read_arguments
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.recorder import Outcome
from proxy.store.rendering import REVISION, action, observation
from trainer.data.collecting import Collected, collect
from trainer.data.judged import Judged, judged
from trainer.data.policy_rows import MODE, TASK_ID, Unfit
from trainer.data.settings import DataSettings
from trainer.data.shown import Catalogues, Shown
from trainer.rows import Origin

SOURCE = "toolatlas"
AGENT = "toolatlas"
"""The name under which an agent loop for the gateway is registered with verl."""
TASKS, EPISODES = "tasks.parquet", "episodes.parquet"

Message = dict[str, Any]
Row = dict[str, Any]


async def export_verl(
    database: Database,
    folder: Path,
    *,
    filters: Filters | None = None,
    least_reward: float = 0.7,
    variant: Variant = Variant.TOOLS,
    limits: WorkLimits | None = None,
    unfit: Counter[Unfit] | None = None,
) -> dict[str, int]:
    """Write both files to `folder`; how many rows each has.

    Args:
        least_reward: Of episodes that SFT imitates; tasks are exported whatever came of them.
        unfit: Told why episodes have no rows.

    Raises:
        ConfigurationError: pyarrow is missing, or there is nothing to export.
    """
    unfit = Counter() if unfit is None else unfit
    collected = await collect(database, DataSettings(), filters=filters)
    catalogues = Catalogues(database)
    tasks: dict[str, Row] = {}
    episodes: list[Row] = []
    async for each in _again(database, collected):
        origin = collected.episodes[each.episode_id]
        shown = await catalogues.shown(each.trajectory.catalog)
        told = conversations(each, origin, shown, variant, limits or WorkLimits())
        if isinstance(told, Unfit):
            unfit[told] += 1
            continue
        assert origin.task is not None
        tasks.setdefault(origin.task, task_row(told[0][:2], origin, len(tasks)))
        if each.value >= least_reward:
            episodes += [episode_row(one, origin, number) for number, one in enumerate(told, 1)]
    if not tasks:
        why = "; ".join(f"{count:,} {reason}" for reason, count in unfit.items())
        raise ConfigurationError(f"there is nothing to export: {collected.tally}{f'; {why}' if why else ''}")
    write_parquet(folder / TASKS, tasks.values())
    if episodes:
        write_parquet(folder / EPISODES, episodes)
    return {TASKS: len(tasks), EPISODES: len(episodes)}


def conversations(
    each: Judged, origin: Origin, shown: Shown | None, variant: Variant, limits: WorkLimits
) -> list[list[Message]] | Unfit:
    """What a policy would have read and written in an episode, as messages with `trainable`: one conversation for each
    context, a new one from where old observations were folded."""
    trajectory = each.trajectory
    if trajectory.mode != MODE:
        return Unfit.MODE
    if origin.task is None:
        return Unfit.TASK
    if shown is None:
        return Unfit.CATALOGUE
    try:
        surface = shown.surface(variant)
    except ConfigurationError:
        return Unfit.VARIANT
    if any(step.name not in surface.names for step in trajectory.steps):
        return Unfit.ACTION
    context = Context(surface.system, origin.task, surface.actions, limits)
    told: list[list[Message]] = []
    learned: list[bool] = []
    for step in trajectory.steps:
        conversation = context.fitted()
        if conversation is None:
            break
        read = messages(conversation, surface.actions)
        if not told or _texts(told[-1]) != _texts(read[: len(told[-1])]):
            told.append([])
        given, problem = read_arguments(step.arguments)
        # Agents of the protocol without sessions name their task, which a policy need not.
        arguments = {name: value for name, value in given.items() if name != TASK_ID}
        learned.append(step.outcome is Outcome.OK and problem is None)
        own = {"role": "assistant", "content": action(step.name, arguments), "trainable": learned[-1]}
        begun = told[-1]
        # Answers of an earlier context are only read here.
        begun += [{**message, "trainable": False} for message in read[len(begun) :]]
        begun.append(own)
        observed = observation(step.observation, limit=limits.observation_chars)
        asked = Asked(id=step.id, name=step.name, arguments=arguments, problem=problem)
        context.add(Exchange(said="", asked=(asked,), observed=(observed,)))
    if not told:
        return Unfit.LONG
    return told if any(learned) else Unfit.FAILED


def task_row(prompt: Sequence[Message], origin: Origin, index: int) -> Row:
    """A task as verl's agent loop begins it: rules and index, and the user's words. Its reward is the judge's: there is
    no right answer to compare with."""
    return {
        "data_source": SOURCE,
        "agent_name": AGENT,
        "prompt": [{"role": each["role"], "content": each["content"]} for each in prompt],
        "ability": "tools",
        "reward_model": {"style": "judge", "ground_truth": ""},
        "extra_info": {"index": index, "task": origin.task, "family": origin.family or "", "rendering": REVISION},
    }


def episode_row(conversation: Sequence[Message], origin: Origin, number: int) -> Row:
    return {
        "messages": list(conversation),
        "reward": origin.reward,
        "advantage": origin.advantage,
        "extra_info": {"episode": origin.episode_id, "context": number, "rendering": REVISION},
    }


def write_parquet(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """The file appears with everything in it, or not at all.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """
    try:
        arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ModuleNotFoundError as error:
        raise ConfigurationError("pyarrow is not installed: pip install 'toolatlas[trainer]'") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        parquet.write_table(arrow.Table.from_pylist([dict(row) for row in rows]), draft)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _texts(given: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in given]


async def _again(database: Database, collected: Collected) -> AsyncIterator[Judged]:
    async for each in judged(database, Filters(ids=tuple(collected.episodes)), judge=collected.judge):
        if each.episode_id in collected.episodes:
            yield each
