"""Replacing a file in one step: no reader sees half of it, and no crash leaves half of it.

Below nothing of ours; the callers say in their own words what it means when a file cannot be written.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o600


def replace_file(path: Path, content: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Put `content` in the place of `path`, making its folder if need be.

    `durable` waits until it is on the disk; what can be made anew need not be.

    Raises:
        OSError: It cannot be written; what was there is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # Mode 0600 until it is complete.
    try:
        with open(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode != PRIVATE:
            os.chmod(draft, mode)
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
