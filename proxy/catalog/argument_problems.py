"""What is wrong with arguments, in lines an agent can act on: the parameter, what was expected, what was given.

Above: arguments.py. Below: jsonschema-rs, whose errors are put into words here, and schema_reader.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from jsonschema_rs import ValidationError, ValidationErrorKind
from rapidfuzz import fuzz, process

from proxy.catalog.names import squashed
from proxy.catalog.schema_reader import Fields, Reader, kind_of, kinds_of, mapping, sequence, values_of
from proxy.catalog.schema_types import json_text
from proxy.catalog.text import one_line

Path = Sequence[str | int]

MAX_UNKNOWN = 20
MAX_UNIONS = 4
"""Unions within unions that are followed to the alternative that was meant."""
_NEAR = 85
_RELATED = 60
"""Similarity that suggests a name for one that is wrong in any case."""
_DEMANDS = {
    "minimum": "at least {limit}",
    "maximum": "at most {limit}",
    "exclusiveMinimum": "more than {limit}",
    "exclusiveMaximum": "less than {limit}",
    "multipleOf": "a multiple of {multiple_of}",
    "minLength": "at least {limit} characters",
    "maxLength": "at most {limit} characters",
    "minItems": "at least {limit} items",
    "maxItems": "at most {limit} items",
    "uniqueItems": "items that all differ",
    "pattern": "text that matches {pattern}",
}


def problems_of(errors: Iterable[ValidationError], reader: Reader) -> list[str]:
    """One line a problem; none for errors that are the validator's own."""
    explain = _Explainer(reader)
    return list(dict.fromkeys(line for error in errors for line in explain.lines(error)))


def unknown_names(fields: Fields, arguments: Mapping[str, Any], missing: frozenset[str]) -> list[str]:
    """Names the schema lets pass without knowing them, where they look like a parameter that was meant."""
    if fields.extra is False or mapping(fields.extra) or not fields.properties:
        return []
    unknown = [name for name in arguments if name not in fields.properties and name not in fields.required]
    absent = [name for name in fields.properties if name not in arguments]
    lines: list[str] = []
    for name in unknown[:MAX_UNKNOWN]:
        near = nearest(name, absent, _RELATED if missing else _NEAR)
        if near is None and len(unknown) == len(missing) == 1:
            near = next(iter(missing))
        if near is not None or missing:
            lines.append(_not_a_parameter(_shown(name), near))
    return lines


def nearest(name: str, names: Sequence[str], cutoff: int) -> str | None:
    """The name most like `name`, whatever their case and punctuation."""
    candidates = [candidate[:100] for candidate in names]
    match = process.extractOne(name[:100], candidates, scorer=fuzz.ratio, processor=squashed, score_cutoff=cutoff)
    return names[match[2]] if match else None


def given(value: Any) -> str:
    """A value in a few words."""
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return f"the string {json.dumps(one_line(value, 60), ensure_ascii=False)}" if value else "an empty string"
        case int() | float():
            return f"the number {one_line(json_text(value), 40)}"
        case _:
            return _given_several(value)


def _given_several(value: Any) -> str:
    if (members := mapping(value)) is not None:
        names = [_shown(str(name)) for name in islice(members, 4)]
        more = ", …" if len(members) > 4 else ""
        return f"an object with {', '.join(names)}{more}" if names else "an empty object"
    count = len(sequence(value))
    return f"a list of {count} item{'s' if count > 1 else ''}" if count else "an empty list"


class _Explainer:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def lines(self, error: ValidationError, unions: int = 0) -> Iterator[str]:
        path, value = error.instance_path, error.instance
        match error.kind:
            case ValidationErrorKind.Required(property=name):
                yield f"{_dotted([*path, name])}: required, missing ({self._about([*path, name])})"
            case ValidationErrorKind.AdditionalProperties(unexpected=names):
                yield from self._unexpected(path, value, names)
            case ValidationErrorKind.UnevaluatedProperties(unexpected=names):
                yield from self._unexpected(path, value, names)
            case ValidationErrorKind.AnyOf(context=branches) | ValidationErrorKind.OneOfNotValid(context=branches):
                yield from self._union(path, value, branches, unions)
            case (
                ValidationErrorKind.BacktrackLimitExceeded()
                | ValidationErrorKind.RegexEngineFailure()
                | ValidationErrorKind.Referencing()
            ):
                return
            case ValidationErrorKind.FalseSchema():
                yield f"{_dotted(path)}: not allowed here"
            case kind:
                if expected := _expected(kind):
                    yield f"{_dotted(path)}: expected {expected}, got {_given_for(kind, value)}"
                else:
                    yield f"{_dotted(path)}: {one_line(error.message, 200)}"

    def _schema(self, path: Path) -> Any:
        node: Any = self._reader.root
        for step in path:
            if isinstance(step, str):
                fields = self._reader.fields(node)
                node = fields.properties.get(step, fields.extra)
            else:
                node = self._reader.resolved(node).get("items")
        return node

    def _about(self, path: Path) -> str:
        """Type and description of the parameter at `path`."""
        node = self._reader.resolved(self._schema(path))
        description = node.get("description")
        about = one_line(description, 120) if isinstance(description, str) else ""
        kinds = self._types(node)
        return f"{kinds}: {about}" if kinds and about else kinds or about or "any value"

    def _types(self, node: Mapping[str, Any]) -> str:
        if values := values_of(node):
            return _one_of(values)
        alternatives = [*sequence(node.get("anyOf")), *sequence(node.get("oneOf"))][:8]
        kinds = kinds_of(node) or [kind for part in alternatives for kind in kinds_of(self._reader.resolved(part))]
        return " or ".join(one_line(kind, 20) for kind in dict.fromkeys(kinds[:8]))

    def _unexpected(self, path: Path, value: Any, names: Sequence[str]) -> Iterator[str]:
        members = mapping(value) or {}
        absent = [name for name in self._reader.fields(self._schema(path)).properties if name not in members]
        for name in names[:MAX_UNKNOWN]:
            yield _not_a_parameter(_dotted([*path, name]), nearest(name, absent, _RELATED))

    def _union(
        self, path: Path, value: Any, branches: Sequence[Sequence[ValidationError]], unions: int
    ) -> Iterator[str]:
        """The faults of the alternative that was meant, or what there is to choose from."""
        kinds = [_wrong_type(branch, path) for branch in branches]
        fitting = [branch for branch, wrong in zip(branches, kinds, strict=True) if not wrong]
        missing = [_only_missing(branch, path) for branch in fitting]
        if not fitting:
            expected = list(dict.fromkeys(kind for wrong in kinds for kind in wrong))
            yield f"{_dotted(path)}: expected {' or '.join(expected)}, got {given(value)}{_repair(expected, value)}"
        elif len(fitting) > 1 and all(missing):
            choices = " or ".join(one_line(" with ".join(names), 60) for names in missing)
            yield f"{_dotted(path)}: required, one of {choices}" if path else f"{choices}: one of these is required"
        elif unions < MAX_UNIONS:
            meant = min(fitting, key=_distance)
            for error in meant:
                yield from self.lines(error, unions + 1)


def _wrong_type(branch: Sequence[ValidationError], path: Path) -> list[str]:
    """What an alternative would have wanted in place of a value of another type; empty where the type fits."""
    for error in branch:
        match error.kind:
            case ValidationErrorKind.Type(types=types) if list(error.instance_path) == list(path):
                return types
            case _:
                pass
    return []


def _only_missing(branch: Sequence[ValidationError], path: Path) -> list[str]:
    """The names an alternative misses, if it wants nothing else."""
    names: list[str] = []
    for error in branch:
        match error.kind:
            case ValidationErrorKind.Required(property=name) if list(error.instance_path) == list(path):
                names.append(name)
            case _:
                return []
    return names


def _distance(branch: Sequence[ValidationError]) -> tuple[int, int]:
    """How far an alternative is from what was given: a constant that differs tells alternatives apart."""
    constants = (ValidationErrorKind.Constant, ValidationErrorKind.Enum)
    return sum(isinstance(error.kind, constants) for error in branch), len(branch)


def _expected(kind: ValidationErrorKind) -> str:
    """What a keyword demands; empty for one that has no words here."""
    match kind:
        case ValidationErrorKind.Type(types=types):
            return " or ".join(types)
        case ValidationErrorKind.Enum(options=options):
            return _one_of(options)
        case ValidationErrorKind.Constant(expected_value=only):
            return one_line(json_text(only), 100)
        case _:
            return one_line(_DEMANDS.get(kind.name, "").format(**kind.as_dict()), 120)


def _given_for(kind: ValidationErrorKind, value: Any) -> str:
    """The value, with its size where that is what is wrong, and how to repair it where that is known."""
    match kind:
        case ValidationErrorKind.Type(types=types):
            return given(value) + _repair(types, value)
        case ValidationErrorKind.Enum(options=options) if isinstance(value, str):
            near = nearest(value, [option for option in options if isinstance(option, str)], _RELATED)
            return given(value) + (f": did you mean {_quoted(near)}?" if near else "")
        case ValidationErrorKind.MinLength() | ValidationErrorKind.MaxLength():
            return f"{len(value)}"
        case _:
            return given(value)


def _repair(types: Sequence[str], value: Any) -> str:
    kind = kind_of(value)
    if kind == "string":
        meant = _parsed(value)
        if isinstance(meant, dict | list) and kind_of(meant) in types:
            return ": send the JSON itself, not a string of it"
        if meant is not None and {kind_of(meant), "number"} & set(types) and not isinstance(meant, str | dict | list):
            return f": send {json_text(meant)} without quotes"
    if kind in ("integer", "number", "boolean") and "string" in types and len(text := json_text(value)) <= 40:
        return f": send {_quoted(text)} with quotes"
    if kind == "null":
        return ": leave it out if you have no value for it"
    if types == ["array"] and kind != "object":
        return ": send a list, even of one item"
    return ""


def _parsed(text: str) -> Any:
    if len(text) > 100_000:
        return None
    try:
        return json.loads(text.strip().lower() if text.strip().lower() in ("true", "false") else text)
    except (ValueError, RecursionError):
        return None


def _one_of(values: Sequence[Any]) -> str:
    shown = ", ".join(one_line(json_text(value), 60) for value in values[:12])
    return f"one of {shown}" + (f", … ({len(values)} values)" if len(values) > 12 else "")


def _not_a_parameter(name: str, near: str | None) -> str:
    return f"{name}: not a parameter" + (f"; did you mean {_quoted(near)}?" if near else "")


def _shown(name: str) -> str:
    return one_line(name, 60) or one_line(ascii(name), 60)


def _quoted(text: str) -> str:
    return f"'{one_line(text, 80)}'"


def _dotted(path: Path) -> str:
    """`filters[0].name`; the arguments as a whole are `arguments`."""
    written = ""
    for step in path:
        written += f"[{step}]" if isinstance(step, int) else f"{'.' if written else ''}{_shown(step)}"
    return one_line(written, 200) or "arguments"
