"""Whether a failed call was made good later on: how the check `failed_calls_repaired` tells.

Above: behaviour.py, answers.py. Below: tools.py. No checks are here. What a call is about are the *entities* of the
user's task among its arguments: names, numbers, quoted words and parts of paths, a misspelled one counting as the one
it is near. Two calls of one tool that are about different entities do different parts of a task, and neither mends
the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from judge.case import Act, Case
from judge.checks.once import once_a_case
from judge.checks.tools import reads, succeeded, texts, tokens
from proxy.store.recorder import Outcome
from proxy.store.trajectory import TrajectoryStep

FINDING = frozenset({"search_tools", "list_servers", "list_tools", "describe_tools", "read_result", "finish_task"})
"""Meta-tools that come to no server; a failure of one leaves nothing undone."""
COVERED = 0.8
"""Share of a call's own words that another tool's call has to have to be for the same end."""
HARMLESS = 0.5
"""Credit where a failed reading was left, and what it was about was reached otherwise, or was nothing asked for."""
MAX_TASK = 20_000
MAX_ENTITIES = 500
MAX_WORDS = 60
"""Of one failed call that are compared with entities by their likeness."""
MAX_FAILURES = 30
"""That are looked into; an agent with more has failed in any case."""
_NO_FAILURE = (Outcome.OK, Outcome.CANCELLED)
_NEAR = 80
_SHORTEST_NEAR = 5
_QUOTED = re.compile(r"[\"`“«]([^\"`”»\n]{1,200})[\"`”»]|(?<!\w)['‘]([^'’\n]{1,200})['’](?!\w)")
_INSIDE = frozenset("./\\_@:#-")
_AROUND = ".,;:!?()[]{}<>\"'`“”‘’«»"


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed, and how far that was made good."""

    step: TrajectoryStep
    name: str
    mended: float
    """1 where it was, 0 where it was not."""


@once_a_case
def failures(case: Case) -> list[Failure]:
    """All failed calls, those that came to no tool, failed runs of code and errors that a server did not mark as such
    among them; what was cancelled is none."""
    acts = {act.id: act for act in case.acts}
    hidden = {act.id for act in case.acts if act.ok and not succeeded(case, act)}
    failed = [step for step in case.trajectory.every_step() if step.outcome not in _NO_FAILURE or step.id in hidden]
    subjects = _Subjects(entities_of(case.task or ""))
    found: list[Failure] = []
    for step in failed[:MAX_FAILURES]:
        if (act := acts.get(step.id)) is not None:
            found.append(Failure(step, act.written, _mended(case, act, subjects)))
        elif step.name not in FINDING:
            found.append(Failure(step, step.name, float(_went_on(case, step))))
    return found


def entities_of(task: str) -> frozenset[str]:
    """Words of the task that name something: with a capital or a digit, quoted, or in a path, address or identifier."""
    told = task[:MAX_TASK]
    marked = [match.group(1) or match.group(2) for match in _QUOTED.finditer(told)]
    for word in told.split():
        core = word.strip(_AROUND)
        if core[:1].isupper() or any(character.isdigit() or character in _INSIDE for character in core):
            marked.append(core)
    words = (word for each in marked for word in tokens(each) if len(word) > 1 or word.isdigit())
    return frozenset(list(dict.fromkeys(words))[:MAX_ENTITIES])


class _Subjects:
    """Which entities calls are about, looked up once for each call."""

    def __init__(self, entities: frozenset[str]) -> None:
        self._entities = entities
        self._known: dict[str, frozenset[str]] = {}

    def of(self, act: Act) -> frozenset[str]:
        found = self._known.get(act.id)
        if found is None:
            found = self._known[act.id] = self._found(act)
        return found

    def _found(self, act: Act) -> frozenset[str]:
        if not self._entities:
            return frozenset()
        words = {word for text in texts(act.arguments) for word in tokens(text)}
        found = words & self._entities
        if not act.ok:  # only what failed may be misspelled
            strange = [word for word in sorted(words - found) if len(word) >= _SHORTEST_NEAR]
            for word in strange[:MAX_WORDS]:
                near = process.extractOne(word, self._entities, scorer=fuzz.ratio, score_cutoff=_NEAR)
                found |= {near[0]} if near else set()
        return frozenset(found)


def _mended(case: Case, failed: Act, subjects: _Subjects) -> float:
    about = subjects.of(failed)
    done = [act for act in case.acts if succeeded(case, act)]
    for act in done:
        if act.place < failed.place:
            # What was known already was not lost.
            if act.written == failed.written and act.arguments == failed.arguments:
                return 1.0
        elif act.written == failed.written:
            other = subjects.of(act)
            if about <= other or other <= about:
                return 1.0
        elif _same_end(case, failed, act):
            return 1.0
    if reads(case, failed) is False:
        return 0.0
    if not done:
        return 0.0  # nothing was reached in any way
    reached = {entity for act in done for entity in subjects.of(act)}
    return HARMLESS if about <= reached else 0.0


def _same_end(case: Case, failed: Act, act: Act) -> bool:
    """Whether another tool was sent the same: what the failed call was to read was read, or its content written."""
    if (reads(case, failed) is False) != (reads(case, act) is False):
        return False
    wanted = {word for text in texts(failed.arguments) for word in _own_words(text)}
    if not wanted:
        return False
    given = {word for text in texts(act.arguments) for word in tokens(text)}
    return len(wanted & given) >= COVERED * len(wanted)


def _own_words(text: str) -> list[str]:
    """Of a path the words of its last part, which no call about its folder has; of anything else, all."""
    stripped = text.strip().rstrip("/\\")
    if not re.search(r"\s", stripped) and (parts := re.split(r"[/\\]", stripped))[1:]:
        return tokens(parts[-1])
    return tokens(stripped)


def _went_on(case: Case, failed: TrajectoryStep) -> bool:
    """Whether a call that came to no tool, or a run of code, was followed by one that succeeded."""
    return any(
        step.started_at > failed.started_at and step.outcome is Outcome.OK and step.name not in FINDING
        for step in case.trajectory.every_step()
    )
