"""Logins to servers, kept over restarts: one encrypted file each, for exactly one server at exactly one address.

Above: oauth_tokens.py uses and renews them, oauth_login.py makes them. Below: sealing.py and files. Several processes
may use one folder: whoever changes a login holds its lock.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import anyio
from pydantic import TypeAdapter, ValidationError

from proxy.errors import ConfigurationError, ServerDown
from proxy.files import lock_file, replace_file, stamp_of, try_lock
from proxy.servers.config import ServerConfig
from proxy.servers.sealing import SealBroken, Sealer

LOCK_WAIT_S = 45.0
"""Longer than a renewal by another process can take."""
_LOCK_POLL_S = 0.02
_EARLIEST_S = 30.0
_EARLIEST_PART = 0.2

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Tokens for one server, and all that is needed to renew them. Times are seconds of the Unix clock."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    obtained_at: float
    expires_at: float | None = None
    scope: str | None = None
    token_endpoint: str
    resource: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    client_auth: str | None = None
    """How the client proves itself at the token endpoint: a `token_endpoint_auth_method` of RFC 7591."""

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def due(self, now: float) -> bool:
        """Whether it is time to renew it: before a call is refused, but not all the time where tokens live short."""
        if self.expires_at is None:
            return False
        ahead_s = min(_EARLIEST_S, (self.expires_at - self.obtained_at) * _EARLIEST_PART)
        return now >= self.expires_at - ahead_s


_LOGIN = TypeAdapter(Login)


class LoginStore:
    """The folder of logins. What another process changes is seen at the next `load`."""

    def __init__(self, folder: Path, sealer: Sealer) -> None:
        self.folder = folder
        self._sealer = sealer
        self._paths: dict[tuple[str, str], Path] = {}
        """Made once: the place of a login is looked at before each request."""

    def load(self, config: ServerConfig) -> Login | None:
        """The login to this server at the address that it has now.

        Raises:
            ConfigurationError: There is one, but it cannot be read; it is left as it is.
        """
        path = self._path(config)
        try:
            sealed = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigurationError(
                f"The login of server '{config.name}' in {path} cannot be read: {error.strerror}."
            ) from None
        try:
            return _LOGIN.validate_json(self._sealer.open(sealed, _purpose(config)))
        except (SealBroken, ValidationError) as error:
            reason = str(error) if isinstance(error, SealBroken) else "it is damaged"
            raise ConfigurationError(
                f"The login of server '{config.name}' in {path} cannot be read: {reason}. Restore it, or run "
                f"`toolatlas servers logout {shlex.quote(config.name)}` and log in again."
            ) from None

    def save(self, config: ServerConfig, login: Login) -> None:
        """Keep a login in the place of the one before. Raises `ConfigurationError` when that cannot be done."""
        path = self._path(config)
        sealed = self._sealer.seal(_LOGIN.dump_json(login), _purpose(config))
        try:
            _private_folder(path.parent)
            replace_file(path, sealed)
        except OSError as error:
            raise ConfigurationError(
                f"The login of server '{config.name}' cannot be kept in {path}: {error.strerror}."
            ) from None

    def forget(self, name: str) -> int:
        """Remove all logins of the server with this name, at whatever address; returns how many there were."""
        found = list(self.folder.glob(f"{_hash(name)}-*.login"))
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)

    def stamp(self, config: ServerConfig) -> Stamp | None:
        """Differs after each change; None when there is no login."""
        try:
            status = self._path(config).stat()
        except OSError:
            return None
        return stamp_of(status)

    @asynccontextmanager
    async def locked(self, config: ServerConfig) -> AsyncGenerator[None]:
        """Hold off every other process, and every other holder in this one.

        Raises:
            ServerDown: Somebody holds it for longer than a renewal takes.
            ConfigurationError: The folder cannot be written.
        """
        path = self._path(config).with_suffix(".lock")
        with ExitStack() as opened:
            try:
                _private_folder(path.parent)
                lock = opened.enter_context(lock_file(path))
            except OSError as error:
                text = f"The folder of logins {path.parent} cannot be used: {error.strerror}."
                raise ConfigurationError(text) from None
            deadline = time.monotonic() + LOCK_WAIT_S
            while not try_lock(lock):
                if time.monotonic() > deadline:
                    raise ServerDown(
                        config.name,
                        f"another process has been renewing the login of server '{config.name}' for too long",
                    )
                await anyio.sleep(_LOCK_POLL_S)
            yield

    def _path(self, config: ServerConfig) -> Path:
        key = (config.name, config.url)
        if key not in self._paths:
            self._paths[key] = self.folder / f"{_hash(config.name)}-{_hash(config.url)}.login"
        return self._paths[key]


def _purpose(config: ServerConfig) -> bytes:
    """A login that was renamed or copied to another server's place does not open there."""
    return f"login\0{config.name}\0{config.url}".encode("utf-8", "surrogatepass")


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
