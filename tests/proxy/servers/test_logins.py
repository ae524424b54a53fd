"""Logins on disk: unreadable for others, bound to one server at one address, and never lost to a mistake."""

from __future__ import annotations

import base64
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.errors import ConfigurationError
from proxy.servers.logins import Login, LoginStore
from proxy.servers.sealing import Sealer
from tests.proxy.servers.conftest import config

SERVER = config({"url": "https://mcp.example.com/mcp"})
LOGIN = Login(
    access_token="access-secret",
    refresh_token="refresh-secret",
    obtained_at=1000.0,
    expires_at=4600.0,
    token_endpoint="https://login.example.com/token",
    resource="https://mcp.example.com/mcp",
    client_id="client",
    client_secret="client-secret",
)
SECRETS = (b"access-secret", b"refresh-secret", b"client-secret")


def store_in(folder: Path, **environ: str) -> LoginStore:
    return LoginStore(folder / "logins", Sealer(folder / "secret.key", environ))


def file_of(folder: Path) -> Path:
    (file,) = (folder / "logins").glob("*.login")
    return file


def key(byte: int) -> str:
    return base64.b64encode(bytes([byte]) * 32).decode()


def test_what_is_kept_is_there_after_a_restart_and_readable_by_nobody_else(tmp_path: Path) -> None:
    assert store_in(tmp_path).load(SERVER) is None
    assert not (tmp_path / "secret.key").exists()
    store_in(tmp_path).save(SERVER, LOGIN)
    assert store_in(tmp_path).load(SERVER) == LOGIN
    for file in (tmp_path / "secret.key", file_of(tmp_path)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "logins").stat().st_mode) == 0o700
    assert not any(secret in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() for secret in SECRETS)
    assert not any(secret.decode() in repr(LOGIN) for secret in SECRETS)


def test_the_key_may_come_from_the_environment_and_then_lies_nowhere(tmp_path: Path) -> None:
    store_in(tmp_path, TOOLATLAS_SECRET_KEY=key(1)).save(SERVER, LOGIN)
    assert not (tmp_path / "secret.key").exists()
    assert store_in(tmp_path, TOOLATLAS_SECRET_KEY=key(1)).load(SERVER) == LOGIN


@pytest.mark.parametrize("given", ["hunter2", base64.b64encode(b"too short").decode(), "é" * 44])
def test_a_key_that_is_none_is_refused_without_being_shown(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigurationError, match="TOOLATLAS_SECRET_KEY") as failed:
        store_in(tmp_path, TOOLATLAS_SECRET_KEY=given).save(SERVER, LOGIN)
    assert given not in str(failed.value)
    assert not list(tmp_path.rglob("*.login"))


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: file_of(folder).write_bytes(damaged(file_of(folder).read_bytes())),
        lambda folder: file_of(folder).write_bytes(b""),
        lambda folder: file_of(folder).write_bytes(b"{}"),
        lambda folder: (folder / "secret.key").unlink(),
        lambda folder: (folder / "secret.key").write_text(key(2)),
    ],
    ids=["a bit changed", "emptied", "another format", "key lost", "another key"],
)
def test_a_login_that_cannot_be_read_is_an_error_and_stays_as_it_is(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    store_in(tmp_path).save(SERVER, LOGIN)
    spoil(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(ConfigurationError, match="cannot be read") as failed:
        store_in(tmp_path).load(SERVER)
    assert "toolatlas servers logout srv" in str(failed.value)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("content", ["", "not a key"])
def test_a_damaged_key_file_is_an_error_and_is_not_replaced(tmp_path: Path, content: str) -> None:
    store = store_in(tmp_path)
    store.save(SERVER, LOGIN)
    (tmp_path / "secret.key").write_text(content)
    for use in (lambda: store.load(SERVER), lambda: store.save(SERVER, LOGIN)):
        with pytest.raises(ConfigurationError, match="damaged"):
            use()
    assert (tmp_path / "secret.key").read_text() == content


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(SERVER, LOGIN)
    (tmp_path / "secret.key").chmod(0o640)
    with pytest.raises(ConfigurationError, match="can be read by others"):
        store.load(SERVER)


def test_a_login_copied_to_the_place_of_another_server_does_not_open(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(SERVER, LOGIN)
    content = file_of(tmp_path).read_bytes()
    other = replace(SERVER, url="https://elsewhere.example.com/mcp")
    assert store.load(other) is None
    store.save(other, replace(LOGIN, access_token="other"))
    for file in (tmp_path / "logins").glob("*.login"):
        file.write_bytes(content)
    assert store.load(SERVER) == LOGIN
    with pytest.raises(ConfigurationError):
        store.load(other)


def test_a_logout_forgets_every_address_of_that_server_and_no_other_server(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    moved, other = replace(SERVER, url="https://old.example.com/mcp"), replace(SERVER, name="other")
    for server in (SERVER, moved, other):
        store.save(server, LOGIN)
    assert store.forget("srv") == 2
    assert [store.load(server) is None for server in (SERVER, moved, other)] == [True, True, False]
    assert store.forget("srv") == 0


@pytest.mark.parametrize(
    ("lifetime_s", "at_s", "due"), [(3600, 3500, False), (3600, 3575, True), (2, 1.0, False), (2, 1.7, True)]
)
def test_a_token_is_due_shortly_before_it_expires_however_short_it_lives(
    lifetime_s: float, at_s: float, due: bool
) -> None:
    login = replace(LOGIN, obtained_at=1000.0, expires_at=1000.0 + lifetime_s)
    assert login.due(1000.0 + at_s) is due
    assert not login.expired(1000.0 + at_s)
    assert login.expired(1000.0 + lifetime_s)


def test_a_token_without_an_end_is_never_due() -> None:
    assert not replace(LOGIN, expires_at=None).due(1e12)
