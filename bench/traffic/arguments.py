"""Arguments that fit a tool's schema, made of what an agent knows: what it asks about, and the task's words.

Above: agents.py. Below: nothing. It is what a careful model does with a schema, and no more: patterns are not solved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

DEPTH = 4
UNNAMED = "query"
_DAY = re.compile(r"date|_at$|since|until|day$", re.IGNORECASE)
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowing:
    """What an agent may put into arguments."""

    subject: str
    others: Sequence[str] = ()
    """For further texts: ids that results gave, other names of the task."""
    numbers: Sequence[float] = ()
    text: str = ""
    """The task, by which one of several choices is taken."""
    today: date


def arguments_for(schema: Schema, knowing: Knowing) -> dict[str, Any]:
    """What is required, and where none of that is a text, one more parameter that is."""
    return _Filling(schema, knowing).whole()


class _Filling:
    def __init__(self, schema: Schema, knowing: Knowing) -> None:
        self._root = schema
        self._knowing = knowing
        self._texts = [knowing.subject, *knowing.others]
        self._told = 0
        self._counted = 0

    def whole(self) -> dict[str, Any]:
        made = self._object(self._root, DEPTH)
        if not self._told:
            for name, field in _fields(self._root).items():
                if name not in made and _type(self._plain(field)) == "string" and "enum" not in self._plain(field):
                    made[name] = self._value(name, field, DEPTH)
                    break
        if not _fields(self._root) and self._root.get("additionalProperties") is not False:
            # Some catalogues have no schemas: nobody would ask such a tool about nothing.
            made[UNNAMED] = self._knowing.subject
        return made

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        fields, required = _fields(schema), schema.get("required")
        names = (
            [name for name in cast("list[Any]", required) if isinstance(name, str)]
            if isinstance(required, list)
            else []
        )
        return {name: self._value(name, fields.get(name, {}), depth) for name in names}

    def _value(self, name: str, field: Any, depth: int) -> Any:
        schema = self._plain(field)
        if "const" in schema:
            return schema["const"]
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return self._choice(cast("list[Any]", choices))
        match _type(schema):
            case "boolean":
                return True
            case "integer" | "number" as kind:
                return self._number(schema, whole=kind == "integer")
            case "array":
                least = schema.get("minItems", 1)
                count = max(1, least if isinstance(least, int) else 1) if depth else 0
                return [self._value(name, schema.get("items", {}), depth - 1) for _ in range(count)]
            case "object":
                return self._object(schema, depth - 1) if depth else {}
            case _:
                return self._text(name, schema)

    def _text(self, name: str, schema: Schema) -> str:
        if _DAY.search(name) or schema.get("format") in ("date", "date-time"):
            day = self._knowing.today.isoformat()
            return f"{day}T00:00:00Z" if schema.get("format") == "date-time" else day
        text = self._texts[min(self._told, len(self._texts) - 1)]
        self._told += 1
        longest = schema.get("maxLength")
        return text[:longest] if isinstance(longest, int) else text

    def _number(self, schema: Schema, *, whole: bool) -> int | float:
        least, most = (schema.get(key) for key in ("minimum", "maximum"))
        numbers = self._knowing.numbers
        for place in range(len(numbers)):
            number = numbers[(self._counted + place) % len(numbers)]
            low = not isinstance(least, int | float) or number >= least
            high = not isinstance(most, int | float) or number <= most
            if low and high and (number.is_integer() or not whole):
                self._counted += place + 1
                return int(number) if number.is_integer() else number
        default = schema.get("default")
        if isinstance(default, int | float):
            return default
        return max(1, int(least)) if isinstance(least, int | float) else 1

    def _choice(self, choices: Sequence[Any]) -> Any:
        told = self._knowing.text.casefold()
        return next((each for each in choices if isinstance(each, str) and each.casefold() in told), choices[0])

    def _plain(self, field: Any) -> Schema:
        """The schema itself, where it is a reference or one of several."""
        for _ in range(DEPTH):
            if not isinstance(field, Mapping):
                return {}
            schema = cast("Schema", field)
            if isinstance(reference := schema.get("$ref"), str):
                field = self._referred(reference)
            elif isinstance(several := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"), list):
                useful = [
                    each
                    for each in cast("list[Any]", several)
                    if isinstance(each, Mapping) and each.get("type") != "null"
                ]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                field = useful[0] if useful else {}
            else:
                return schema
        return {}

    def _referred(self, reference: str) -> Any:
        found: Any = self._root
        for part in reference.removeprefix("#/").split("/"):
            found = cast("Schema", found).get(part) if isinstance(found, Mapping) else None
        return found


def _fields(schema: Schema) -> Mapping[str, Any]:
    fields = schema.get("properties")
    return cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}


def _type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in cast("list[Any]", kind) if each != "null"), None)
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"
