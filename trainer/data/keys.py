"""Which characters of an action decide: those by which a name is told from all others that could stand there.

Above: policy_rows.py, which weighs their tokens more (key tokens of TL-Training, arXiv 2412.15495). Below: tokens.py.
Names are those of the action, and of servers and tools that it names as call_tool, describe_tools and list_tools do.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from trainer.data.shown import Shown
from trainer.data.tokens import Reader

SETS = 10_000
"""Sets of names whose deciding characters are kept."""
_TOOL, _TOOLS, _SERVER = "tool", "tools", "server"


class Keys:
    """Where names are decided, under one tokenizer."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: OrderedDict[tuple[str, str], Mapping[str, int]] = OrderedDict()

    def places(
        self, text: str, name: str, arguments: Mapping[str, Any], shown: Shown, actions: Sequence[str]
    ) -> list[int]:
        """Characters of `text`, an action as rendering.py writes it, that decide its names.

        A name that is the only one of its kind, or that is none of the catalogue's, has none.
        """
        found = [*self._decides(f"{shown.hash} actions {' '.join(actions)}", "", actions, " {", name, 0)]
        begin = len(name)
        for written in _names(arguments):
            # After what was found before: the same tool may be named twice.
            at = text.find(json.dumps(written, ensure_ascii=False), begin)
            if at < 0:
                continue
            begin = at + 1
            server, dot, tool = written.partition(".")
            tail = "." if dot else '"'
            found += self._decides(f"{shown.hash} servers {tail}", '"', tuple(shown.tools), tail, server, at + 1)
            if dot and server in shown.tools:
                tools, start = shown.tools[server], at + 2 + len(server)
                found += self._decides(f"{shown.hash} {server}.", ".", tools, '"', tool, start)
        return found

    def _decides(self, of: str, lead: str, names: Sequence[str], tail: str, name: str, start: int) -> Iterator[int]:
        key = (of, lead)
        if key not in self._known:
            self._known[key] = deciding(names, lead, tail, self._reader)
            if len(self._known) > SETS:
                self._known.popitem(last=False)
        place = self._known[key].get(name)
        if place is not None:
            yield start + place


def deciding(names: Sequence[str], lead: str, tail: str, reader: Reader) -> dict[str, int]:
    """For each of several names the place of its first character in the token from which on it can be no other.

    `lead`, `tail`: what stands before and after it, which may be part of its first and last token.
    """
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        return {}
    made = reader.spans([f"{lead}{name}{tail}" for name in names])
    begun = Counter(tokens[:length] for tokens, _ in made for length in range(1, len(tokens) + 1))
    places: dict[str, int] = {}
    for name, (tokens, spans) in zip(names, made, strict=True):
        for place, (start, _) in enumerate(spans):
            if begun[tokens[: place + 1]] == 1:
                places[name] = max(0, start - len(lead))
                break
    return places


def _names(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in (_TOOL, _SERVER):
        value = arguments.get(key)
        if isinstance(value, str):
            yield value
    several = arguments.get(_TOOLS)
    if isinstance(several, list):
        yield from (each for each in cast("list[Any]", several) if isinstance(each, str))
