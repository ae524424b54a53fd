"""Arguments of a call: understood in the forms agents send them, and checked before a server has to refuse them.

Above: metatools/ and endpoint/ call a tool only with what passed here. Below: jsonschema-rs decides,
argument_problems.py explains. A schema that cannot be compiled, reaches outside itself or would take long to apply
means no check: the server has the last word in any case.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from jsonschema_rs import RegexOptions, ValidationError, Validator, validator_for

from proxy.catalog.argument_problems import given, problems_of, unknown_names
from proxy.catalog.records import ToolRecord
from proxy.catalog.schema_reader import Fields, Reader, kinds_of, mapping, pointed, sequence
from proxy.catalog.stubs import signature
from proxy.catalog.text import one_line
from proxy.errors import InvalidArguments

if TYPE_CHECKING:
    from jsonschema_rs import KeywordValidator

MAX_STEPS = 20_000
"""Pairs of a subschema and a value it applies to; a call with more is not checked."""
MAX_NESTING = 100
MAX_PLAIN = 2_000
MAX_COPIED = 200_000_000
"""Bound on what the validator copies to explain itself: characters of the arguments times steps."""
MAX_SHOWN = 5
_PATTERN_BYTES = 1_000_000
_WRAPPERS = ("arguments", "args", "parameters", "input")


def understand(arguments: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` as the object they were meant to be; raises InvalidArguments where they are none."""
    found = _object(arguments, schema)
    if len(found) == 1:
        (name, inner), *_ = found.items()
        wraps = isinstance(inner, Mapping) or (isinstance(inner, str) and inner.lstrip().startswith("{"))
        if name in _WRAPPERS and wraps:
            fields = Reader(schema).fields(schema)
            declared = name in fields.properties or name in fields.required
            if not declared and fields.extra is not True and not mapping(fields.extra):
                return _unwrapped(inner, found)
    return found


class ArgumentChecker:
    """Checks arguments against input schemas; keeps the compiled schemas of the `capacity` tools used last."""

    def __init__(self, capacity: int = 512) -> None:
        self._capacity = capacity
        self._compiled: OrderedDict[int, _Compiled] = OrderedDict()

    def check(self, tool: ToolRecord, arguments: Mapping[str, Any]) -> None:
        """Raises InvalidArguments, with what to change and the tool's signature, for arguments that do not fit."""
        schema = tool.input_schema
        if not schema:
            return
        compiled = self._compiled_for(schema)
        lines = _complaints(compiled, dict(arguments))
        if lines is None:
            return
        shown = lines[:MAX_SHOWN]
        if len(lines) > MAX_SHOWN:
            shown.append(f"and {len(lines) - MAX_SHOWN} more")
        head = f"The arguments do not fit {tool.written}" + (":" if shown else ".")
        raise InvalidArguments("\n".join([head, *shown, f"Call it as {signature(tool)}"]))

    def _compiled_for(self, schema: Mapping[str, Any]) -> _Compiled:
        # The entry holds the schema, so that no other object can have its id while the entry lives.
        compiled = self._compiled.get(id(schema))
        if compiled is None:
            compiled = _Compiled(schema, _compile(schema), Reader(schema).fields(schema), _plain(schema))
            self._compiled[id(schema)] = compiled
            if len(self._compiled) > self._capacity:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(id(schema))
        return compiled


@dataclass(frozen=True, slots=True)
class _Compiled:
    schema: Mapping[str, Any]
    validator: Validator | None
    fields: Fields
    plain: bool
    """Small and without references, so that applying it is cheap whatever the arguments."""


class _NoPattern:
    """Stands for `pattern` where one of a schema's patterns has no matcher that takes linear time."""

    def __init__(self, parent_schema: object, value: object, schema_path: object) -> None: ...

    def validate(self, instance: object) -> None: ...


def _compile(schema: Mapping[str, Any]) -> Validator | None:
    if "type" in schema and "object" not in kinds_of(schema):
        return None  # no arguments could ever fit
    choices: tuple[dict[str, type[KeywordValidator]], ...] = ({}, {"pattern": _NoPattern})
    for keywords in choices:
        try:
            return validator_for(
                dict(schema),
                validate_formats=False,
                offline=True,
                pattern_options=RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
                keywords=keywords,
            )
        except (ValidationError, ValueError, TypeError):
            continue
    return None


def _complaints(compiled: _Compiled, arguments: dict[str, Any]) -> list[str] | None:
    """What is wrong, one line each; None where nothing is, or nothing can be said."""
    if compiled.validator is None or not (compiled.plain or _steps(compiled.schema, arguments)):
        return None
    try:
        if compiled.validator.is_valid(arguments):
            return unknown_names(compiled.fields, arguments, frozenset()) or None
        if (_steps(compiled.schema, arguments) or MAX_STEPS) * len(json.dumps(arguments)) > MAX_COPIED:
            return []
        lines = problems_of(compiled.validator.iter_errors(arguments), Reader(compiled.schema))
    except (ValueError, TypeError, RecursionError):
        return None
    if not lines:  # every error is the validator's own: that is not the agent's fault
        return None
    missing = compiled.fields.required - arguments.keys()
    return list(dict.fromkeys([*lines, *unknown_names(compiled.fields, arguments, missing)]))


def _plain(schema: Mapping[str, Any]) -> bool:
    waiting: list[Any] = [schema]
    for _ in range(MAX_PLAIN):
        if not waiting:
            return True
        value = waiting.pop()
        if node := mapping(value):
            if not {"$ref", "$dynamicRef", "$recursiveRef"}.isdisjoint(node):
                return False
            waiting.extend(node.values())
        else:
            waiting.extend(sequence(value))
    return False


def _steps(root: Mapping[str, Any], arguments: Mapping[str, Any]) -> int | None:
    """How many subschemas a validator applies to how many values; None for too many, and for a schema that refers to
    more than places in itself: schemas can be written whose application takes exponential time."""
    waiting: list[tuple[Any, Any, int]] = [(root, arguments, 0)]
    steps = 0
    while waiting:
        schema, value, depth = waiting.pop()
        steps += 1
        node = mapping(schema)
        if node is None:
            continue
        steps += len(sequence(node.get("required")))
        moved = depth > 0 and (isinstance(node.get("$id"), str) or isinstance(node.get("id"), str))
        if steps > MAX_STEPS or depth > MAX_NESTING or moved or "$dynamicRef" in node or "$recursiveRef" in node:
            return None
        if isinstance(reference := node.get("$ref"), str):
            target = pointed(root, reference)
            if target is None:
                return None
            waiting.append((target, value, depth + 1))
        waiting.extend((part, value, depth + 1) for part in _in_place(node))
        waiting.extend((part, inner, depth + 1) for part, inner in _inside(node, value))
    return steps


def _in_place(node: Mapping[str, Any]) -> Iterator[Any]:
    """The subschemas of `node` that apply to the same value as it does."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from sequence(node.get(keyword))
    for keyword in ("not", "if", "then", "else"):
        yield node.get(keyword)
    for keyword in ("dependentSchemas", "dependencies"):
        yield from (mapping(node.get(keyword)) or {}).values()


def _inside(node: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The subschemas of `node` that apply to parts of `value`, with the part."""
    if members := mapping(value):
        properties = mapping(node.get("properties")) or {}
        yield from ((properties[name], inner) for name, inner in members.items() if name in properties)
        others = [
            node[key] for key in ("additionalProperties", "unevaluatedProperties", "propertyNames") if key in node
        ]
        others += (mapping(node.get("patternProperties")) or {}).values()
        yield from ((part, inner) for part in others for inner in members.values())
    elif items := sequence(value):
        for keyword in ("items", "prefixItems"):
            yield from zip(sequence(node.get(keyword)), items, strict=False)
        others = [node[key] for key in ("items", "additionalItems", "unevaluatedItems", "contains") if key in node]
        yield from ((part, inner) for part in others if mapping(part) for inner in items)


def _object(arguments: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    if arguments is None:
        return {}
    value: Any = arguments
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            value = json.loads(arguments, parse_constant=_not_json)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(
                f"The arguments are a string that is not JSON ({one_line(str(error), 120)}). {_send(schema)}"
            ) from error
    if (found := mapping(value)) is None:
        raise InvalidArguments(f"The arguments have to be an object, got {given(value)}. {_send(schema)}")
    return dict(found)


def _unwrapped(inner: Any, found: dict[str, Any]) -> dict[str, Any]:
    try:
        return _object(inner, {})
    except InvalidArguments:
        return found


def _send(schema: Mapping[str, Any]) -> str:
    names = list(Reader(schema).fields(schema).properties)[:3]
    sample = ", ".join(f"{json.dumps(one_line(name, 60), ensure_ascii=False)}: ..." for name in names)
    return f"Send a JSON object with one member a parameter: {{{sample}}}"


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
