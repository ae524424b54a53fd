"""JSON out of what a model wrote: with fences, words around it, commas too many, or broken off.

Above: answers.py, writing/by_model.py. Below: json, json5. The text is a stranger's: work is bounded, nothing raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import json5

MOST_CHARS = 200_000
"""Of an answer; what is beyond is not read."""
LENIENT_CHARS = 20_000
"""The reader of json5 takes 6 µs a character, up to twice that for broken text."""
TRIES = 100
"""Brackets at which a value is looked for."""
_OPENING = ("{", "[")
_FAILED = (ValueError, RecursionError)


def values(text: str) -> list[Any]:
    """All JSON objects and lists that `text` has, outermost and in order; with more care where it is one of them whole.

    Where the outermost is broken, those in it that are not.
    """
    text = text[:MOST_CHARS].rpartition("</think>")[2]
    begin = min((place for each in _OPENING if (place := text.find(each)) >= 0), default=-1)
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not 0 <= begin < end:
        return []
    whole = text[begin:end]
    try:
        return [json.loads(whole)]
    except _FAILED:
        pass
    if len(whole) <= LENIENT_CHARS:
        try:
            return [json5.loads(whole)]
        except _FAILED:
            pass
    return list(_scattered(whole))


def _scattered(text: str) -> Iterator[Any]:
    decoder, place = json.JSONDecoder(), 0
    for _ in range(TRIES):
        place = min((found for each in _OPENING if (found := text.find(each, place)) >= 0), default=-1)
        if place < 0:
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except _FAILED:
            place += 1
        else:
            yield value
