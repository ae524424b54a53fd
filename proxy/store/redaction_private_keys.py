"""Private keys, which are many lines: torn apart, quoted, numbered, in a list, or with only one of their ends.

Above: redaction_patterns.py for texts, redaction.py for lists. Below: redaction_pieces.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from proxy.store.redaction_pieces import Found

_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
# Quotes, marks and numbers may stand before and behind each line.
_PEM_BLOCK = re.compile(r"(?:[A-Za-z0-9+/=\s:,.()\"'>|#*;-]|\\+[nrt/\"'])*+")
_PEM_BODY = re.compile(
    r"(?:[A-Za-z0-9+/=\s]|\\+[nrt/])*+"
    r"(?:(?:\\+[nrt]|[^A-Za-z+/=]){1,24}[A-Za-z0-9+/=]{40,76}(?![A-Za-z0-9+/=]))*+"
)
_PEM_TAIL = re.compile(
    r"(?:[nrt]\\+|[^A-Za-z+/=]){1,24}[A-Za-z0-9+/=]{4,76}"
    r"(?:(?:[nrt]\\+|[^A-Za-z+/=]){1,24}[A-Za-z0-9+/=]{16,76}(?![A-Za-z0-9+/=]))++"
)
"""The lines before the end of a key that began earlier than the text, read from behind."""
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=\s]{0,80}|[A-Za-z-]{1,20}: [^\n]{0,80}")
LONGEST_KEY = 16_384
"""Characters before its end where lines of a key are looked for."""


def private_keys(text: str) -> Iterator[Found]:
    """Each from its beginning, or from where the text begins within it, to its end or where it was cut off."""
    at, close = 0, -1
    while (begin := _PEM_BEGIN.search(text, at)) is not None:
        at = begin.end()
        if close < at:
            end = _PEM_END.search(text, at)
            close = len(text) if end is None else end.start()
        following = _PEM_BEGIN.search(text, at, close)
        end = _PEM_END.match(text, close) if following is None else None
        if end is not None and _PEM_BLOCK.fullmatch(text, at, close):
            at = end.end()
        elif (body := _PEM_BODY.match(text, at)) is not None:
            at = body.end()  # It was cut off.
        yield Found(begin.start(), at, "private_key", re.sub(r"\\+[nrt]|\s", "", text[begin.start() : at]))
    at = 0
    for end in _PEM_END.finditer(text):
        first, at = max(at, end.start() - LONGEST_KEY), end.end()
        lines = _PEM_TAIL.match(text[first : end.start()][::-1])
        if lines is not None and _PEM_BEGIN.search(text, first, end.start()) is None:
            yield Found(end.start() - lines.end(), at, "private_key", re.sub(r"\\+[nrt]|\s", "", lines[0][::-1]))


def key_lines(items: Sequence[Any]) -> set[int]:
    """Which of these are lines of a private key that is given as a list of lines."""
    found: set[int] = set()
    within = False
    for at, item in enumerate(items):
        if isinstance(item, str) and "PRIVATE KEY" in item:
            within = _PEM_BEGIN.search(item) is not None
        elif within := within and isinstance(item, str) and _PEM_LINE.fullmatch(item) is not None:
            found.add(at)
    return found
