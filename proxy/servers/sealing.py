"""Encrypts what must not lie readable on the disk: AES-256-GCM, with a key that lies apart from it.

Above: logins.py. Below: the cryptography library. What is sealed is bound to a purpose and opens for no other one.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from proxy.errors import ConfigurationError
from proxy.files import make_file_once

KEY_VARIABLE = "TOOLATLAS_SECRET_KEY"
KEY_BYTES = 32
_HEAD = b"toolatlas sealed 1\n"
_NONCE_BYTES = 12


class SealBroken(Exception):
    """What was to be opened is damaged, or was sealed with another key or for another purpose."""


class Sealer:
    """One key: that of the environment variable TOOLATLAS_SECRET_KEY, else that of a private file, made when the first
    thing is sealed."""

    def __init__(self, key_file: Path, environ: Mapping[str, str]) -> None:
        self._key_file = key_file
        self._given = environ.get(KEY_VARIABLE) or None

    def seal(self, content: bytes, purpose: bytes) -> bytes:
        """Encrypt. Raises `ConfigurationError` when the key cannot be used, or not be made."""
        nonce = os.urandom(_NONCE_BYTES)
        return _HEAD + nonce + AESGCM(self._key() or self._make()).encrypt(nonce, content, purpose)

    def open(self, sealed: bytes, purpose: bytes) -> bytes:
        """What was sealed for this purpose.

        Raises:
            SealBroken: It cannot be had back.
            ConfigurationError: The key cannot be used.
        """
        key = self._key()
        if key is None:
            raise SealBroken(f"its key file {self._key_file} is missing")
        head, nonce, box = (
            sealed[: len(_HEAD)],
            sealed[len(_HEAD) :][:_NONCE_BYTES],
            sealed[len(_HEAD) + _NONCE_BYTES :],
        )
        if head != _HEAD:
            raise SealBroken("it is damaged")
        try:
            return AESGCM(key).decrypt(nonce, box, purpose)
        except (InvalidTag, ValueError):
            raise SealBroken("it is damaged, or was encrypted with another key") from None

    def _key(self) -> bytes | None:
        if self._given is not None:
            key = _decoded(self._given)
            if key is None:
                raise ConfigurationError(
                    f"{KEY_VARIABLE} has to be {KEY_BYTES} random bytes in base64, but is not. Make one with "
                    f"`openssl rand -base64 {KEY_BYTES}`."
                )
            return key
        try:
            with self._key_file.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise ConfigurationError(
                        f"The key file {self._key_file} can be read by others. Run `chmod 600` on it, or log in again "
                        "with a new one if others may have read it."
                    )
                key = _decoded(file.read().decode("ascii", "replace"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigurationError(f"The key file {self._key_file} cannot be read: {error.strerror}.") from None
        if key is None:
            raise ConfigurationError(
                f"The key file {self._key_file} is damaged. Restore it, or remove it together with the logins."
            )
        return key

    def _make(self) -> bytes:
        """A new key, or that of a process which made one at the same time."""
        try:
            make_file_once(self._key_file, base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
        except OSError as error:
            raise ConfigurationError(f"The key file {self._key_file} cannot be made: {error.strerror}.") from None
        key = self._key()
        if key is None:
            raise ConfigurationError(f"The key file {self._key_file} was removed while it was being made. Try again.")
        return key


def _decoded(text: str) -> bytes | None:
    """The key that `text` holds in base64, of either alphabet; None if it is none."""
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None
