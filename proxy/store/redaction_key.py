"""The key of placeholders and hashes in the log: of the environment, else of a private file that is made once.

Above: app.py. Below: files.py, the cryptography library.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from proxy.errors import ConfigurationError
from proxy.files import make_file_once

KEY_BYTES = 32
VARIABLE = "TOOLATLAS_SECRET_KEY"
_FILE = "redaction.key"


def redaction_key(folder: Path, environ: Mapping[str, str]) -> bytes:
    """32 bytes: derived from TOOLATLAS_SECRET_KEY, so that replicas agree, else those of `redaction.key` in `folder`.

    Raises:
        ConfigurationError: The variable or the file cannot be used, or the file not be made.
    """
    given = environ.get(VARIABLE)
    if given:
        shared = _decoded(given.encode())
        if shared is None:
            raise ConfigurationError(
                f"{VARIABLE} has to be {KEY_BYTES} random bytes in base64, but is not. Make one with "
                f"`openssl rand -base64 {KEY_BYTES}`."
            )
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"toolatlas redaction 1").derive(shared)
    path = folder / _FILE
    try:
        key = _read(path)
        if key is None:
            make_file_once(path, base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
            key = _read(path)
    except OSError as error:
        raise ConfigurationError(f"The key file {path} cannot be read or made: {error.strerror}.") from None
    if key is None:
        raise ConfigurationError(f"The key file {path} was removed while it was being made. Try again.")
    return key


def _read(path: Path) -> bytes | None:
    """None where there is no file. Raises OSError and ConfigurationError."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigurationError(
                    f"The key file {path} can be read by others, who could guess what placeholders in the log stand "
                    "for. Run `chmod 600` on it, or remove it if others may have read it: new episodes get a new key."
                )
            key = _decoded(file.read(1_000))
    except FileNotFoundError:
        return None
    if key is None:
        raise ConfigurationError(f"The key file {path} is damaged. Restore or remove it: new episodes get a new key.")
    return key


def _decoded(text: bytes) -> bytes | None:
    try:
        key = base64.b64decode(text.strip().replace(b"-", b"+").replace(b"_", b"/"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None
