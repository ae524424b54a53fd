"""A tool's input schema in the form that every client takes: one plain object at the root.

Above: shown_tools.py. Below: schema_references.py. Clients drop a tool, or all of them, for a combinator or a
reference at the root of its schema. What is shown in its place accepts at least what the original accepts; the original
stays what arguments are checked against. Below the root nothing changes, and every local reference leads somewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from proxy.catalog.schema_reader import kinds_of, mapping, sequence
from proxy.endpoint.schema_references import Document, TooMuch, has_own_base, with_references

COMPOSING = frozenset(
    {
        *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
        # What was evaluated depends on the keywords above, and some clients want no list of values at the root either.
        *("unevaluatedProperties", "enum", "const"),
    }
)
ASSERTING = frozenset(
    {
        *("properties", "required", "patternProperties", "additionalProperties", "propertyNames", "minProperties"),
        *("maxProperties", "dependencies", "dependentRequired", "dependentSchemas"),
    }
)
MAX_PARTS = 5_000
"""Parts and properties that are put together for one root; a schema can be written that doubles at every level."""


def plain_schema(schema: Any) -> Mapping[str, Any]:
    """`schema` for a client; the very same object where nothing stands in the way, an open object if it is none."""
    root = mapping(schema)
    if root is None:
        return {"type": "object"}
    try:
        shown = tidy_root(root)
        if not COMPOSING.isdisjoint(shown):
            shown = tidy_root(_flattened(root))
        return with_references(root, shown)
    except (TooMuch, RecursionError):
        return {"type": "object"}


def tidy_root(root: Mapping[str, Any]) -> Mapping[str, Any]:
    """`root` with the types that clients insist on: `type` object, properties that are objects, names as `required`."""
    mended: dict[str, Any] = {"type": "object", **root, **({} if root.get("type") == "object" else {"type": "object"})}
    if "properties" in root:
        properties = mapping(root["properties"])
        if properties is None:
            del mended["properties"]
        elif any(mapping(inner) is None for inner in properties.values()):
            mended["properties"] = {name: _as_object(inner) for name, inner in properties.items()}
    if "required" in root:
        names = [name for name in sequence(root["required"]) if isinstance(name, str)]
        if names != root["required"]:
            mended["required"] = names
    if "$schema" in root and not isinstance(root["$schema"], str):
        del mended["$schema"]
    unchanged = mended.keys() == root.keys() and all(mended[key] is root[key] for key in mended)
    return root if unchanged else mended


def _as_object(schema: Any) -> Mapping[str, Any]:
    inner = mapping(schema)
    return inner if inner is not None else {"not": {}} if schema is False else {}


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is known of all objects that a schema accepts."""

    properties: Mapping[str, Any]
    required: frozenset[str]
    closed: bool = False
    """No properties besides these."""


def _flattened(root: Mapping[str, Any]) -> dict[str, Any]:
    document = Document(root)
    composed = _Composition(document)
    shape = composed.shape(root)
    ignored = ASSERTING if composed.stands_alone(root) else frozenset[str]()
    shown = {key: value for key, value in root.items() if key not in COMPOSING and key not in ignored}
    if (target := mapping(document.target(str(root.get("$ref"))))) is not None:
        for key in ("title", "description"):
            if key not in shown and key in target:
                shown[key] = target[key]
    if shape is None:
        # Nothing fits the original, and that is the server's to say.
        return {key: value for key, value in shown.items() if key not in ASSERTING}
    shown["properties"] = dict(shape.properties)
    shown.pop("required", None)
    if shape.required:
        shown["required"] = sorted(shape.required)
    if shape.closed:
        shown.setdefault("additionalProperties", False)
    return shown


class _Composition:
    """Reads what objects of a schema look like, its references and combinators included."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._left = MAX_PARTS
        self._old = re.search(r"draft-0[3-7]", str(document.root.get("$schema"))) is not None

    def stands_alone(self, node: Mapping[str, Any]) -> bool:
        """Until draft 7, what is written beside a `$ref` does not count."""
        return self._old and "$ref" in node

    def shape(self, schema: Any, following: frozenset[str] = frozenset()) -> _Shape | None:
        """None where no object fits."""
        node = mapping(schema)
        if node is None:
            return None if schema is False else _Shape({}, frozenset())
        if node is not self._document.root and has_own_base(node):
            return _Shape({}, frozenset())
        own = _own(node)
        self._left -= 1 + len(own.properties)
        if self._left < 0:
            raise TooMuch
        kinds = kinds_of(node) if "type" in node else ()
        if kinds and "object" not in kinds and not self.stands_alone(node):
            return None
        shapes: list[_Shape | None] = []
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in following:
            target = self._document.target(reference)
            shapes.append(self.shape(True if target is None else target, following | {reference}))
        if not self.stands_alone(node):
            shapes.insert(0, own)
            shapes += [self.shape(part, following) for part in sequence(node.get("allOf"))]
            shapes += [self._either(parts, following) for parts in _alternatives(node)]
        fitting = [shape for shape in shapes if shape is not None]
        return _all_of(fitting) if len(fitting) == len(shapes) else None

    def _either(self, parts: Iterable[Any], following: frozenset[str]) -> _Shape | None:
        shapes = [shape for part in parts if (shape := self.shape(part, following)) is not None]
        return _any_of(shapes) if shapes else None


def _own(node: Mapping[str, Any]) -> _Shape:
    properties = mapping(node.get("properties")) or {}
    required = frozenset(name for name in sequence(node.get("required")) if isinstance(name, str))
    closed = node.get("additionalProperties") is False and not node.get("patternProperties")
    return _Shape(properties, required, closed)


def _alternatives(node: Mapping[str, Any]) -> Iterator[list[Any]]:
    for keyword in ("anyOf", "oneOf"):
        if parts := sequence(node.get(keyword)):
            yield list(parts)
    if "if" in node and ("then" in node or "else" in node):
        yield [node.get("then", True), node.get("else", True)]


def _all_of(shapes: list[_Shape]) -> _Shape:
    """Of several schemas for one property any is true; the first that says something is shown."""
    properties: dict[str, Any] = {}
    for shape in shapes:
        for name, inner in shape.properties.items():
            if not properties.get(name):
                properties[name] = inner
    return _Shape(
        properties,
        frozenset(name for shape in shapes for name in shape.required),
        any(shape.closed for shape in shapes),
    )


def _any_of(shapes: list[_Shape]) -> _Shape:
    """An alternative that does not know a property leaves it open, unless it forbids others."""
    properties: dict[str, Any] = {}
    for name in dict.fromkeys(name for shape in shapes for name in shape.properties):
        known = [shape.properties[name] for shape in shapes if name in shape.properties]
        if any(name not in shape.properties and not shape.closed for shape in shapes):
            known.append({})
        known = list({id(inner): inner for inner in known}.values())
        different = list({json.dumps(inner, sort_keys=True): inner for inner in known}.values())
        properties[name] = different[0] if len(different) == 1 else {"anyOf": different}
    required = frozenset(shapes[0].required).intersection(*(shape.required for shape in shapes))
    return _Shape(properties, required, all(shape.closed for shape in shapes))
