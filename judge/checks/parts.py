"""The parts of a result: what stands together in it.

Above: ways.py, serving.py, writing/. Below: records.py, tools.py. No checks are here. Of JSON the parts are its
objects; of another text its paragraphs, or more closely its lines and what braces hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from weakref import WeakKeyDictionary

from judge.case import Act, Case
from judge.checks.records import Record, records
from judge.checks.values import MAX_CHARACTERS, Value

MAX_PARTS = 200
"""Of one result; what comes after them stands with nothing."""
_STRUCTURED = "\n[structured] "
_PARAGRAPH = re.compile(r"\n[ \t]*\n")


def together(case: Case, act: Act, values: Sequence[Value], *, closely: bool) -> bool:
    """Whether one part of what the call gave has all of these."""
    return any(all(map(part.has, values)) for part in parts_of(case, act, closely=closely))


def parts_of(case: Case, act: Act, *, closely: bool) -> Sequence[Record]:
    """Made once for each call."""
    known = _KNOWN.setdefault(case, {})
    key = (act.id, closely)
    if key not in known:
        text = case.text(act.step)[:MAX_CHARACTERS].partition(_STRUCTURED)[0]
        known[key] = list(islice(_parts(text, closely=closely), MAX_PARTS))
    return known[key]


_KNOWN: WeakKeyDictionary[Case, dict[tuple[str, bool], Sequence[Record]]] = WeakKeyDictionary()


def _parts(text: str, *, closely: bool) -> Iterator[Record]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        paragraphs = _PARAGRAPH.split(text)
        pieces = [part for line in text.splitlines() for part in line.split("}")] if closely else paragraphs
        yield from (Record([piece]) for piece in pieces if piece.strip())
    else:
        yield from map(Record, records(given))
