"""A tool as a Python function stub: what agents read in place of its JSON Schema.

Above: metatools/ shows stubs, arguments.py ends its complaints with a signature. Below: schema_types.py for the types,
text.py for what servers wrote. Nothing a server sends makes these functions raise or write anything but valid Python.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

from proxy.catalog.records import ToolRecord
from proxy.catalog.schema_reader import Fields, Reader, mapping
from proxy.catalog.schema_types import (
    Definitions,
    TypeWriter,
    literal,
    note_of,
    plain_name,
    python_value,
)
from proxy.catalog.text import ELLIPSIS, block, one_line

MAX_PARAMETERS = 120
"""Parameters a stub shows; `parameters` has all of them."""
_LINE = 110


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    raw: str
    type: str
    default: str | None
    """Source of the default, `...` where the server names none; None for a required parameter."""
    note: str

    @property
    def source(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


def stub(tool: ToolRecord) -> str:
    """The function stub of `tool`, its TypedDicts before it."""
    name = _function_name(tool)
    definitions = Definitions([name])
    reader = Reader(tool.input_schema)
    fields = _fields(tool, reader)
    shown, left = _parameters(fields, reader, TypeWriter(reader, definitions))
    returns = "Any"
    if output := tool.output_schema:
        returns = TypeWriter(Reader(output), definitions).write(output, f"{name}_result")
    arguments = [parameter.source for parameter in shown]
    if arguments:
        arguments.insert(0, "*")
    if fields is None or left or _takes_more(fields):
        arguments.append(f"**{_free('arguments', {parameter.name for parameter in shown})}")
    head = f"def {name}({', '.join(arguments)}) -> {returns}:"
    if len(head) > _LINE and len(arguments) > 1:
        lines = "".join(f"    {argument},\n" for argument in arguments[:-1])
        last = arguments[-1] + ("" if arguments[-1].startswith("**") else ",")
        head = f"def {name}(\n{lines}    {last}\n) -> {returns}:"
    return "\n".join([*definitions.texts, head, _docstring(tool, shown, left)])


def parameters(tool: ToolRecord) -> Mapping[str, str]:
    """Name of each parameter in the stub -> name of the property the server knows."""
    fields = _fields(tool, Reader(tool.input_schema))
    return {} if fields is None else _names(fields)


def signature(tool: ToolRecord, limit: int = 160) -> str:
    """The call on one line of at most `limit` characters; optional parameters give way first, then types."""
    name = _function_name(tool)
    reader = Reader(tool.input_schema)
    fields = _fields(tool, reader)
    output = tool.output_schema
    returns = TypeWriter(Reader(output)).write(output, name) if output else "Any"
    if fields is None:
        return one_line(f"{name}(**arguments) -> {returns}", limit)
    shown, left = _parameters(fields, reader, TypeWriter(reader))
    required = [parameter for parameter in shown if parameter.default is None]
    optional = [parameter for parameter in shown if parameter.default is not None]
    for kept in range(len(optional), -1, -1):
        more = [ELLIPSIS] if left or kept < len(optional) else []
        written = [*(parameter.source for parameter in [*required, *optional[:kept]]), *more]
        line = f"{name}({', '.join(written)}) -> {returns}"
        if len(line) <= limit:
            return line
    more = [ELLIPSIS] if left or optional else []
    return one_line(f"{name}({', '.join([*(parameter.name for parameter in required), *more])}) -> {returns}", limit)


def _function_name(tool: ToolRecord) -> str:
    return tool.written.partition(".")[2]


def _fields(tool: ToolRecord, reader: Reader) -> Fields | None:
    """The parameters of `tool`; None where its schema says nothing of them that could be used."""
    schema = tool.input_schema
    fields = reader.fields(schema)
    if fields.properties or fields.required:
        return fields
    nothing_more = fields.extra is None or fields.extra is False
    return fields if nothing_more and schema.get("type") == "object" else None


def _takes_more(fields: Fields) -> bool:
    return fields.extra is True or bool(mapping(fields.extra))


def _names(fields: Fields) -> dict[str, str]:
    """Stub name -> raw name, required ones first; names that can be written keep themselves."""
    every = dict.fromkeys([*fields.properties, *sorted(fields.required)])
    raw = sorted(every, key=lambda name: name not in fields.required)
    taken = {name for name in raw if plain_name(name)}
    names: dict[str, str] = {}
    for name in raw:
        if name in taken:
            names[name] = name
        else:
            written = _free(_sanitised(name), taken)
            taken.add(written)
            names[written] = name
    return names


def _sanitised(name: str) -> str:
    visible = unicodedata.normalize("NFKC", one_line(name, 48).strip(ELLIPSIS))
    written = re.sub(r"\W+", "_", visible).strip("_")
    return next((option for option in (written, f"{written}_", f"p_{written}") if plain_name(option)), "parameter")


def _free(base: str, taken: Container[str]) -> str:
    return next(name for number in count(1) if (name := base if number == 1 else f"{base}_{number}") not in taken)


def _parameters(fields: Fields | None, reader: Reader, types: TypeWriter) -> tuple[list[_Parameter], int]:
    """The first `MAX_PARAMETERS` parameters, required ones first, and how many more there are."""
    if fields is None:
        return [], 0
    names = _names(fields)
    return [_parameter(name, raw, fields, reader, types) for name, raw in islice(names.items(), MAX_PARAMETERS)], max(
        0, len(names) - MAX_PARAMETERS
    )


def _parameter(name: str, raw: str, fields: Fields, reader: Reader, types: TypeWriter) -> _Parameter:
    schema = fields.properties.get(raw)
    node = reader.resolved(schema)
    sent = () if name == raw else (f"sent as {one_line(literal(raw), 100)}",)
    default = None
    if raw not in fields.required:
        default = python_value(node["default"], 80) if "default" in node else None
        default = default or "..."
    return _Parameter(name, raw, types.write(schema, raw), default, note_of(node, 200, *sent))


def _docstring(tool: ToolRecord, shown: Sequence[_Parameter], left: int) -> str:
    notes = [f"    {parameter.name}: {parameter.note}" for parameter in shown if parameter.note]
    if left:
        notes.append(f"    and {left} more parameters, named in the JSON schema only")
    sections = [block(tool.description, 600), "\n".join(["Args:", *notes]) if notes else ""]
    text = "\n\n".join(section for section in sections if section)
    if not text:
        return "    ..."
    # Escaped, a backslash escapes nothing, and quotes neither close the docstring nor join its closing ones.
    text = re.sub(r'"{2,}|"\Z', lambda quotes: '\\"' * len(quotes[0]), text.replace("\\", "\\\\"))
    lines = [f"    {line}" if line else "" for line in text.split("\n")]
    lines[0] = f'    """{lines[0].strip()}'
    return "\n".join([*lines, '    """']) if len(lines) > 1 else f'{lines[0]}"""'
