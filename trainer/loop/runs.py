"""Runs on disk: each is a folder with all that it takes to go on after a kill, or to be repeated elsewhere.

Above: preparing.py, running.py and the commands. Below: data/files.py and catalogues.py.

    <runs>/<id>/run.json        settings, seed, exact command, hash and origin of the data, version
                rows.jsonl      what is learned from, frozen
                catalog.jsonl   the servers and tools that it speaks of
                splits.json     which episodes train, validate, test; the run's own first, then those of its folds
                checkpoints/    metrics.jsonl    (loop/training.py)
                result.json     once it has ended: the adapter, how it ended, what its evaluation found

A folder appears with all of its frozen parts, or not at all.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError, UnknownName
from proxy.files import replace_file
from trainer.data.files import Row, read_rows, write_rows
from trainer.loop.catalogues import read_servers, write_servers
from trainer.rows import Split
from trainer.settings import TrainingSettings, of_json

ROWS, CATALOG, SPLITS, FACTS, RESULT = "rows.jsonl", "catalog.jsonl", "splits.json", "run.json", "result.json"
FAILED = "failed"
"""The key of a result that is none: why it cannot be trained, whatever comes."""
LAST = "last"
"""Names the newest run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run; what it holds is read when asked for."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def facts(self) -> Mapping[str, Any]:
        """Raises ConfigurationError where they cannot be read; so do the other properties."""
        found = _read(self.folder / FACTS)
        if found is None:
            raise ConfigurationError(f"{self.folder} is no run: it has no {FACTS}")
        return found

    @property
    def settings(self) -> TrainingSettings:
        return of_json(self.facts["settings"])

    @property
    def rows(self) -> list[Row]:
        return list(read_rows(self.folder / ROWS))

    @property
    def servers(self) -> tuple[ServerRecord, ...]:
        return read_servers(self.folder / CATALOG)

    @property
    def split(self) -> Split:
        """What it trains on, and says when to stop by, and holds out."""
        return self.splits[0]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The same, and others that hold out something else (`folds` of data/splits.py)."""
        said = _read(self.folder / SPLITS)
        if said is None:
            raise ConfigurationError(f"{self.folder} is no run: it has no {SPLITS}")
        return tuple(_split(each) for each in said["splits"])

    @property
    def result(self) -> Mapping[str, Any] | None:
        """None as long as it has not ended."""
        return _read(self.folder / RESULT)

    def end(self, result: Mapping[str, Any]) -> None:
        """Write down that it has ended."""
        _write(self.folder / RESULT, result)


class Runs:
    """All runs of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(
        self, facts: Mapping[str, Any], rows: Sequence[Row], servers: Sequence[ServerRecord], splits: Sequence[Split]
    ) -> Run:
        """A new one, its id made of the time and chance. `splits`: its own first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        draft = Path(tempfile.mkdtemp(prefix=f".{run_id}.", dir=self._folder))
        try:
            write_rows(draft / ROWS, rows)
            write_servers(draft / CATALOG, servers)
            _write(draft / SPLITS, {"splits": [asdict(each) for each in splits]})
            _write(draft / FACTS, {"id": run_id, "began_at": now.isoformat(timespec="milliseconds"), **facts})
            draft.chmod(0o755)
            os.rename(draft, self._folder / run_id)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return Run(self._folder / run_id)

    def all(self) -> list[Run]:
        """The newest first."""
        if not self._folder.is_dir():
            return []
        found = [Run(path) for path in self._folder.iterdir() if (path / FACTS).is_file() and path.name[0] != "."]
        return sorted(found, key=lambda run: (str(run.facts["began_at"]), run.id), reverse=True)

    def named(self, said: str) -> Run:
        """By the beginning of its id, or `last`.

        Raises:
            UnknownName: There is none, or there are several.
        """
        runs = self.all()
        found = runs[:1] if said == LAST else [run for run in runs if run.id.startswith(said)]
        if len(found) != 1:
            how_many = "no run" if not found else f"{len(found)} runs"
            raise UnknownName(f"{how_many} in {self._folder} begin with {said!r}; `toolatlas train list` shows them")
        return found[0]


def _split(said: Mapping[str, Any]) -> Split:
    sides = {side: tuple(said[side]) for side in ("training", "validation", "test")}
    return Split(**sides, dropped=said["dropped"])


def _write(path: Path, content: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(content, indent=1).encode())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}); remove the run's folder and train again") from error
