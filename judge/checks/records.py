"""Which values of a call's arguments belong together, and whether a value is among them.

Above: relations.py, serving.py, parts.py, ways.py, writing/. Below: evidence.py, reading.py, tools.py. No checks are
here. A *record* is one object in the arguments with its plain members, its lists of plain values, and the plain
members of the objects around it: of `{"folder": "a", "edits": [{"old": 1, "new": 2}, {"old": 3, "new": 4}]}` there
are the records a, and a 1 2, and a 3 4. What is passed is taken apart further: each text of a list, and each row that a
statement inserts, is of a record of its own, since it could as well have been passed by a call of its own.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast
from weakref import WeakKeyDictionary

from judge.case import Act, Case
from judge.checks.evidence import evidence_of
from judge.checks.reading import Reading
from judge.checks.tools import is_cut
from judge.checks.values import MAX_CHARACTERS, Value, ValueKind, as_one, leaves, values_in

MAX_RECORDS = 100
"""Of one call."""
MAX_TOGETHER = 200
"""Plain values of one record."""
MAX_DEPTH = 30
MAX_OF_CASE = 1_000
"""Records of one episode, none of them after `MAX_CHARACTERS` in all; what comes after them counts as not kept."""
_ROWS = re.compile(r"\bvalues\s*(?=\()", re.IGNORECASE)
_ROW = re.compile(r"\((?:[^()']++|'[^']{0,1000}+'){0,400}+\)")
_SHORT = 60
"""Characters of a text that is one value altogether, such as a person's name."""


class Record:
    """Plain values of arguments that belong together."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values[:MAX_TOGETHER]
        self.text = "\n".join(map(_text, self.values))
        self._reading = Reading(self.text)

    def has(self, value: Value) -> bool:
        """Whether it is one of them, or stands in one of them, in whatever format."""
        return self._reading.has(value)

    @property
    def cut(self) -> bool:
        return any(is_cut(value) for value in self.values)


class Passed:
    """All records of the calls of one episode that succeeded."""

    def __init__(self, case: Case) -> None:
        evidence = evidence_of(case)
        self.all: list[tuple[Act, Record]] = []
        self.whole = True
        """Whether none had to be left out."""
        self._of_act: dict[str, list[Record]] = {}
        room = MAX_CHARACTERS
        for act in case.acts:
            for values in () if evidence.failed(act) else _apart(records(act.arguments, apart=True)):
                if room <= 0 or len(self.all) >= MAX_OF_CASE:
                    self.whole = False
                    return
                record = Record(values)
                room -= len(record.text)
                self.all.append((act, record))
                self._of_act.setdefault(act.id, []).append(record)

    def of(self, act: Act) -> Sequence[Record]:
        """Those of one call, from the outside to the inside; none where it had no arguments, or failed."""
        return self._of_act.get(act.id, ())


def passed(case: Case) -> Passed:
    """Made once for each case."""
    found = _KNOWN.get(case)
    if found is None:
        found = _KNOWN[case] = Passed(case)
    return found


_KNOWN: WeakKeyDictionary[Case, Passed] = WeakKeyDictionary()


def whole_record(given: Any) -> Record:
    """All plain values of an argument, whatever belongs together."""
    return Record([leaf for _, leaf in leaves(given) if _is_plain(leaf)])


def atoms_of(record: Record) -> list[Value]:
    """The values of a record, each once: a short text of names alone is one value, of others the values in it."""
    found: dict[object, Value] = {}
    for given in record.values:
        # Words in capitals are those of a query language, or shouted.
        inside = [each for each in values_in([given]) if not (each.kind is ValueKind.NAME and each.written.isupper())]
        if isinstance(given, str) and len(given) <= _SHORT and all(each.kind is ValueKind.NAME for each in inside):
            inside = [as_one(given)] if given.strip() else []
        for each in inside:
            found.setdefault(each.forms, each)
    return list(found.values())


@lru_cache(maxsize=4_096)
def fact(given: str | int | float) -> Value:
    """A fact in a rubric's parameters, which are the same for many episodes."""
    return as_one(given)


def records(arguments: Any, *, apart: bool = False) -> Iterator[Sequence[Any]]:
    """The plain values of each object in JSON, from the outside to the inside; with `apart` once for each text of its
    lists."""
    waiting: deque[tuple[Any, tuple[Any, ...], int]] = deque([(arguments, (), 0)])
    given = 0
    while waiting and given < MAX_RECORDS:
        node, around, depth = waiting.popleft()
        members: list[Any] = []
        if isinstance(node, Mapping):
            members = list(cast("Mapping[Any, Any]", node).values())
        elif isinstance(node, list):
            members = cast("list[Any]", node)
        plain = (*around, *(member for member in members if _is_plain(member)))[:MAX_TOGETHER]
        lists = [cast("list[Any]", member) for member in members if isinstance(member, list)]
        own = [item for items in lists for item in items if _is_plain(item)]
        if isinstance(node, Mapping) and (len(plain) > len(around) or own):
            texts = [item for item in own if isinstance(item, str)] if apart else []
            others = [item for item in own if not isinstance(item, str)] if apart else own
            for each in [[text] for text in texts[:MAX_RECORDS]] or [[]]:
                yield [*plain, *others, *each]
                given += 1
        if depth < MAX_DEPTH:
            nested: list[Any] = [member for member in members if isinstance(member, Mapping | list)]
            waiting.extend((member, plain, depth + 1) for member in nested[:MAX_RECORDS])


def _apart(found: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Each with one row of the statement that inserts several, where there is one."""
    for values in found:
        statements = ((at, _rows(value)) for at, value in enumerate(values) if isinstance(value, str))
        at, rows = next(((at, rows) for at, rows in statements if len(rows) > 1), (0, list[str]()))
        if not rows:
            yield values
        for row in rows[:MAX_RECORDS]:
            yield [*values[:at], row, *values[at + 1 :]]


def _rows(statement: str) -> list[str]:
    """A statement that inserts several rows as one for each of them."""
    begins = _ROWS.search(statement[:MAX_CHARACTERS])
    if begins is None:
        return []
    head, tail = statement[: begins.end()], statement[begins.end() :]
    return [f"{head}{match.group()}" for match in _ROW.finditer(tail)]


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, bool | Mapping | list)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_one(value).written
