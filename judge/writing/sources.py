"""One good episode, read for what another may be measured by.

Above: common_values.py, common_tools.py, derived.py. Below: checks' readers of values, arguments and results. A *fact*
is a value that the answer took from a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property

from judge.case import Act, Case
from judge.checks.evidence import evidence_of
from judge.checks.reading import Reading
from judge.checks.records import Record, passed
from judge.checks.sightings import gives, told_in
from judge.checks.tools import reads
from judge.checks.values import Value, ValueKind, as_one, same, values_in

MAX_FACTS = 30


class Source:
    """One good episode, as far as others may be measured by it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.task = Reading(case.task or "")
        self.answer = Reading(case.answer or "")
        evidence = evidence_of(case)
        self.acts: Sequence[Act] = [act for act in case.acts if not evidence.failed(act)]

    @cached_property
    def results(self) -> list[Reading]:
        """What its successful calls were answered."""
        return [evidence_of(self.case).reading_of(act) for act in self.acts]

    @cached_property
    def facts(self) -> list[Value]:
        """Values of the answer that a result gave and the task did not, each once."""
        found: list[Value] = []
        for value in self._told:
            known = self.task.has(value) or any(same(value, other) for other in found)
            if not known and self.givers(value):
                found.append(value)
        return found[:MAX_FACTS]

    @property
    def measured(self) -> list[Value]:
        """Numbers, dates and times of the answer."""
        kinds = (ValueKind.NUMBER, ValueKind.DATE, ValueKind.TIME)
        return [value for value in values_in(self.case.answer or "") if value.kind in kinds]

    def givers(self, value: Value) -> list[Act]:
        """Calls that were answered with it, without having been sent it; where there are none, those that were."""
        first = [act for act in self.acts if gives(self.case, act, value)]
        return first or [act for act in self.acts if evidence_of(self.case).reading_of(act).has(value)]

    def was_given(self, value: Value) -> bool:
        """Whether a call was answered with it before any was sent it."""
        first = next((act for act in self.acts if gives(self.case, act, value)), None)
        evidence = evidence_of(self.case)
        return first is not None and not any(
            evidence.arguments(act).has(value) for act in self.acts if act.place < first.place
        )

    @cached_property
    def writes(self) -> list[Act]:
        """Calls that changed something, or that nothing says of that they only read."""
        return [act for act in self.acts if reads(self.case, act) is False]

    @cached_property
    def working(self) -> list[Act]:
        """Calls that changed something, or that gave the answer a fact."""
        giving = {act.id for fact in self.facts for act in self.givers(fact)}
        return [act for act in self.acts if act in self.writes or act.id in giving]

    @cached_property
    def records(self) -> list[tuple[Act, Record]]:
        return passed(self.case).all

    def passed_on(self, value: Value) -> bool:
        """Whether a successful call was sent it."""
        return any(record.has(value) for _, record in self.records)

    def met_with(self, value: Value) -> bool:
        """Whether a successful call was sent it, or was answered with it."""
        evidence = evidence_of(self.case)
        return self.passed_on(value) or any(evidence.reading_of(act).has(value) for act in self.acts)

    def told(self, value: Value) -> bool:
        """Whether the answer has it, as letters or as a value."""
        return self.answer.has(value)

    def tells(self, value: Value) -> bool:
        """Whether it is one of the values of the answer."""
        return any(same(value, other) for other in self._told)

    def tells_opposite(self, value: Value) -> bool:
        """Whether it tells the number with the other sign: of -5, 5 too few."""
        number = value.number
        return number is not None and any(each.number == -number for each in self._told)

    @cached_property
    def _told(self) -> list[Value]:
        return told_in(self.case.answer or "")

    def servers_before(self, act: Act, value: Value) -> set[str]:
        """Servers that had given it when the call was made."""
        evidence = evidence_of(self.case)
        before = [each for each in self.acts if each.place < act.place]
        return {each.server for each in before if evidence.reading_of(each).has(value)}

    def has_ground(self, act: Act, value: Value) -> bool:
        """Whether the task or an earlier result gave what the call was sent, or it is no word but tells something."""
        if value.kind not in (ValueKind.NAME, ValueKind.TEXT) and any(map(str.isdigit, value.written)):
            return True
        if self.task.has(value):
            return True
        evidence = evidence_of(self.case)
        return any(evidence.reading_of(each).has(value) for each in self.acts if each.place < act.place)

    def is_about_all(self, subject: str) -> bool:
        """Whether all calls that first gave the answer something were about it, so that it tells none of them apart."""
        value = as_one(subject)
        giving = {act.id: act for fact in self.facts for act in self.givers(fact)[:1]}
        about = [
            any(record.has(value) for record in passed(self.case).of(act)) for act in giving.values() if act.arguments
        ]
        return len(about) > 1 and all(about)

    def of_the_hour(self, value: Value) -> bool:
        """Whether it is the day or the minute at which the episode ran."""
        began = self.case.trajectory.began_at
        ending = self.case.trajectory.ending
        ended = began if ending is None else ending.ended_at
        if value.kind is ValueKind.DATE:
            near = {(began + timedelta(days=shift)).date().isoformat() for shift in (-1, 0, 1)}
            return bool(near & set(map(str, value.forms)))
        if value.kind is not ValueKind.TIME:
            return False
        # Time zones differ by whole or half hours.
        minutes = {(began + timedelta(minutes=shift)).minute % 30 for shift in (0, 1)} | {ended.minute % 30}
        return any(int(str(form)[3:5]) % 30 in minutes for form in value.forms)
