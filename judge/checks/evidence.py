"""What an agent had seen at each moment of an episode: the ground that its arguments and its answer may stand on.

Above: grounding.py, answers.py, binding.py. Below: reading.py, arithmetic.py, tools.py. No checks are here. What
counts as seen:

- the user's task, and what the gateway says of itself at the beginning;
- what came back from every step that had ended before, searches and descriptions of tools too;
- for calls of code also the results of the code's earlier calls, which the agent itself has not seen.

What the agent had put in itself does not become evidence by being repeated: neither in the error of a call that failed,
nor in what its own code printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any

from judge.case import Act, Case
from judge.checks.arithmetic import Arithmetic
from judge.checks.once import once_a_case
from judge.checks.reading import MAX_SEEN, Reading, Seen
from judge.checks.tools import succeeded
from judge.checks.values import Value, leaves, values_in
from proxy.store.rendering import CODE
from proxy.store.trajectory import TrajectoryStep

CATALOGUE = frozenset({"search_tools", "list_servers", "list_tools", "describe_tools"})
"""Steps that tell of tools, not of the world."""
CLOSING = "finish_task"
TASK = "task"
OWN = "arguments"
"""Where `Seen.find` says that a value stands that only the agent itself had sent, in a call that succeeded."""
_CLOCK = timedelta(milliseconds=5)
"""By how much two measurements of time may differ."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One step with what came back."""

    step: TrajectoryStep
    reading: Reading
    ended_at: datetime
    by_code: bool

    @property
    def of_catalogue(self) -> bool:
        return self.step.name in CATALOGUE


class Evidence:
    """What was seen in one case, indexed once."""

    def __init__(self, case: Case) -> None:
        # Not the case itself: it is the key under which this is remembered.
        self.cut_steps = frozenset(step.id for step in case.trajectory.every_step() if case.cut(step))
        self.task = Reading(case.task) if case.task is not None else None
        self._arguments: dict[str, Reading] = {}
        self._values: dict[str, tuple[Value, ...]] = {}
        self._arithmetic: dict[frozenset[str] | None, Arithmetic] = {}
        self._answer = case.answer or ""
        self._failed = frozenset(act.id for act in case.acts if not succeeded(case, act))
        self._acts = case.acts
        self.entries = tuple(
            self._entry(case, step) for step in case.trajectory.every_step() if step.name != CLOSING or step.call
        )
        self._introduction = _introduction(case)
        self._seen: dict[tuple[bool, frozenset[str]], Seen] = {}

    def failed(self, act: Act) -> bool:
        """Whether the call failed, by its outcome or by what it says."""
        return act.id in self._failed

    def arguments(self, act: Act) -> Reading:
        """What the call was sent, as text."""
        found = self._arguments.get(act.id)
        if found is None:
            found = self._arguments[act.id] = Reading(as_text(act.arguments))
        return found

    def values(self, act: Act) -> tuple[Value, ...]:
        """The values that the call was sent."""
        found = self._values.get(act.id)
        if found is None:
            found = self._values[act.id] = values_in(act.arguments)
        return found

    @cached_property
    def of_answer(self) -> tuple[Value, ...]:
        """The values of the answer, by their places in what `clean` makes of it."""
        return values_in(self._answer)

    def before(self, act: Act) -> Seen:
        """What had been seen when this call was made."""
        began = act.step.started_at + _CLOCK
        shown = [
            entry
            for entry in self.entries
            if entry.ended_at <= began and (act.by_code or not entry.by_code) and entry.step.id != act.id
        ]
        return self._of(shown)

    def at_end(self) -> Seen:
        """What had been seen when the answer was given: the agent's own arguments of calls that succeeded too."""
        key = (True, frozenset[str]())
        found = self._seen.get(key)
        if found is None:
            shown = [entry for entry in self.entries if not entry.by_code]
            found = self._gathered(shown, catalogue_numbers=False)
            for act in self._acts:
                if not self.failed(act):
                    found.add(self.arguments(act), OWN)
            self._seen[key] = found
        return found

    def facts(self, among: frozenset[str] | None = None) -> Sequence[Reading]:
        """The task and the results of tools, without what tells of tools; `among` narrows to these steps. None after
        `MAX_SEEN` characters, as `Seen` has it."""
        found: list[Reading] = [] if self.task is None else [self.task]
        characters = sum(len(reading.raw) for reading in found)
        for entry in self.entries:
            if not entry.of_catalogue and (among is None or entry.step.id in among):
                characters += len(entry.reading.raw)
                if characters > MAX_SEEN:
                    break
                found.append(entry.reading)
        return found

    def arithmetic(self, act: Act | None) -> Arithmetic:
        """What can be computed from facts seen before the call, or before the answer."""
        among = None if act is None else self.steps_before(act)
        found = self._arithmetic.get(among)
        if found is None:
            found = self._arithmetic[among] = Arithmetic(self.facts(among))
        return found

    def steps_before(self, act: Act) -> frozenset[str]:
        began = act.step.started_at + _CLOCK
        return frozenset(entry.step.id for entry in self.entries if entry.ended_at <= began)

    def cut_before(self, act: Act | None) -> bool:
        """Whether a part of what could be seen before the call (or the answer) is not known any more."""
        before = None if act is None else self.steps_before(act)
        return any(
            entry.step.id in self.cut_steps or not entry.reading.whole
            for entry in self.entries
            if before is None or entry.step.id in before
        )

    def reading_of(self, act: Act) -> Reading:
        """What the call gave."""
        for entry in self.entries:
            if entry.step.id == act.id:
                return entry.reading
        raise KeyError(act.id)

    def _of(self, shown: Sequence[Entry]) -> Seen:
        key = (False, frozenset(entry.step.id for entry in shown))
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = self._gathered(shown)
        return found

    def _gathered(self, shown: Sequence[Entry], *, catalogue_numbers: bool = True) -> Seen:
        """The task first, then results, and only then what tells of tools: numbers in it are no facts."""
        seen = Seen()
        if self.task is not None:
            seen.add(self.task, TASK)
        for of_catalogue in (False, True):
            for entry in shown:
                if entry.of_catalogue is of_catalogue:
                    seen.add(entry.reading, entry.step.id, numbers=catalogue_numbers or not of_catalogue)
        if self._introduction is not None:
            seen.add(self._introduction, "introduction", numbers=catalogue_numbers)
        return seen

    def _entry(self, case: Case, step: TrajectoryStep) -> Entry:
        text = case.text(step)
        echoed: Reading | None = None
        if step.id in self._failed or (step.call is None and step.outcome.value != "ok" and step.name not in CATALOGUE):
            echoed = Reading(as_text(step.arguments if step.call is None else step.call.arguments))
        elif step.name == CODE:
            echoed = Reading(as_text(step.arguments))
        if step.name in CATALOGUE and echoed is None and len(text) <= 20_000:
            reading = _shared(text)
        else:
            reading = Reading(text, echoed=echoed)
        ended_at = step.started_at + timedelta(milliseconds=min(step.duration_ms, 1e9))
        return Entry(step, reading, ended_at, step.mode == "code")


@once_a_case
def evidence_of(case: Case) -> Evidence:
    """Made once for each case."""
    return Evidence(case)


def of_definition(case: Case, act: Act) -> Reading | None:
    """The definition of the call's tool: its defaults, enumerations, examples and words may be used by anyone."""
    definition = case.definition(act.written)
    return None if definition is None else _shared(as_text(definition))


def as_text(given: Any) -> str:
    """JSON as text, whatever is in it: places are lines."""
    if isinstance(given, str):
        return given
    return "\n".join(f"{place.rpartition('/')[2]}: {_written(leaf)}" for place, leaf in leaves(given))


def _written(leaf: Any) -> str:
    # Python refuses to write out integers of more than 4,300 digits.
    return "" if isinstance(leaf, int) and abs(leaf) >= 10**100 else str(leaf)


def _introduction(case: Case) -> Reading | None:
    if case.catalogue is None:
        return None
    purposes = "\n".join(f"{each.written} {each.purpose}" for each in case.catalogue.servers)
    return _shared(f"{case.catalogue.introduction or ''}\n{purposes}"[:20_000])


@lru_cache(maxsize=256)
def _shared(text: str) -> Reading:
    """One reading for all episodes in which agents saw the same."""
    return Reading(text)


def parameter_of(value: Value) -> str:
    """The name of the parameter in which the value stands."""
    names = [name for name in value.place.split("/") if name and not name.isdigit()]
    return names[-1] if names else ""
