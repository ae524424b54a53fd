"""The token file: what it keeps, what it refuses, and that running gateways see its changes."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest

from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError


def _create(path: Path, label: str) -> None:
    TokenStore(path).create(label, None)


def test_a_token_is_verified_and_only_its_hash_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "state" / "tokens.json"
    secret = TokenStore(path).create("alice", None)
    assert secret.startswith("ta_")
    assert len(secret) >= 45
    text = path.read_text()
    assert secret not in text
    assert secret[3:] not in text
    info = TokenStore(path).verify(secret)
    assert info is not None
    assert (info.label, info.expires_at) == ("alice", None)
    assert datetime.fromisoformat(info.created_at).utcoffset() == timedelta(0)


def test_the_file_and_its_folder_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "tokens.json"
    TokenStore(path).create("alice", None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]


@pytest.mark.parametrize("wrong", ["", "ta_", "alice", "Ünïcode", "\udc80"])
def test_a_secret_that_was_never_made_is_nobodys(tmp_path: Path, wrong: str) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    store.create("alice", None)
    assert store.verify(wrong) is None


def test_a_running_gateway_sees_new_and_revoked_tokens_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    running, command = TokenStore(path), TokenStore(path)
    assert running.empty
    first = command.create("first", None)
    assert not running.empty
    assert running.verify(first) is not None
    second = command.create("second", None)
    assert running.verify(second) is not None
    command.revoke("first")
    assert running.verify(first) is None
    assert running.verify(second) is not None
    path.unlink()
    assert running.verify(second) is None
    assert running.empty


def test_an_expired_token_is_nobodys_but_does_not_open_the_gateway(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    store = TokenStore(path)
    secret = store.create("alice", 1)
    (info,) = store.list()
    assert info.expires_at is not None
    left = datetime.fromisoformat(info.expires_at) - datetime.now(UTC)
    assert timedelta(hours=23) < left <= timedelta(days=1)
    assert store.verify(secret) is not None
    entries = json.loads(path.read_text())
    for entry in entries.values():
        entry["expires_at"] = "2020-01-01T00:00:00+00:00"
    path.write_text(json.dumps(entries))
    assert store.verify(secret) is None
    assert store.list()[0].expired
    assert not store.empty


def test_a_label_is_taken_once_and_free_again_after_revoking(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    secret = store.create("alice", None)
    with pytest.raises(ConfigurationError, match="toolatlas token revoke alice"):
        store.create("alice", 3)
    assert store.verify(secret) is not None
    store.revoke("alice")
    assert store.create("alice", None) != secret


@pytest.mark.parametrize("label", ["", "local", "a b", "-a", "a\n", "x" * 65, "a\x1b[31m"])
def test_a_label_that_would_confuse_the_log_is_refused(tmp_path: Path, label: str) -> None:
    with pytest.raises(ConfigurationError, match="label"):
        TokenStore(tmp_path / "tokens.json").create(label, None)


@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_an_impossible_lifetime_is_refused(tmp_path: Path, days: int) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    with pytest.raises(ConfigurationError, match="cannot expire"):
        store.create("alice", days)
    assert store.empty


def test_revoking_what_does_not_exist_names_what_does(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    store.create("alice", None)
    with pytest.raises(ConfigurationError, match=r"'bob'.*alice"):
        store.revoke("bob")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": {"label": 3}}', '{"a": {}}'])
def test_a_damaged_file_is_reported_and_neither_read_as_empty_nor_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(text)
    store = TokenStore(path)
    with pytest.raises(ConfigurationError, match=r"tokens\.json"):
        assert store.empty
    with pytest.raises(ConfigurationError, match=r"tokens\.json"):
        store.create("alice", None)
    assert path.read_text() == text


def test_tokens_made_by_several_processes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    labels = [f"agent-{number}" for number in range(4)]
    workers = [get_context("fork").Process(target=_create, args=(path, label)) for label in labels]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert sorted(info.label for info in TokenStore(path).list()) == labels
