"""What tools without an output schema answer, learned from their results and kept over restarts.

Above: whoever calls tools tells of good results; describe_tools and run_python's errors show what was learned. Below:
learning.py and redaction.py. One file per server identity lies beside its cached listing's. Nothing is written while a
call is served: `save_changes` does it, a moment later, and only where something new was seen.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from proxy.catalog.learning import Schema, merged, observed, written
from proxy.catalog.records import ToolRecord
from proxy.catalog.redaction import example_of
from proxy.catalog.stubs import stub
from proxy.files import replace_file

logger = logging.getLogger("toolatlas.catalog")

VERSION = 1
SAVE_S = 2.0
MAX_TOOLS = 500
"""Of one server; those first seen longest ago go first."""
MAX_FILE = 4 * 1024 * 1024
SETTLED = 20
"""Results in a row without anything new, after which only every so many are looked at."""
HINT_CHARS = 400

_MISUSES = re.compile(
    r"(?P<type>string|list|tuple|byte) indices must be integers"
    r"|'(?P<kind>str|dict|list|int|float|bool|NoneType|tuple)' object (?P<fault>has no attribute '(?P<name>[^']{1,80})'"
    r"|is not (subscriptable|iterable|callable|a mapping)|does not support item assignment)"
    r"|cannot unpack non-iterable|not enough values to unpack|too many values to unpack"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What one tool answers."""

    schema: Mapping[str, Any]
    """A JSON Schema of all results that were looked at."""
    example: str | None
    """One of them, shortened and redacted, as JSON; None where none has a form."""

    @property
    def type(self) -> str:
        """On one line."""
        return written(self.schema, HINT_CHARS)


@dataclass(slots=True)
class _Learned:
    definition: str
    """Hash of the tool as its server defined it."""
    shape: Shape
    unchanged: int = 0
    """Results in a row that held nothing new."""


@dataclass(slots=True)
class _Book:
    """What is known of one server."""

    learned: dict[str, _Learned]
    definitions: dict[str, tuple[Mapping[str, Any], str]] = field(
        default_factory=dict[str, tuple[Mapping[str, Any], str]]
    )
    """By tool: the definition last seen and its hash, which is made once."""
    changed: bool = False


class Shapes:
    """The shapes of all servers' results; of the event loop, but for the writing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._books: dict[str, _Book] = {}
        self._forgotten = 0
        """How often all was to be lost."""

    def learn(self, tool: ToolRecord, identity: str, value: Any) -> None:
        """Take note of a good result: plain JSON data as code gets it. `identity` is that of the server, whose answers
        are for every agent that may call it. Never raises."""
        if tool.output_schema is not None:
            return
        book = self._book(identity)
        definition = _definition(book, tool)
        known = book.learned.get(tool.name)
        if known is not None and known.definition != definition:
            known = None
        if known is not None:
            known.unchanged += 1
            if known.unchanged > SETTLED and known.unchanged % SETTLED:
                return
        try:
            schema = observed(value)
            total = schema if known is None else merged(dict(known.shape.schema), schema)
            if known is not None and total == known.shape.schema:
                return
            example = example_of(value)
        except (RecursionError, TypeError, ValueError) as error:
            logger.debug("a result of %s is no JSON data: %s", tool.written, error)
            return
        book.learned.pop(tool.name, None)
        book.learned[tool.name] = _Learned(definition, Shape(total, example))
        while len(book.learned) > MAX_TOOLS:
            del book.learned[next(iter(book.learned))]
        book.changed = True

    def of(self, tool: ToolRecord, identity: str) -> Shape | None:
        """What was learned of the tool as it is defined now."""
        if tool.output_schema is not None:
            return None
        book = self._book(identity)
        known = book.learned.get(tool.name)
        return known.shape if known is not None and known.definition == _definition(book, tool) else None

    def hint_for(self, tool: ToolRecord, identity: str, kind: str, message: str) -> str | None:
        """What the tool returns, on one line, for an exception in code that used a result as what it is not; None for
        other exceptions, and where nothing is known. `kind` is the name of its class."""
        if not _is_misuse(kind, message):
            return None
        shape = self.of(tool, identity)
        schema: Any = tool.output_schema if shape is None else shape.schema
        if schema is None:
            return None
        advice = _advice(message)
        example = f", for instance {shape.example}" if shape is not None and shape.example is not None else ""
        return f"{tool.written} returns {written(schema, HINT_CHARS)}{example}{advice}"

    def forget(self) -> None:
        """Lose everything, on disk too: examples are of what a server answered, and some of that was deleted."""
        self._books.clear()
        self._forgotten += 1
        for path in self._folder.glob("*.json"):
            path.unlink(missing_ok=True)

    async def save_changes(self) -> None:
        """Write what was learned, now and then, until it is cancelled, and then once more."""
        try:
            while True:
                await anyio.sleep(SAVE_S)
                await self._save()
        finally:
            with anyio.CancelScope(shield=True):
                await self._save()

    async def _save(self) -> None:
        forgotten = self._forgotten
        for identity, book in tuple(self._books.items()):
            if book.changed:
                book.changed = False
                content = _content(book)
                try:
                    await anyio.to_thread.run_sync(self._write, identity, content)
                except OSError as error:
                    logger.warning("what was learned of results cannot be kept on disk: %s", error)
                if self._forgotten != forgotten:
                    # Meanwhile: what was written, and what is left to write, is of before.
                    self._path(identity).unlink(missing_ok=True)
                    return

    def _write(self, identity: str, content: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._path(identity), content, durable=False)

    def _book(self, identity: str) -> _Book:
        if identity not in self._books:
            self._books[identity] = _Book(self._load(identity))
        return self._books[identity]

    def _load(self, identity: str) -> dict[str, _Learned]:
        path = self._path(identity)
        try:
            if path.stat().st_size > MAX_FILE:
                raise ValueError("it is too large")
            content: Any = json.loads(path.read_bytes())
            if content["version"] != VERSION:
                return {}
            return {
                str(name): _Learned(str(each["definition"]), Shape(_checked(each["schema"]), _text(each["example"])))
                for name, each in content["tools"].items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            logger.warning("what was learned of results, in %s, is not usable (%s) and is learned anew", path, error)
            return {}

    def _path(self, identity: str) -> Path:
        return self._folder / f"{identity}.json"


def described(tool: ToolRecord, shape: Shape | None) -> str:
    """The stub of `tool`; with a shape its return type is the learned one, and an example follows."""
    if shape is None:
        return stub(tool)
    text = stub(replace(tool, raw={**tool.raw, "outputSchema": shape.schema}))
    example = "" if shape.example is None else f"; for instance {shape.example}"
    return f"{text}\n# Return type: learned from results, may vary{example}"


def _definition(book: _Book, tool: ToolRecord) -> str:
    raw, known = book.definitions.get(tool.name, (None, ""))
    if raw is not tool.raw:
        shown = {key: value for key, value in tool.raw.items() if key not in ("_meta", "icons")}
        known = sha256(repr(sorted(shown.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        book.definitions[tool.name] = (tool.raw, known)
    return known


def _content(book: _Book) -> bytes:
    tools = {
        name: {"definition": each.definition, "schema": each.shape.schema, "example": each.shape.example}
        for name, each in book.learned.items()
    }
    return json.dumps({"version": VERSION, "tools": tools}).encode()


def _checked(schema: Any) -> Schema:
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), list):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError("a schema has no type")
    return schema  # pyright: ignore[reportUnknownVariableType]


def _text(example: Any) -> str | None:
    return example if isinstance(example, str) else None


def _is_misuse(kind: str, message: str) -> bool:
    match kind:
        case "KeyError" | "IndexError":
            return True
        case "TypeError" | "AttributeError" | "ValueError":
            return _MISUSES.search(message[:1_000]) is not None
        case _:
            return False


def _advice(message: str) -> str:
    found = _MISUSES.search(message[:1_000])
    if found is not None and found["kind"] == "dict" and found["name"] and not hasattr(dict, found["name"]):
        return f'; a dict, so ["{found["name"]}"] and not .{found["name"]}'
    return ""
