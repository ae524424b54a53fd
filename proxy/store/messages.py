"""Trajectories as chat messages, for trainers that know nothing of ours.

Above: commands/episodes.py. Below: trajectories.py, catalogues.py, rendering.py. The roles are those of OpenAI's chat
completions. Nothing is made up: what is not known is not among the messages, and `missing` names it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from proxy.store.catalogues import catalogue
from proxy.store.database import Database
from proxy.store.exporting import batches, line_of, time_of
from proxy.store.filters import Filters
from proxy.store.judgements import Judgement, judgements
from proxy.store.recorder import Level
from proxy.store.rendering import REVISION, observation
from proxy.store.trajectories import Trajectory, TrajectoryStep, stream

SCHEMA = "toolatlas.messages/1"


async def export_messages(database: Database, filters: Filters | None = None) -> AsyncIterator[str]:
    """One line an episode, in the order in which they began."""
    introductions: dict[str, str | None] = {}
    async for some in batches(stream(database, filters)):
        judged = await judgements(database, [trajectory.id for trajectory in some])
        for trajectory in some:
            if trajectory.catalog not in introductions:
                found = await catalogue(database, trajectory.catalog, tools=())
                introductions[trajectory.catalog] = None if found is None else found.introduction
            introduction = introductions[trajectory.catalog]
            yield line_of(
                "messages", conversation(trajectory, introduction, judged.get(trajectory.id, ())), schema=SCHEMA
            )


def conversation(trajectory: Trajectory, introduction: str | None, judged: Sequence[Judgement]) -> dict[str, Any]:
    """The line of one episode.

    An episode with a step whose contents were not to be logged has no messages: with holes in it, a trainer would
    learn from what never happened.
    """
    missing: list[str] = []
    messages: list[dict[str, Any]] = []
    in_full = all(step.level is Level.FULL for step in trajectory.every_step())
    if not in_full:
        missing.append("contents")
    else:
        if trajectory.mode != "search" or introduction is None:
            # In the other modes an agent was given the tools' definitions; which of them it read is not known.
            missing.append("system")
        else:
            messages.append({"role": "system", "content": introduction})
        if trajectory.task is None:
            missing.append("user")
        else:
            messages.append({"role": "user", "content": trajectory.task})
        own = [step for step in trajectory.steps if step.parent_id is None]
        if len(own) < len(trajectory.steps):
            # What made these calls was never written.
            missing.append("run")
        for step in own:
            messages += _turn(step)
        if trajectory.answer is None:
            missing.append("answer")
        else:
            messages.append({"role": "assistant", "content": trajectory.answer})
    return {
        "id": trajectory.id,
        "agent": trajectory.agent,
        "began_at": time_of(trajectory.began_at),
        "rendering": REVISION,
        "messages": messages,
        "missing": missing,
        "task_source": None if trajectory.ending is None else trajectory.ending.task_source,
        "outcome": None if trajectory.ending is None else trajectory.ending.outcome,
        "step_outcomes": {step.id: step.outcome for step in trajectory.steps},
        "lost": trajectory.lost,
        "rewards": [{"rubric": each.rubric_hash, "judge": each.judge, "reward": each.reward} for each in judged],
    }


def _turn(step: TrajectoryStep) -> list[dict[str, Any]]:
    """One call and its answer. Whether the agent made several calls in one turn cannot be seen from here."""
    arguments = json.dumps({} if step.arguments is None else step.arguments, ensure_ascii=False)
    call = {"id": step.id, "type": "function", "function": {"name": step.name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": step.id, "content": observation(step.observation)},
    ]
