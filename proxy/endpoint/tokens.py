"""Tokens of agents and people: SHA-256 hashes in one private JSON file; the secret itself is shown once and forgotten.

Above: authentication.py and dashboard/ check them on every request, commands/token.py makes and revokes them. Below:
the file system.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from proxy.errors import ConfigurationError
from proxy.files import locked, replace_file, stamp_of

ANONYMOUS = "local"
"""Label of whoever comes without a token; no token may bear it."""

PREFIX = "ta_"
"""How every secret begins. No JWT begins so: which of the two a token is can be seen without trying both."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Scope(StrEnum):
    """What a token is good for."""

    AGENT = "agent"
    """Calling tools at `/mcp`. It goes with no other scope: an agent must not read what others did."""
    VIEW = "view"
    """Reading pages, REST and metrics."""
    LABEL = "label"
    """Saying how good an episode was."""
    ADMIN = "admin"
    """Everything that people do; includes `view` and `label`."""


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What may be told of a token. Times are UTC in ISO 8601; without `expires_at` it is valid until revoked."""

    label: str
    created_at: str
    expires_at: str | None
    scopes: tuple[Scope, ...]
    servers: tuple[str, ...] | None
    """Configured names of the servers that an agent may use; None means all."""

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= datetime.now(UTC)

    def allows(self, scope: Scope) -> bool:
        """Whether it may be used for what `scope` stands for."""
        return scope in self.scopes or (scope is not Scope.AGENT and Scope.ADMIN in self.scopes)


Stored: TypeAlias = dict[str, TokenInfo]
"""Tokens by the hash of their secret."""

_STORED = TypeAdapter(Stored)


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read, in a folder that only its owner can enter."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    replace_file(path, text.encode())


class TokenStore:
    """The token file. A running gateway sees what another process writes to it at its next request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._stored: Stored = {}

    def create(
        self,
        label: str,
        expires_in_days: int | None,
        scopes: Sequence[Scope] = (Scope.AGENT,),
        servers: Sequence[str] | None = None,
    ) -> str:
        """Make a token and return its secret, which cannot be had again.

        Raises:
            ConfigurationError: Label, lifetime or scopes cannot be, or the label is taken.
        """
        if not _LABEL.fullmatch(label) or label == ANONYMOUS:
            raise ConfigurationError(
                f"{label!r} cannot be the label of a token: use up to 64 letters, digits and . _ @ -, beginning with a"
                f" letter or digit, and not {ANONYMOUS!r}, which stands for agents without a token."
            )
        _check_scopes(scopes, servers)
        now = datetime.now(UTC)
        try:
            expires = None if expires_in_days is None else now + timedelta(days=expires_in_days)
        except OverflowError:
            raise ConfigurationError(f"A token cannot expire in {expires_in_days} days: name fewer days.") from None
        if expires is not None and expires <= now:
            raise ConfigurationError(f"A token cannot expire in {expires_in_days} days: name at least 1 day.")
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as stored:
            if any(info.label == label for info in stored.values()):
                raise ConfigurationError(
                    f"There is already a token labelled {label!r}: choose another label, or first run"
                    f" `toolatlas token revoke {label}`."
                )
            stored[_hash(secret)] = TokenInfo(
                label,
                now.isoformat(timespec="seconds"),
                expires and expires.isoformat(timespec="seconds"),
                tuple(sorted(set(scopes))),
                None if servers is None else tuple(sorted(set(servers))),
            )
        return secret

    def revoke(self, label: str) -> None:
        """Make the token with this label worthless at once."""
        with self._changing() as stored:
            found = [digest for digest, info in stored.items() if info.label == label]
            if not found:
                labels = ", ".join(sorted(info.label for info in stored.values())) or "none"
                raise ConfigurationError(f"There is no token labelled {label!r}. Labels: {labels}.")
            for digest in found:
                del stored[digest]

    def list(self) -> tuple[TokenInfo, ...]:
        """All tokens, expired ones included, oldest first."""
        return tuple(sorted(self._load().values(), key=lambda info: (info.created_at, info.label)))

    def verify(self, secret: str) -> TokenInfo | None:
        """Whose secret this is; None where it is unknown, revoked or expired."""
        digest = _hash(secret)
        found: TokenInfo | None = None
        # Every entry is compared, so that the time taken tells nothing of which one is near.
        for stored, info in self._load().items():
            if compare_digest(stored, digest):
                found = info
        return None if found is None or found.expired else found

    def labelled(self, label: str) -> tuple[TokenInfo, str] | None:
        """The valid token of that label, and its hash: another one after the token was revoked and made anew."""
        for digest, info in self._load().items():
            if info.label == label and not info.expired:
                return info, digest
        return None

    @property
    def empty(self) -> bool:
        """Whether no token was ever made or all are revoked. Expired ones count: they must not open the gateway."""
        return not self._load()

    def _load(self) -> Stored:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._stored = None, {}
            return self._stored
        stamp = stamp_of(status)
        if stamp != self._stamp:
            try:
                self._stored = _STORED.validate_json(self._path.read_bytes(), strict=True)
            except (ValidationError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else _damage(error)
                raise ConfigurationError(
                    f"The token file {self._path} cannot be read: {reason}. Repair it, or delete it and make new tokens"
                    " with `toolatlas token create NAME`."
                ) from None
            self._stamp = stamp
        return self._stored

    @contextmanager
    def _changing(self) -> Generator[Stored]:
        """Hold other writers off, hand out a copy, and write it back unless the block raises."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._path.with_name(f"{self._path.name}.lock")):
            stored = dict(self._load())
            yield stored
            write_private(self._path, _STORED.dump_json(stored, indent=2).decode())


def _check_scopes(scopes: Sequence[Scope], servers: Sequence[str] | None) -> None:
    if not scopes:
        raise ConfigurationError("A token needs a scope: it would be good for nothing.")
    if Scope.AGENT in scopes and len(set(scopes)) > 1:
        raise ConfigurationError(
            "The scope 'agent' goes with no other, so that no agent can read what others did: make two tokens."
        )
    if servers is not None and Scope.AGENT not in scopes:
        raise ConfigurationError("Only a token of scope 'agent' can be held to some servers: leave --server out.")
    if servers is not None and not all(servers):
        raise ConfigurationError("A server has a name: --server is followed by one of the configuration.")


def _damage(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    if all(fault["type"] == "missing" and fault["loc"][-1] in ("scopes", "servers") for fault in faults):
        return "it was written before tokens had scopes"
    return "it is damaged"


def _hash(secret: str) -> str:
    # The secrets are 256 random bits: there is nothing to guess, so a slow hash would only slow every request.
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
