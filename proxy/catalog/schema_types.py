"""JSON Schemas as Python type expressions and one-line notes.

Above: stubs.py writes functions with them. Below: schema_reader.py, whose bound holds here too: past it all is `Any`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any

from proxy.catalog.schema_reader import MAX_DEPTH, Fields, Reader, kinds_of, mapping, pointed, sequence, values_of
from proxy.catalog.text import one_line

MAX_DEFINITIONS = 30
MAX_DEFINED = 12_000
"""Characters of TypedDicts after which further objects are plain `dict`s."""
MAX_FIELDS = 60
MAX_TYPE = 1_500
"""Characters of one type; a longer one is `Any`."""
MAX_ALTERNATIVES = 12
MAX_LITERALS = 400
"""Characters of an enumeration that are written out; past them it becomes a note."""
MAX_FLAT_LITERALS = 60

_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool",
    "null": "None", "array": "list", "object": "dict",
}  # fmt: skip
_RESERVED = frozenset({"Any", "Literal", "NotRequired", "TypedDict", "None", "True", "False"})


class Definitions:
    """The TypedDicts of one stub, each under a name of its own."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.texts: list[str] = []
        self._names: dict[str, str] = {}
        self._taken = {*_RESERVED, *taken}

    def claim(self, hint: str) -> str | None:
        """A fresh class name; None once there are too many."""
        if len(self._taken) >= MAX_DEFINITIONS + len(_RESERVED) or sum(map(len, self.texts)) > MAX_DEFINED:
            return None
        words = re.findall(r"[A-Za-z0-9]+", hint)
        base = "".join(word[0].upper() + word[1:] for word in words)[:40]
        if not base.isidentifier() or iskeyword(base):
            base = f"Item{base}"
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}{number}", number + 1
        self._taken.add(name)
        return name

    def define(self, name: str, text: str) -> str:
        """Takes the class statement of `name`, NUL standing for it; returns the class that already looks so."""
        known = self._names.setdefault(text, name)
        if known != name:
            self._taken.discard(name)
        else:
            self.texts.append(text.replace("\0", name))
        return known


class TypeWriter:
    """Writes the types of one document; without `definitions` objects are plain `dict`s."""

    def __init__(self, reader: Reader, definitions: Definitions | None = None) -> None:
        self._reader = reader
        self._definitions = definitions
        self._literal_limit = MAX_LITERALS if definitions else MAX_FLAT_LITERALS
        self._known: dict[str, str] = {}

    def write(self, schema: Any, hint: str, depth: int = 0, reference: str = "") -> str:
        """The type of values of `schema`; `hint` is what its class is called after, `reference` the `$ref` followed."""
        node = mapping(schema)
        if node is None or depth > MAX_DEPTH or self._reader.exhausted():
            return "Any"
        target = node.get("$ref")
        if isinstance(target, str):
            return self._referenced(target, hint, depth)
        written = self._written(node, hint, depth, reference)
        if node.get("nullable") is True and not written.endswith("None"):
            written = union([written, "None"])
        return written if len(written) <= MAX_TYPE else "Any"

    def _referenced(self, reference: str, hint: str, depth: int) -> str:
        if reference not in self._known:
            self._known[reference] = "Any"  # what a reference that leads back here without an object between is
            last = reference.rpartition("/")[2]
            schema = pointed(self._reader.root, reference)
            self._known[reference] = self.write(schema, last.strip("#") or hint, depth + 1, reference)
        return self._known[reference]

    def _written(self, node: Mapping[str, Any], hint: str, depth: int, reference: str) -> str:
        if literals := _literals(values_of(node), self._literal_limit):
            return literals
        parts = sequence(node.get("allOf"))
        if len(parts) == 1 and not {"properties", "type", "anyOf", "oneOf"} & node.keys():
            return self.write(parts[0], hint, depth + 1, reference)
        if parts or mapping(node.get("properties")):
            fields = self._reader.fields(node)
            if fields.properties:
                return self._object(fields, hint, depth, reference)
        kinds = kinds_of(node)
        alternatives = [*sequence(node.get("anyOf")), *sequence(node.get("oneOf"))] or [*parts][:1]
        if alternatives and set(kinds) <= {"object"}:
            written = self._alternatives(alternatives, hint, depth)
            if written != "Any":
                return written
        return union([self._plain(kind, node, hint, depth) for kind in kinds[:MAX_ALTERNATIVES]])

    def _alternatives(self, alternatives: Sequence[Any], hint: str, depth: int) -> str:
        each = [values_of(self._reader.resolved(part)) for part in alternatives[:MAX_ALTERNATIVES]]
        values = [value for allowed in each for value in allowed]
        if all(each) and (literals := _literals(values, self._literal_limit)):
            return literals
        kept = [self.write(part, hint, depth + 1) for part in alternatives[:MAX_ALTERNATIVES]]
        return union([*kept, "Any"] if len(alternatives) > MAX_ALTERNATIVES else kept)

    def _plain(self, kind: Any, node: Mapping[str, Any], hint: str, depth: int) -> str:
        if kind == "array":
            items = node.get("prefixItems", node.get("items"))
            several = [self.write(item, hint, depth + 1) for item in sequence(items)[:MAX_ALTERNATIVES]]
            inner = union(several) if several else self.write(items, hint, depth + 1)
            return "list" if inner == "Any" else f"list[{inner}]"
        if kind == "object":
            inner = self.write(node.get("additionalProperties"), hint, depth + 1)
            return "dict" if inner == "Any" else f"dict[str, {inner}]"
        return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _object(self, fields: Fields, hint: str, depth: int, reference: str) -> str:
        name = self._definitions.claim(hint) if self._definitions else None
        if self._definitions is None or name is None:
            return "dict"
        if reference:
            self._known[reference] = name
        short = (field for field in fields.properties if len(field) <= 100)
        shown = sorted(short, key=lambda field: field not in fields.required)[:MAX_FIELDS]
        attributes = all(plain_name(field) and not field.startswith("__") for field in shown)
        partial = not fields.required & set(shown)
        lines: list[str] = []
        for field in shown:
            written = self.write(fields.properties[field], field, depth + 1)
            if field not in fields.required and not partial:
                written = f"NotRequired[{written}]"
            note = note_of(self._reader.resolved(fields.properties[field]), 120)
            line = f"    {field}: {written}" if attributes else f"    {literal(field)}: {written},"
            lines.append(f"{line}  # {note}" if note else line)
        if left := len(fields.properties) - len(shown):
            lines.append(f"    # and {left} more")
        body, total = "\n".join(lines or ["    pass"]), ", total=False" if partial else ""
        if attributes:
            return self._definitions.define(name, f"class \0(TypedDict{total}):\n{body}")
        return self._definitions.define(name, f"\0 = TypedDict('\0', {{\n{body}\n}}{total})")


def union(types: Sequence[str]) -> str:
    """`A | B` of the types that differ."""
    return " | ".join(dict.fromkeys(types)) or "Any"


def literal(value: Any) -> str:
    """A string as Python source in which every character can be seen."""
    return repr(value) if one_line(value, len(value)) == value else ascii(value)


def python_value(value: Any, limit: int) -> str | None:
    """A JSON value as Python source of at most `limit` characters; None for one that is longer, or no JSON value."""
    try:
        if len(json.dumps(value, allow_nan=False)) > limit:
            return None
        written = literal(value) if isinstance(value, str) else ascii(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return written if len(written) <= limit else None


def plain_name(name: str) -> bool:
    """Whether `name` can be written as it is as a parameter or attribute."""
    stable = name.isascii() or (unicodedata.normalize("NFKC", name) == name == one_line(name, 64))
    return name.isidentifier() and stable and not iskeyword(name) and name != "__debug__" and len(name) <= 64


def note_of(node: Mapping[str, Any], limit: int, *more: str) -> str:
    """Description and constraints of a property on one line."""
    description = node.get("description")
    about = one_line(description, limit) if isinstance(description, str) else ""
    notes = "; ".join([*more, *constraints(node)])
    return f"{about} [{notes}]".strip() if notes else about


def constraints(node: Mapping[str, Any]) -> Iterator[str]:
    """What a schema demands that its type does not say."""
    for keyword, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<")):
        if number := _number(node.get(keyword)):
            yield f"{sign} {number}"
    for low, high, what in (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items")):
        least, most = _number(node.get(low)), _number(node.get(high))
        if least not in ("", "0") or most:
            span = least if least == most else f"{least or 0} to {most}" if most else f"at least {least}"
            yield f"{span} {what}"
    for keyword in ("pattern", "format"):
        value = node.get(keyword)
        if isinstance(value, str) and (shown := one_line(value, 80)):
            yield f"{keyword} {shown}"
    values = values_of(node)
    if values and not _literals(values, MAX_LITERALS):
        count = f" ({len(values)} values)" if len(values) > 9 else ""
        yield f"one of {one_line(', '.join(json_text(value) for value in values[:40]), 300)}{count}"


def json_text(value: Any) -> str:
    """`value` as JSON, or its type where it cannot be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


def _literals(values: Sequence[Any], limit: int) -> str:
    """`Literal[...]`; empty where Python has none for one of the values, or where it would be longer than `limit`."""
    written: list[str] = []
    for value in values:
        source = python_value(value, limit) if value is None or isinstance(value, str | int) else None
        if source is None or (limit := limit - len(source)) < 0:
            return ""
        if source not in written:
            written.append(source)
    return "None" if written == ["None"] else f"Literal[{', '.join(written)}]" if written else ""


def _number(value: Any) -> str:
    """A bound as text; empty for none, and for the limits of a double that some generators write to every integer."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 - 1
    return (str(value) if isinstance(value, int) else f"{value:.15g}") if usable else ""
