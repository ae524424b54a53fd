"""The form of values as JSON Schema, observed and merged: which keys, which types, what may be missing.

Above: shapes.py. Below: redaction.py, for keys that are data. Whatever a server answers, the outcome is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from proxy.catalog.redaction import is_telling, size_of
from proxy.catalog.schema_types import plain_name

Schema = dict[str, Any]
MAX_LEVELS = 6
MAX_FIELDS = 40
"""An object with more is one whose keys are data."""
ALIKE = 5
"""So many objects of one form in an object are its data too: its keys are names, not fields."""
MAX_ITEMS = 30
"""Elements of a list that are looked at."""
MAX_LOOKED_AT = 1_500
"""Members of a value, on all levels."""
MAX_CHARS = 3_000
"""Of a schema, as JSON; beyond it the deepest levels are left out."""
_KINDS: Sequence[tuple[type, str]] = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))


def observed(value: Any) -> Schema:
    """The schema of one value."""
    schema = _Observer().observed(value, MAX_LEVELS)
    for levels in range(MAX_LEVELS - 1, -1, -1):
        if size_of(schema) <= MAX_CHARS:
            break
        schema = _pruned(schema, levels)
    return schema


def merged(first: Schema, second: Schema) -> Schema:
    """A schema of the values of both."""
    schema = _merged(first, second)
    # Every member of a merge is in one of the two: it only grows too long by and by, and then stays as it was.
    return schema if size_of(schema) <= 2 * MAX_CHARS else first


def written(schema: Mapping[str, Any], limit: int) -> str:
    """The form on one line, `list[{id: int, name: str, note?: str}]`, in at most `limit` characters where it can be."""
    text = ""
    for levels in range(MAX_LEVELS, -1, -1):
        text = _written(schema, levels)
        if len(text) <= limit:
            return text
    return text


class _Observer:
    """Looks at one value, and at so many of its members at most."""

    def __init__(self) -> None:
        self._left = MAX_LOOKED_AT

    def observed(self, value: Any, levels: int) -> Schema:
        self._left -= 1
        if value is None:
            return {"type": ["null"]}
        for kind, name in _KINDS:
            if isinstance(value, kind):
                return {"type": [name]}
        if isinstance(value, Mapping):
            return self._object(cast(Mapping[Any, Any], value), levels)
        if isinstance(value, Sequence):
            items = cast(Sequence[Any], value)
            if not items or levels <= 0 or self._left <= 0:
                return {"type": ["array"]}
            looked_at = [*items[: MAX_ITEMS - 5], *items[-5:]] if len(items) > MAX_ITEMS else items
            return {"type": ["array"], "items": _merge_all(self.observed(item, levels - 1) for item in looked_at)}
        return {"type": []}

    def _object(self, value: Mapping[Any, Any], levels: int) -> Schema:
        schema: Schema = {"type": ["object"]}
        if levels <= 0 or self._left <= 0:
            return schema
        if len(value) > MAX_FIELDS or any(is_telling(str(key)) for key in value):
            inner = [self.observed(each, levels - 1) for each in islice(value.values(), MAX_ITEMS)]
            return {**schema, "additionalProperties": _merge_all(inner)}
        properties = {str(key): self.observed(each, levels - 1) for key, each in value.items()}
        first: Schema = next(iter(properties.values()), Schema())
        if len(properties) >= ALIKE and "properties" in first and all(each == first for each in properties.values()):
            return {**schema, "additionalProperties": first}
        return {**schema, "properties": properties, "required": sorted(properties)}


def _pruned(schema: Schema, levels: int) -> Schema:
    """`schema` without what lies deeper than so many levels."""
    if levels <= 0:
        return {"type": schema["type"]}
    pruned = dict(schema)
    for key in ("items", "additionalProperties"):
        if key in schema:
            pruned[key] = _pruned(schema[key], levels - 1)
    if "properties" in schema:
        pruned["properties"] = {name: _pruned(each, levels - 1) for name, each in schema["properties"].items()}
    return pruned


def _merge_all(schemas: Iterable[Schema]) -> Schema:
    total: Schema = {}
    for schema in schemas:
        total = _merged(total, schema) if total else schema
    return total


def _merged(first: Schema, second: Schema) -> Schema:
    if not first or first == second:
        return second
    if not second:
        return first
    kinds = sorted({*first["type"], *second["type"]})
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    schema: Schema = {"type": kinds}
    if "array" in kinds and (items := _merged(first.get("items", {}), second.get("items", {}))):
        schema["items"] = items
    objects = [each for each in (first, second) if "object" in each["type"]]
    if any("additionalProperties" in each for each in objects):
        every = [inner for each in objects for inner in _values(each)]
        schema["additionalProperties"] = _merge_all(every)
    elif any("properties" in each for each in objects):
        known = [each for each in objects if "properties" in each]
        names = list(dict.fromkeys(name for each in known for name in each["properties"]))
        if len(names) > MAX_FIELDS:
            schema["additionalProperties"] = _merge_all(inner for each in known for inner in _values(each))
        else:
            schema["properties"] = {
                name: _merge_all(each["properties"][name] for each in known if name in each["properties"])
                for name in names
            }
            required = set(names).intersection(*(each.get("required", ()) for each in known))
            schema["required"] = sorted(required)
    return schema


def _values(schema: Schema) -> list[Schema]:
    extra = schema.get("additionalProperties")
    return [*schema.get("properties", {}).values(), *([extra] if extra else [])]


def _written(schema: Mapping[str, Any], levels: int) -> str:
    kinds: Sequence[str] = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", ())
    written = [_kind(kind, schema, levels) for kind in sorted(kinds, key=lambda kind: kind == "null")]
    return " | ".join(dict.fromkeys(written)) or "Any"


def _kind(kind: str, schema: Mapping[str, Any], levels: int) -> str:
    if kind == "array":
        items = schema.get("items")
        return f"list[{_written(items, levels - 1)}]" if items and levels > 0 else "list"
    if kind != "object":
        return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(
            kind, "Any"
        )
    if levels <= 0:
        return "dict"
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if properties:
        required = schema.get("required", ())
        fields: list[str] = []
        for name, each in properties.items():
            shown = name if plain_name(name) else ascii(name)
            fields.append(f"{shown}{'' if name in required else '?'}: {_written(each, levels - 1)}")
        return "{" + ", ".join(fields) + "}"
    extra = schema.get("additionalProperties")
    if not isinstance(extra, Mapping):
        return "dict"
    return f"dict[str, {_written(cast(Mapping[str, Any], extra), levels - 1)}]"
