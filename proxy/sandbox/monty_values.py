"""What crosses between Monty and the gateway: arguments of calls and their answers.

Above: monty_run.py. Below: pydantic-monty. What comes out of the sandbox is hostile and becomes plain JSON data or is
refused; what goes in must be what Monty can take, for it does not survive anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic_monty import (
    ClassInstance,
    ExcType,
    ExternalExceptionData,
    ExternalReturnValue,
    MontyClassProxy,
)

Answer = ExternalReturnValue | ExternalExceptionData
"""Of one call."""
MAX_DEPTH = 100
_FUNCTION = re.compile(r"<function '.{1,200}' at 0x[0-9a-f]+>")
"""What Monty sends in place of a function of the agent's."""


class Server:
    """What a server's name stands for in code."""

    def __init__(self, name: str) -> None:
        self.name = name


class Unsendable(Exception):
    """An argument that has no JSON form; `str(error)` says which."""


class TooLarge(Exception):
    """Arguments that are larger than a call may have."""


def server_object(name: str) -> ClassInstance:
    """The object for a server; the same one for Monty in every run, also after its state was put aside."""
    return ClassInstance(_server(name), id=_server_id(name))


def servers_by_id(names: Iterable[str]) -> Mapping[UUID, str]:
    return {_server_id(name): name for name in names}


@cache
def _server(name: str) -> Server:
    return Server(name)


@cache
def _server_id(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"toolatlas:{name}")


def function(name: str) -> Any:
    """Stands for a function of the gateway: Monty knows it by its name alone."""

    def stand_in() -> None:
        raise NotImplementedError(name)

    stand_in.__name__ = stand_in.__qualname__ = name
    return stand_in


def returned(value: Any) -> Answer:
    """`value` as Monty takes it: JSON data without halves of surrogate pairs."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        value = json.loads(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
    return {"return_value": value}


def raised(kind: ExcType, message: str) -> Answer:
    return {"exc_type": kind, "message": message.encode("utf-8", "replace").decode()}


def name_of(value: Any, servers: Mapping[UUID, str]) -> str:
    """The name that is meant by the argument of `help` or `describe`: a server, a tool, or a string.

    Raises:
        Unsendable: It is something else.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Server):
        return value.name
    if isinstance(value, MontyClassProxy) and value.id in servers:
        return servers[value.id]
    raise Unsendable(f"a server, a tool or its name, not {type(value).__name__}")


def arguments_of(values: Mapping[Any, Any], tool: str, most: int) -> dict[str, Any]:
    """Keyword arguments as plain JSON data of at most about `most` bytes.

    A value may be referred to many times within another, so that a few lines stand for more than any memory holds: it
    is counted while it is written out.

    Raises:
        Unsendable: Names the argument.
        TooLarge: There is more of them.
    """
    arguments: dict[str, Any] = {}
    left = [most]
    for name, value in values.items():
        try:
            arguments[str(name)] = _plain(value, 0, left)
        except Unsendable as error:
            raise Unsendable(f"{tool}(): argument {name!s:.80}: {error}") from None
    return arguments


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    # Everything takes at least one byte as JSON.
    left[0] -= 1 + (len(value) if isinstance(value, str) else 0)
    if left[0] < 0:
        raise TooLarge
    if depth > MAX_DEPTH:
        raise Unsendable(f"more than {MAX_DEPTH} levels deep, or within itself")
    if isinstance(value, str) and _FUNCTION.fullmatch(value):
        raise Unsendable("a function has no JSON form")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return {_key(key, left): _plain(inner, depth + 1, left) for key, inner in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner, depth + 1, left) for inner in cast(Iterable[Any], value)]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    raise Unsendable(f"a {_kind(value)} has no JSON form; send text, numbers, lists or dicts")


def _key(key: Any, left: list[int]) -> str:
    if isinstance(key, str):
        left[0] -= len(key)
        return key
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    raise Unsendable(f"a dict whose keys are no strings but {_kind(key)}")


def _kind(value: Any) -> str:
    return value.name[:80] if isinstance(value, MontyClassProxy) else type(value).__name__
