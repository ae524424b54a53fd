"""Which things calls were about, and what of an answer belongs to which of them.

Above: binding.py. Below: evidence.py, values.py. No checks are here. The *subjects* are the names by which calls
differ: values of the same parameter in several calls of one tool. What a call gave belongs to its subject; what was
done with values that belong to one subject alone belongs to it, too: a sum, or a look-up of a name that was found.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from judge.case import Act, Case
from judge.checks.evidence import Evidence, as_text
from judge.checks.reading import Reading
from judge.checks.values import Value, ValueKind, in_text, leaves, values_in
from judge.checks.words import clean, fold

MAX_ACTS = 100
MAX_SUBJECTS = 30
MAX_SEGMENTS = 200
MAX_ANSWER = 20_000
MAX_RECORDS = 200
_RECORD = re.compile(r"[\n}]")
_INDEX = re.compile(r"/\d+")
_SEGMENT = re.compile(r"\n|(?<!\bvs)(?<!\bca)(?<!\bDr)(?<!\bMr)(?<!\bSt)[.!?;](?=\s)")
_QUOTED = re.compile(r"'([^'\n]{2,80})'|\"([^\"\n]{2,80})\"")
_EXTENSION = re.compile(r"\.[a-z0-9]{1,5}$")


@dataclass(frozen=True, slots=True)
class Told:
    """A name or a value in the answer, with the subject that it is or that it belongs to."""

    subject: str
    written: str
    start: int
    end: int


class Bound:
    """Subjects of one case, and what of its answer belongs to which."""

    def __init__(self, case: Case, evidence: Evidence) -> None:
        self._evidence = evidence
        self._acts = [act for act in case.acts[:MAX_ACTS] if not evidence.failed(act)]
        self._task = case.task
        self._answer = clean((case.answer or "")[:MAX_ANSWER])
        # Places in both have to be the same.
        self._folded = folded if len(folded := fold(self._answer)) == len(self._answer) else self._answer

    @cached_property
    def about(self) -> Mapping[str, frozenset[str]]:
        """The steps about each subject: what stands in a parameter that differs between calls of one tool."""
        groups: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for act in self._acts:
            names: dict[str, set[str]] = defaultdict(set)
            for place, leaf in leaves(act.arguments):
                if isinstance(leaf, str):
                    names[_INDEX.sub("", place)].update(_names(leaf))
            for parameter, found in names.items():
                # A call about two things is about neither.
                if len(found) == 1:
                    groups[act.written, parameter][found.pop()].add(act.id)
        about: dict[str, set[str]] = defaultdict(set)
        for group in groups.values():
            if len(group) > 1:
                for name, steps in group.items():
                    about[name] |= steps
        self._merge(about)
        of_task = {step for name, steps in about.items() if self._in_task(name) for step in steps}
        kept: dict[str, frozenset[str]] = {}
        for name, steps in about.items():
            # A call that has a name of the task is about that one, whatever else it was sent.
            own = steps if self._in_task(name) else steps - of_task
            if own and len(kept) < MAX_SUBJECTS:
                kept[name] = frozenset(own)
        return kept

    @cached_property
    def owners(self) -> Mapping[str, str | None]:
        """The subject of each call, by step; None where it has several. Calls about nothing are not in it, nor are
        those that list several things of which the task speaks."""
        owners: dict[str, str | None] = {}
        of_task = {name for name in self.about if self._in_task(name)}
        for act in self._acts:
            arguments, result = self._evidence.arguments(act), self._evidence.reading_of(act)
            direct = {name for name, steps in self.about.items() if act.id in steps}
            named = {name for name in self.about if arguments.has_text(name)} | direct
            if len(named) > 1:
                owners[act.id] = None
            elif named & of_task:
                owners[act.id] = next(iter(named))
            elif sum(result.has_text(name) for name in of_task) > 1:
                continue
            else:
                inherited = self._inherited(act, owners)
                if len(inherited) == 1:
                    owners[act.id] = next(iter(inherited))
                elif inherited:
                    owners[act.id] = None
                elif named:
                    owners[act.id] = next(iter(named))
        return owners

    def sent_of_others(self) -> Iterable[tuple[Act, str, Value, str]]:
        """Values that calls were sent beside a subject, and that only results about another one had given before: the
        call, its subject, the value, the other."""
        earlier: list[tuple[str, Reading]] = []
        for act in self._acts:
            for subject, part in self._parts_of(act.arguments) if earlier else ():
                for value in values_in(part.raw):
                    if Reading(subject).has(value):
                        continue
                    owners = {owner for owner, reading in earlier if self._gave(reading, value)}
                    if len(owners) == 1 and subject not in owners:
                        yield act, subject, value, owners.pop()
            if (owner := self.owners.get(act.id)) is not None:
                earlier.append((owner, self._evidence.reading_of(act)))

    def _gave(self, reading: Reading, value: Value) -> bool:
        """Whether a result tells the value, and the task does not."""
        if not _telling(value) or self._in_task_value(value):
            return False
        if value.kind is ValueKind.IDENTIFIER and "/" in value.written:
            return any(
                reading.has_text(alias) and not self._in_task(alias)
                for alias in _aliases(str(value.forms[0]))
                if "/" not in alias
            )
        return reading.has(value)

    def _merge(self, about: dict[str, set[str]]) -> None:
        """A page or file that is called as a thing of the task is that thing: `…/partners/tern` and `Tern Printing`."""
        things = [name for name in about if "/" not in name and self._in_task(name)]
        for name in [name for name in about if "/" in name]:
            last = name.rstrip("/").rpartition("/")[2]
            called = [thing for thing in things if len(last) >= 4 and Reading(thing).has_text(last)]
            if len(called) == 1:
                about[called[0]] |= about.pop(name)

    def segments(self) -> Iterable[tuple[Sequence[Told], Sequence[Told]]]:
        """Sentences and lines of the answer that have both names and values that belong to one: these."""
        first, later = self._mentions
        start = 0
        values = [value for value in self._evidence.of_answer if _telling(value) and not self._in_task_value(value)]
        for end in [*(match.start() for match in _SEGMENT.finditer(self._answer)), len(self._answer)][:MAX_SEGMENTS]:
            names = [each for each in first if start <= each.start < end]
            derived = [each for each in later if start <= each.start < end]
            here = [value for value in values if start <= value.start < end]
            start = end
            # What was found about a name is itself a value, and where no name is told, it is the name.
            names, owned = (names, [*derived]) if names else (derived, [])
            taken = [*names, *owned]
            for value in here:
                if any(each.start < value.end and value.start < each.end for each in taken):
                    continue
                if (owner := self._owner(value)) is not None:
                    owned.append(Told(owner, value.written, value.start, value.end))
            if names and owned:
                yield names, sorted(owned, key=lambda each: each.start)

    @cached_property
    def _mentions(self) -> tuple[list[Told], list[Told]]:
        """Names in the answer: of subjects, and of what was found about one."""
        first: dict[str, set[str]] = defaultdict(set)
        later: dict[str, set[str]] = defaultdict(set)
        for name in self.about:
            if (subject := self._final(name)) is not None:
                for alias in _aliases(name):
                    (first if subject == name else later)[alias].add(subject)
        for value in in_text(self._task or "")[:MAX_SUBJECTS]:
            alias = str(value.forms[0])
            if value.kind is ValueKind.TEXT and alias not in self.about:
                holders = {
                    self.owners[act.id]
                    for act in self._acts
                    if act.id in self.owners and self._evidence.reading_of(act).has_text(alias)
                }
                if len(holders) == 1 and (holder := holders.pop()) is not None:
                    first[alias].add(holder)
        return self._placed(first), self._placed({name: found for name, found in later.items() if name not in first})

    def _placed(self, aliases: Mapping[str, set[str]]) -> list[Told]:
        """Where in the answer these stand; of two that overlap the longer."""
        found: list[Told] = []
        for alias in sorted(aliases, key=lambda each: (-len(each), each)):
            if len(aliases[alias]) != 1 or not self._is_name(alias):
                continue
            subject = next(iter(aliases[alias]))
            place = self._folded.find(alias)
            while place >= 0 and len(found) < MAX_SEGMENTS:
                end = place + len(alias)
                around = self._folded[max(0, place - 1) : place], self._folded[end : end + 1]
                if not any(map(str.isalnum, around)) and not any(e.start < end and place < e.end for e in found):
                    found.append(Told(subject, self._answer[place:end], place, end))
                place = self._folded.find(alias, end)
        return sorted(found, key=lambda each: each.start)

    def _final(self, name: str) -> str | None:
        """The subject of the calls about this name: it itself, or the one from whose results the name came."""
        found = {owner for step in self.about[name] if (owner := self.owners.get(step)) is not None}
        return found.pop() if len(found) == 1 else None

    def _is_name(self, alias: str) -> bool:
        """Not a word such as `size`, which the answer may have by itself."""
        return not alias.isalpha() or self._in_task(alias) or alias.title() in self._answer

    def _in_task(self, folded: str) -> bool:
        task = self._evidence.task
        return task is not None and any(task.has_text(alias) for alias in _aliases(folded))

    def _in_task_value(self, value: Value) -> bool:
        return self._evidence.task is not None and self._evidence.task.has(value)

    def _owner(self, value: Value) -> str | None:
        """The one subject to which all calls belong that gave the value or were sent it."""
        found = {
            owner
            for act in self._acts
            if (owner := self.owners.get(act.id)) is not None
            and (self._evidence.reading_of(act).has(value) or self._evidence.arguments(act).has(value))
        }
        found.update(subject for subject, reading in self._parts if reading.has(value))
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _parts(self) -> Sequence[tuple[str, Reading]]:
        """Of calls about several subjects the objects, in arguments and results, that are about one of them."""
        found: list[tuple[str, Reading]] = []
        for act in self._acts:
            if act.id in self.owners and self.owners[act.id] is None:
                for whole in (act.arguments, *_records(self._evidence.reading_of(act))):
                    found += self._parts_of(whole)
        return found

    def _parts_of(self, whole: Any) -> Iterable[tuple[str, Reading]]:
        waiting = [whole]
        for _ in range(MAX_RECORDS):
            if not waiting:
                return
            part = waiting.pop()
            reading = Reading(as_text(part))
            names = [name for name in self.about if reading.has_text(name)]
            if len(names) == 1:
                yield self._final(names[0]) or names[0], reading
            elif names and isinstance(part, Mapping):
                waiting += list(cast("Mapping[str, Any]", part).values())
            elif names and isinstance(part, list):
                waiting += cast("list[Any]", part)

    def _inherited(self, act: Act, owners: Mapping[str, str | None]) -> set[str]:
        """The subjects from whose results what the call was sent came."""
        inherited: set[str] = set()
        earlier = [(self._evidence.reading_of(each), owners[each.id]) for each in self._acts if each.id in owners]
        for value in self._evidence.values(act):
            if _telling(value) and not self._in_task_value(value):
                sources = {owner for reading, owner in earlier if owner is not None and reading.has(value)}
                if len(sources) > 1:
                    # What the task speaks of counts before a listing.
                    sources = {source for source in sources if self._in_task(source)}
                if len(sources) == 1:
                    inherited |= sources
        return inherited


def _aliases(name: str) -> set[str]:
    """How a subject may be named: as it was sent, a file without its folder or its ending, a time zone by its city."""
    last = name.rstrip("/").rpartition("/")[2]
    return {each for each in (name, last, _EXTENSION.sub("", last), last.replace("_", " ")) if len(each) >= 3}


def _names(argument: str) -> Iterable[str]:
    """What an argument may call its subject: itself where it is short, or what is quoted in it."""
    text = fold(clean(argument[:2_000])).strip()
    if "'" in text or '"' in text:
        return {name for a, b in _QUOTED.findall(text) if any(map(str.isalpha, name := (a or b).strip()))}
    return {text} if 2 <= len(text) <= 120 and any(map(str.isalpha, text)) else ()


def _records(reading: Reading) -> Sequence[Any]:
    """The objects that a result has: of JSON, or of a text in which each ends with a brace or a line."""
    text = reading.cleaned.partition("\n[structured] ")[0]
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return _RECORD.split(text)[:MAX_RECORDS]


def _telling(value: Value) -> bool:
    """Whether the value is rare enough to say where it came from."""
    if (number := value.number) is not None:
        return abs(number) >= 10 or number != int(number)
    # Words in capitals alone are abbreviations, or the keywords of a query.
    return not (value.kind is ValueKind.NAME and value.written.isupper())
