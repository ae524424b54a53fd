"""Rows as JSON lines, out and in again: a run can be repeated without the database that its rows were made from.

Above: trainer/loop/, and whoever holds out data of its own. Below: trainer/rows.py. What is read is equal to what was
written, and the same rows give the same bytes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from proxy.errors import ConfigurationError
from trainer.rows import PolicyRow, RankingRow

SCHEMA = "toolatlas.rows/1"
Row = RankingRow | PolicyRow
_KINDS: dict[str, type[Row]] = {"ranking": RankingRow, "policy": PolicyRow}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(each) for kind, each in _KINDS.items()}


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Write rows one by one, and put the file in its place when all are written; how many there are.

    Raises:
        OSError: It cannot be written; what was there is unchanged.
        ValueError: A row has a number that is none (NaN, infinite).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    count = 0
    try:
        with open(handle, "w", encoding="ascii") as file:
            for row in rows:
                file.write(line_of(row))
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
    return count


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, in their order, read as they are asked for.

    Raises:
        ConfigurationError: The file is not there, or has a line that is no row; the text says which.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield _row(line, f"{path}, line {number}")
    except OSError as error:
        raise ConfigurationError(f"the rows in {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is no file of rows: it is not UTF-8") from error


def read_ranking_rows(path: Path) -> Iterator[RankingRow]:
    """Those of rankings. Raises as `read_rows`."""
    return (row for row in read_rows(path) if isinstance(row, RankingRow))


def read_policy_rows(path: Path) -> Iterator[PolicyRow]:
    """Those of policies. Raises as `read_rows`."""
    return (row for row in read_rows(path) if isinstance(row, PolicyRow))


def line_of(row: Row) -> str:
    """One line of ASCII, its end included."""
    kind = "ranking" if isinstance(row, RankingRow) else "policy"
    line = {"schema": SCHEMA, "kind": kind, **asdict(row)}
    return json.dumps(line, allow_nan=False, default=_plain, separators=(",", ":")) + "\n"


def _row(line: str, where: str) -> Row:
    try:
        said: dict[str, Any] = json.loads(line)
        if said.pop("schema") != SCHEMA:
            raise ConfigurationError(f"{where}: not of {SCHEMA}; make the rows anew with this version")
        return _ADAPTERS[said.pop("kind")].validate_python(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{where}: no row, its {place} does not fit: {first['msg']}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{where}: no row of training") from error


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    # Sets have no order, and equal rows equal lines.
    return sorted(value)
