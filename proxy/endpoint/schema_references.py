"""The local references of a JSON Schema: where they lead, and how they go on leading there when the schema is changed.

Above: plain_schema.py. Below: catalog/schema_reader.py. Schemas come from servers: any of them can be malformed, and
work is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from proxy.catalog.schema_reader import mapping, pointed, sequence

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose members are names, each with a schema."""
DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose values are no schemas, whatever they look like."""
CONTAINERS = ("$defs", "definitions", "x-definitions")
MAX_MOVED = 500


class TooMuch(Exception):
    """The schema is too large to be put together."""


class Document:
    """A schema and the places in it that references lead to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def target(self, reference: str) -> Any:
        """The schema that a local reference points at; None for any other and for one that leads to none."""
        pointer = reference == "#" or reference.startswith("#/")
        found = pointed(self.root, reference) if pointer else self._anchors.get(reference)
        return found if mapping(found) is not None or isinstance(found, bool) else None

    @cached_property
    def _anchors(self) -> Mapping[str, Any]:
        anchors: dict[str, Any] = {}
        for node in _nodes(self.root):
            if isinstance(name := node.get("$anchor"), str):
                anchors.setdefault(f"#{name}", node)
            # Until draft 7.
            if isinstance(name := node.get("$id"), str) and name.startswith("#"):
                anchors.setdefault(name, node)
        return anchors


def with_references(root: Mapping[str, Any], shown: Mapping[str, Any]) -> Mapping[str, Any]:
    """`shown`, which was made of `root`, with its local references leading where they led in `root`.

    What they led to and `shown` does not have is added to its definitions; a reference that led nowhere is taken out.

    Raises:
        TooMuch: More than `MAX_MOVED` definitions would have to be added.
    """
    return _References(root, shown).kept()


class _References:
    """Makes the local references of what is shown lead where they led in the original."""

    def __init__(self, root: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        self._original = Document(root)
        self._shown = shown
        self._document = self._original if shown is root else Document(shown)
        self._moved: dict[str, str] = {}
        """Reference in the original -> the name that its target has in the container."""
        self._container = next(key for key in CONTAINERS if key not in shown or mapping(shown[key]) is not None)
        self._taken = set(mapping(shown.get(self._container)) or {})

    def kept(self) -> Mapping[str, Any]:
        if all(self._leads(reference) for reference in _references(self._shown)):
            return self._shown
        shown = _rewritten(self._shown, self._node)
        moved: dict[str, Any] = {}
        while missing := [reference for reference, name in self._moved.items() if name not in moved]:
            for reference in missing:
                moved[self._moved[reference]] = _rewritten(self._copied(reference), self._node)
        if moved:
            shown[self._container] = {**(mapping(shown.get(self._container)) or {}), **moved}
        return shown

    def _leads(self, reference: str) -> bool:
        """Whether it leads, within what is shown, to what it led to. Any other document is not ours to judge."""
        if not reference.startswith("#"):
            return True
        target = self._original.target(reference)
        return target is not None and self._document.target(reference) is target

    def _node(self, node: dict[str, Any]) -> dict[str, Any]:
        reference = node.get("$ref")
        if not isinstance(reference, str) or self._leads(reference):
            return node
        if self._original.target(reference) is None:
            return {key: value for key, value in node.items() if key != "$ref"}
        return {**node, "$ref": f"#/{self._container}/{self._name(reference)}"}

    def _name(self, reference: str) -> str:
        if reference not in self._moved:
            if len(self._moved) == MAX_MOVED:
                raise TooMuch
            stem = re.sub(r"\W+", "_", reference, flags=re.ASCII).strip("_")[-40:] or "root"
            name = next(name for name in _numbered(stem) if name not in self._taken)
            self._taken.add(name)
            self._moved[reference] = name
        return self._moved[reference]

    def _copied(self, reference: str) -> Any:
        target, root = self._original.target(reference), self._original.root
        if target is not root:
            return target
        left_out = {"$schema", "$id", "id", "$defs", "definitions"}
        return {key: value for key, value in root.items() if key not in left_out}


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}_{number}"
        number += 1


def _references(schema: Any) -> Iterator[str]:
    for node in _nodes(schema):
        if isinstance(reference := node.get("$ref"), str):
            yield reference


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """All schemas within `schema`, itself first, save those that have a base of their own."""
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    while waiting:
        value, named = waiting.pop()
        if (node := mapping(value)) is None:
            waiting += [(inner, False) for inner in sequence(value)]
        elif named:
            waiting += [(inner, False) for inner in node.values()]
        elif node is schema or not has_own_base(node):
            yield node
            waiting += [(inner, key in NAMED) for key, inner in node.items() if key not in DATA]


def _rewritten(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of `schema` in which each schema, save those that have a base of their own, went through `change`."""

    def copied(value: Any, named: bool = False) -> Any:
        if (node := mapping(value)) is None:
            return [copied(inner) for inner in sequence(value)] if isinstance(value, list) else value
        if named:
            return {key: copied(inner) for key, inner in node.items()}
        if node is not schema and has_own_base(node):
            return node
        return change({key: inner if key in DATA else copied(inner, key in NAMED) for key, inner in node.items()})

    return copied(schema)


def has_own_base(node: Mapping[str, Any]) -> bool:
    """Whether references within `node` are not relative to the document it stands in."""
    return any(isinstance(base := node.get(key), str) and not base.startswith("#") for key in ("$id", "id"))
