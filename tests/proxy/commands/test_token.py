"""`toolatlas token` as its user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from proxy.commands import token
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenStore:
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    return TokenStore(tmp_path / "state" / "tokens.json")


def _run(*arguments: str) -> Result:
    app = typer.Typer()
    token.register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["token", *arguments])


def test_create_prints_the_secret_alone_on_standard_output(store: TokenStore) -> None:
    result = _run("create", "alice", "--expires-days", "7")
    assert result.exit_code == 0, result.output
    info = store.verify(result.stdout.strip())
    assert info is not None
    assert info.label == "alice"
    assert info.expires_at is not None
    assert "not shown again" in result.stderr
    assert result.stdout.strip() not in result.stderr


def test_create_as_json_can_be_read_by_a_script(store: TokenStore) -> None:
    printed = json.loads(_run("create", "alice", "--json").stdout)
    assert printed["label"] == "alice"
    assert store.verify(printed["token"]) is not None


def test_list_shows_labels_and_no_secret(store: TokenStore) -> None:
    secret = store.create("alice", None)
    for arguments in (["list"], ["list", "--json"]):
        result = _run(*arguments)
        assert result.exit_code == 0, result.output
        assert "alice" in result.stdout
        assert secret[3:] not in result.output
    (listed,) = json.loads(_run("list", "--json").stdout)
    assert (listed["label"], listed["expires_at"], listed["expired"]) == ("alice", None, False)


def test_list_without_tokens_says_how_to_make_one(store: TokenStore) -> None:
    result = _run("list")
    assert result.stdout == ""
    assert "toolatlas token create" in " ".join(result.stderr.split())
    assert json.loads(_run("list", "--json").stdout) == []


def test_revoke_makes_the_token_worthless(store: TokenStore) -> None:
    secret = store.create("alice", None)
    assert _run("revoke", "alice").exit_code == 0
    assert store.verify(secret) is None


def test_mistakes_are_configuration_errors_for_the_root_to_print(store: TokenStore) -> None:
    store.create("alice", None)
    assert isinstance(_run("create", "alice").exception, ConfigurationError)
    assert isinstance(_run("revoke", "bob").exception, ConfigurationError)
    assert _run("create", "bob", "--expires-days", "0").exit_code == 2


def test_scopes_and_servers_are_taken_and_listed(store: TokenStore) -> None:
    assert _run("create", "eve", "--scope", "view", "--scope", "label").exit_code == 0
    assert _run("create", "ci", "--server", "github", "--server", "odd [name]\u202e").exit_code == 0
    listed = {one["label"]: one for one in json.loads(_run("list", "--json").stdout)}
    assert (listed["eve"]["scopes"], listed["eve"]["servers"]) == (["label", "view"], None)
    assert (listed["ci"]["scopes"], listed["ci"]["servers"]) == (["agent"], ["github", "odd [name]\u202e"])
    shown = " ".join(_run("list").stdout.split())
    assert "label, view" in shown
    assert "\u202e" not in shown


def test_a_note_says_what_the_token_is_for(store: TokenStore) -> None:
    assert "Authorization: Bearer" in _run("create", "ci").stderr
    assert "/ui" in _run("create", "eve", "--scope", "admin").stderr


def test_scopes_that_do_not_exist_or_go_ill_together_are_refused(store: TokenStore) -> None:
    assert _run("create", "eve", "--scope", "root").exit_code == 2
    assert isinstance(_run("create", "eve", "--scope", "agent", "--scope", "view").exception, ConfigurationError)
    assert isinstance(_run("create", "eve", "--scope", "view", "--server", "github").exception, ConfigurationError)
    assert store.empty
