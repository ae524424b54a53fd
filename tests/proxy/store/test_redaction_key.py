"""The key of placeholders: made once, private, and the same for replicas that share a secret."""

from __future__ import annotations

import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy.errors import ConfigurationError
from proxy.store.notice import first_start_notice, notice_due
from proxy.store.redaction_key import redaction_key

GIVEN = {"TOOLATLAS_SECRET_KEY": base64.b64encode(b"s" * 32).decode()}


def test_it_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    key = redaction_key(folder, {})
    assert len(key) == 32
    assert redaction_key(folder, {}) == key != redaction_key(tmp_path / "other", {})
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_several_that_make_it_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: redaction_key(tmp_path, {}), range(32)))
    assert len(keys) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_replicas_with_one_secret_agree_and_do_not_use_the_secret_itself(tmp_path: Path) -> None:
    key = redaction_key(tmp_path / "a", GIVEN)
    assert key == redaction_key(tmp_path / "b", GIVEN) != b"s" * 32
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o644, 0o640])
def test_one_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    redaction_key(tmp_path, {})
    os.chmod(tmp_path / "redaction.key", mode)
    with pytest.raises(ConfigurationError, match="can be read by others"):
        redaction_key(tmp_path, {})


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="openssl rand"):
        redaction_key(tmp_path, {"TOOLATLAS_SECRET_KEY": "short"})
    redaction_key(tmp_path, {})
    (tmp_path / "redaction.key").write_bytes(b"x")
    with pytest.raises(ConfigurationError, match="damaged"):
        redaction_key(tmp_path, {})
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be read or made"):
        redaction_key(tmp_path / "file", {})


def test_the_notice_is_due_once_and_says_where_and_how_to_have_less(tmp_path: Path) -> None:
    assert notice_due(tmp_path)
    assert not notice_due(tmp_path)
    notice = first_start_notice("sqlite:///x.db", tmp_path)
    for said in ("sqlite:///x.db", str(tmp_path), "--log off", "--redact", "--retention-days", "episodes delete"):
        assert said in notice
