"""JSON Schemas read with care: references, composition and types of whatever a server sent in place of a schema.

Above: schema_types.py writes types, arguments.py explains arguments that do not fit. Below: nothing. Work is bounded by
the `Reader`, so that neither a cycle nor a schema that doubles at every level takes long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

MAX_VISITS = 20_000
MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Fields:
    """The properties of an object schema, those of its `allOf`, `anyOf` and `oneOf` parts included."""

    properties: Mapping[str, Any]
    required: frozenset[str]
    extra: Any
    """`additionalProperties` as the schema gives it, None without."""


def mapping(value: Any) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def sequence(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def pointed(root: Mapping[str, Any], reference: str) -> Any:
    """What a `$ref` within the same document points at; None for any other and for one that leads nowhere."""
    if not reference.startswith("#"):
        return None
    node: Any = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        items = sequence(node)
        if (inner := mapping(node)) is not None:
            node = inner.get(key)
        elif key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(items):
            node = items[int(key)]
        else:
            return None
    return node if reference == "#" or reference.startswith("#/") else None


class Reader:
    """Reads schemas within one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self._visits = 0

    def exhausted(self, cost: int = 1) -> bool:
        """Counts what is about to be read; true once it was too much."""
        self._visits += cost
        return self._visits > MAX_VISITS

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """`schema` with its references followed; what is written beside a `$ref` wins."""
        beside: dict[str, Any] = {}
        followed: set[str] = set()
        while (node := mapping(schema)) is not None and not self.exhausted(1 + len(node)):
            reference = node.get("$ref")
            beside = {**node, **beside}
            if not isinstance(reference, str) or reference in followed:
                break
            followed.add(reference)
            beside.pop("$ref", None)
            schema = pointed(self.root, reference)
        return beside

    def fields(self, schema: Any, depth: int = 0) -> Fields:
        """All properties an object of `schema` may have; required are those that every alternative requires."""
        node = self.resolved(schema)
        own = mapping(node.get("properties")) or {}
        properties = {name: value for name, value in own.items() if _is_text(name)}
        required = {name for name in sequence(node.get("required")) if _is_text(name)}
        if depth < MAX_DEPTH and not self.exhausted(1 + len(properties)):
            for part in sequence(node.get("allOf")):
                inner = self.fields(part, depth + 1)
                properties = {**inner.properties, **properties}
                required |= inner.required
            for keyword in ("anyOf", "oneOf"):
                alternatives = [self.fields(part, depth + 1) for part in sequence(node.get(keyword))]
                for alternative in alternatives:
                    properties = {**alternative.properties, **properties}
                common = set(alternatives[0].required) if alternatives else set[str]()
                required |= common.intersection(*(alternative.required for alternative in alternatives))
        return Fields(properties, frozenset(required), node.get("additionalProperties"))


def values_of(node: Mapping[str, Any]) -> Sequence[Any]:
    """The only values `node` allows, if it lists them."""
    return [node["const"]] if "const" in node else sequence(node.get("enum"))


def kinds_of(node: Mapping[str, Any]) -> Sequence[str]:
    """The values of `type`, or what they must be where it is left out."""
    kind = node.get("type")
    if kind is not None:
        return [each for each in sequence(kind) or [kind] if isinstance(each, str)]
    if "items" in node or "prefixItems" in node:
        return ["array"]
    if "additionalProperties" in node:
        return ["object"]
    return list(dict.fromkeys(kind_of(value) for value in values_of(node)))


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _is_text(name: Any) -> bool:
    return isinstance(name, str)
