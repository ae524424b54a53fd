"""One trajectory as checks and the model judge read it: what the user asked, every call in order, what came back.

Above: checks/, model/, writing/. Below: proxy.store's trajectory. Everything here is derived from what was logged;
nothing is guessed. Texts are those that the agent could see, as rendering.py writes them, without a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from proxy.store.catalogues import Catalogue
from proxy.store.recorder import Level, Outcome
from proxy.store.rendering import observation
from proxy.store.trajectory import Trajectory, TrajectoryStep

OWN_WORDS = "task"
"""`task_source` of an episode whose task is in the user's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One call of a server's tool: by the agent itself, or by its code."""

    place: int
    """Its place among the acts of the episode, from 0."""
    step: TrajectoryStep
    server: str
    """Configured name."""
    tool: str
    """The server's own name of the tool."""
    written: str
    """`server.tool`."""
    arguments: Mapping[str, Any]
    """As the server was sent them; empty where they were not kept or were no object."""
    outcome: Outcome
    by_code: bool
    """Whether code of `run_python` made it: its result went to the code, which may have printed none of it."""

    @property
    def id(self) -> str:
        return self.step.id

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK


class Case:
    """A trajectory with what checks want to know of it. Not for several threads at once.

    Args:
        trajectory: The episode.
        catalogue: What there was to choose from at its beginning, with the definitions of the tools that were called;
            None where it was never logged.
    """

    def __init__(self, trajectory: Trajectory, catalogue: Catalogue | None = None) -> None:
        self.trajectory = trajectory
        self.catalogue = catalogue

    @cached_property
    def task(self) -> str | None:
        """The user's own words; None where the agent passed on none."""
        ending = self.trajectory.ending
        if ending is None or ending.task_source != OWN_WORDS or not (ending.task or "").strip():
            return None
        return ending.task

    @cached_property
    def answer(self) -> str | None:
        """What the agent told its user, which may be empty; None where it never said."""
        return self.trajectory.answer

    @cached_property
    def full(self) -> bool:
        """Whether all of it was logged with its contents."""
        ending = self.trajectory.ending
        logged = all(step.level is Level.FULL for step in self.trajectory.every_step())
        return logged and (ending is None or ending.level is Level.FULL)

    @cached_property
    def acts(self) -> tuple[Act, ...]:
        """All calls of servers' tools in the order in which they began, those of code included."""
        called = [step for step in self.trajectory.every_step() if step.call is not None]
        called.sort(key=lambda step: step.started_at)
        return tuple(_act(place, step) for place, step in enumerate(called))

    @cached_property
    def steps(self) -> Mapping[str, TrajectoryStep]:
        """Every step by its id."""
        return {step.id: step for step in self.trajectory.every_step()}

    def text(self, step: TrajectoryStep) -> str:
        """What the step was answered, as text: of a call what the server sent, of others what the agent saw."""
        found = self._texts.get(step.id)
        if found is None:
            found = self._texts[step.id] = _text(step)
        return found

    def cut(self, step: TrajectoryStep) -> bool:
        """Whether a part of what `text` gives was not kept, or all of it."""
        return _cut(step)

    def definition(self, written: str) -> Mapping[str, Any] | None:
        """The tool object as its server sent it; None where it is not known."""
        if self.catalogue is None or written not in self.catalogue.definitions:
            return None
        return self.catalogue.definitions[written].definition

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {}


def _act(place: int, step: TrajectoryStep) -> Act:
    call = step.call
    assert call is not None
    arguments = call.arguments
    return Act(
        place=place,
        step=step,
        server=call.server,
        tool=call.tool,
        written=call.written,
        arguments=cast("Mapping[str, Any]", arguments) if isinstance(arguments, Mapping) else {},
        outcome=call.outcome,
        by_code=step.mode == "code",
    )


def _text(step: TrajectoryStep) -> str:
    result = step.observation if step.call is None else step.call.result
    if result is None:
        result = step.observation
    return "" if result is None else observation(result)


def _cut(step: TrajectoryStep) -> bool:
    size = step.observation_size if step.call is None else step.call.result_size
    if step.level is not Level.FULL:
        return True
    return size is not None and size.left_out_bytes > 0
