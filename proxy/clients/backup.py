"""Replacing a file so that it can be taken back: what was there before is kept, byte for byte, in the state folder.

Above: importing.py, connecting.py. Below: the file system.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from proxy.errors import ConfigurationError
from proxy.files import PRIVATE, replace_file

KEPT = 10
"""How many changes of one file can be taken back."""


@dataclass(frozen=True, slots=True)
class Record:
    """One change of a file. What was there before lies beside it, unless nothing was."""

    path: str
    at: str
    mode: int | None
    """None when the file did not exist."""
    after: str
    """Hash of what we wrote."""


RECORD = TypeAdapter(Record)


class Backups:
    """The changes made to other people's files, the latest of each file first to be taken back."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "backups"

    def replace(self, action: str, path: Path, before: bytes | None, after: bytes) -> Path | None:
        """Puts `after` in the place of `before`, and returns where `before` is kept, None when there was no file.

        Raises:
            ConfigurationError: The file is not `before` any more, or cannot be written.
        """
        target = path.resolve()
        if _content(target) != before:
            raise ConfigurationError(
                f"{path} was changed by another program just now. Nothing was done; run this again."
            )
        mode = None if before is None else stat.S_IMODE(target.stat().st_mode)
        record = Record(str(target), datetime.now(UTC).isoformat(timespec="seconds"), mode, _hash(after))
        folder = self._of(action, target)
        number = max(self._numbers(folder), default=0) + 1
        entry, kept = folder / f"{number:06}.json", folder / f"{number:06}.before"
        _private(self._folder, folder)
        if before is not None:
            write_atomically(kept, before, PRIVATE)
        write_atomically(entry, RECORD.dump_json(record, indent=2), PRIVATE)
        try:
            write_atomically(target, after, PRIVATE if mode is None else mode)
        except ConfigurationError:
            _forget(entry)
            raise
        for old in sorted(self._numbers(folder))[:-KEPT]:
            _forget(folder / f"{old:06}.json")
        return None if before is None else kept

    def undo(self, action: str, path: Path, *, force: bool) -> bool:
        """Takes the last change back; False when there is none. `force` does so over later changes of others.

        Raises:
            ConfigurationError: The file was changed since, or cannot be written.
        """
        target = path.resolve()
        folder = self._of(action, target)
        number = max(self._numbers(folder), default=None)
        if number is None:
            return False
        entry, kept = folder / f"{number:06}.json", folder / f"{number:06}.before"
        try:
            record = RECORD.validate_json(entry.read_bytes(), strict=True)
            before = None if record.mode is None else kept.read_bytes()
        except (ValidationError, OSError) as error:
            raise ConfigurationError(
                f"The backup {entry} is damaged, so nothing was done: {type(error).__name__}."
            ) from None
        current = _content(target)
        if not force and current != before and (current is None or _hash(current) != record.after):
            there = f"as it was is kept in {kept}" if before is not None else "did not exist before"
            raise ConfigurationError(
                f"{path} was changed by another program since {record.at}, and that would be lost. Take our change out"
                f" by hand (the file {there}), or add --force to lose what was changed since."
            )
        if before is None:
            target.unlink(missing_ok=True)
        else:
            write_atomically(target, before, record.mode or PRIVATE)
        _forget(entry)
        return True

    def _of(self, action: str, target: Path) -> Path:
        return self._folder / f"{action}-{_hash(os.fsencode(target))[:16]}"

    def _numbers(self, folder: Path) -> list[int]:
        return [int(entry.stem) for entry in folder.glob("*.json") if entry.stem.isdigit()]


def write_atomically(path: Path, content: bytes, mode: int) -> None:
    """Puts `content` in the place of the file in one step, so that no reader sees half of it."""
    try:
        replace_file(path, content, mode=mode)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}. Give yourself the right to write in its folder."
        ) from None


def _private(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The folder {folder}, for what was there before, cannot be made: {error.strerror}. Nothing was done."
                " Make it possible, or name another state folder in TOOLATLAS_STATE_DIR."
            ) from None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}. Give yourself the right to.") from None


def _forget(entry: Path) -> None:
    entry.unlink(missing_ok=True)
    entry.with_suffix(".before").unlink(missing_ok=True)


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
