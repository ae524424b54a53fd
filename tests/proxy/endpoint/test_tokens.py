"""The token file: what it keeps, what it refuses, and that running gateways see its changes."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest

from proxy.endpoint.tokens import Scope, TokenStore
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


def test_a_token_is_an_agents_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    store.create("alice", None)
    (info,) = store.list()
    assert (info.scopes, info.servers) == ((Scope.AGENT,), None)


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ([Scope.AGENT], {Scope.AGENT}),
        ([Scope.VIEW], {Scope.VIEW}),
        ([Scope.LABEL], {Scope.LABEL}),
        ([Scope.LABEL, Scope.VIEW], {Scope.LABEL, Scope.VIEW}),
        ([Scope.ADMIN], {Scope.ADMIN, Scope.VIEW, Scope.LABEL}),
    ],
)
def test_a_scope_allows_what_it_stands_for_and_no_more(
    tmp_path: Path, scopes: list[Scope], allowed: set[Scope]
) -> None:
    secret = TokenStore(tmp_path / "tokens.json").create("alice", None, scopes)
    info = TokenStore(tmp_path / "tokens.json").verify(secret)
    assert info is not None
    assert {scope for scope in Scope if info.allows(scope)} == allowed


def test_servers_of_an_agent_are_kept_in_the_file(tmp_path: Path) -> None:
    TokenStore(tmp_path / "tokens.json").create("alice", None, servers=["mail", "github", "mail"])
    (info,) = TokenStore(tmp_path / "tokens.json").list()
    assert info.servers == ("github", "mail")


@pytest.mark.parametrize(
    ("scopes", "servers", "said"),
    [
        ([], None, "needs a scope"),
        ([Scope.AGENT, Scope.VIEW], None, "two tokens"),
        ([Scope.ADMIN, Scope.AGENT], None, "two tokens"),
        ([Scope.VIEW], ["github"], "leave --server out"),
        ([Scope.AGENT], [""], "has a name"),
    ],
)
def test_scopes_that_go_ill_together_are_refused(
    tmp_path: Path, scopes: list[Scope], servers: list[str] | None, said: str
) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    with pytest.raises(ConfigurationError, match=said):
        store.create("alice", None, scopes, servers)
    assert store.empty


def test_a_file_from_before_there_were_scopes_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"ab": {"label": "alice", "created_at": "2026-01-01T00:00:00+00:00", "expires_at": null}}')
    with pytest.raises(ConfigurationError, match=r"before tokens had scopes.*make new tokens"):
        TokenStore(path).list()
    path.write_text(path.read_text().replace('"label": "alice"', '"label": 3'))
    with pytest.raises(ConfigurationError, match="damaged"):
        TokenStore(path).list()


def test_a_token_is_found_by_its_label_while_it_is_valid_and_is_another_one_when_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    store = TokenStore(path)
    assert store.labelled("alice") is None
    store.create("alice", 1)
    first = store.labelled("alice")
    assert first is not None
    assert first[0].label == "alice"
    store.revoke("alice")
    assert store.labelled("alice") is None
    store.create("alice", 1)
    second = store.labelled("alice")
    assert second is not None
    assert second[1] != first[1]
    entries = json.loads(path.read_text())
    for entry in entries.values():
        entry["expires_at"] = "2020-01-01T00:00:00+00:00"
    path.write_text(json.dumps(entries))
    assert store.labelled("alice") is None
