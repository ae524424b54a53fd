from __future__ import annotations

import stat
from pathlib import Path

import pytest

from proxy.clients.backup import KEPT, Backups
from proxy.errors import ConfigurationError


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path / "state")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "file.json"
    path.parent.mkdir()
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_undo_brings_back_bytes_and_mode(backups: Backups, path: Path) -> None:
    path.write_bytes(b"\xff before \r\n")
    path.chmod(0o640)
    backups.replace("connect", path, b"\xff before \r\n", b"after")
    assert (path.read_bytes(), mode(path)) == (b"after", 0o640)
    path.chmod(0o600)
    assert backups.undo("connect", path, force=False)
    assert (path.read_bytes(), mode(path)) == (b"\xff before \r\n", 0o640)


def test_undo_removes_a_file_that_was_not_there(backups: Backups, path: Path) -> None:
    assert backups.replace("connect", path, None, b"after") is None
    assert mode(path) == 0o600
    assert backups.undo("connect", path, force=False)
    assert not path.exists()


def test_what_is_kept_is_for_the_owner_only(backups: Backups, path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"secret")
    path.chmod(0o644)
    kept = backups.replace("connect", path, b"secret", b"after")
    assert kept is not None
    assert kept.read_bytes() == b"secret"
    files = [file for file in (tmp_path / "state").rglob("*") if file.is_file()]
    assert {mode(file) for file in files} == {0o600}
    assert mode(kept.parent) == mode(kept.parent.parent) == 0o700


def test_undo_goes_back_one_change_at_a_time_and_then_has_nothing_to_do(backups: Backups, path: Path) -> None:
    path.write_bytes(b"0")
    backups.replace("import", path, b"0", b"1")
    backups.replace("import", path, b"1", b"2")
    assert backups.undo("import", path, force=False)
    assert path.read_bytes() == b"1"
    assert backups.undo("import", path, force=False)
    assert path.read_bytes() == b"0"
    assert not backups.undo("import", path, force=False)


def test_changes_of_other_actions_and_other_files_are_not_taken_back(backups: Backups, path: Path) -> None:
    path.write_bytes(b"0")
    backups.replace("import", path, b"0", b"1")
    assert not backups.undo("connect", path, force=False)
    assert not backups.undo("import", path.with_name("other"), force=False)
    assert path.read_bytes() == b"1"


@pytest.mark.parametrize("since", [b"changed", None])
def test_undo_refuses_what_was_changed_since_unless_forced(backups: Backups, path: Path, since: bytes | None) -> None:
    path.write_bytes(b"0")
    kept = backups.replace("connect", path, b"0", b"1")
    path.unlink()
    if since is not None:
        path.write_bytes(since)
    with pytest.raises(ConfigurationError, match="--force") as caught:
        backups.undo("connect", path, force=False)
    assert str(kept) in str(caught.value)
    assert (path.read_bytes() if path.exists() else None) == since
    assert backups.undo("connect", path, force=True)
    assert path.read_bytes() == b"0"


def test_a_file_that_changed_after_it_was_looked_at_is_not_replaced(backups: Backups, path: Path) -> None:
    path.write_bytes(b"new")
    with pytest.raises(ConfigurationError, match="run this again"):
        backups.replace("connect", path, b"old", b"after")
    assert path.read_bytes() == b"new"
    assert not backups.undo("connect", path, force=False)


def test_a_write_that_fails_leaves_nothing_to_undo_and_no_draft(backups: Backups, path: Path) -> None:
    target = path.with_name("n" * 250)  # Possible as a name, but too long for the draft beside it.
    with pytest.raises(ConfigurationError, match="cannot be written"):
        backups.replace("connect", target, None, b"after")
    assert not backups.undo("connect", target, force=False)
    assert list(path.parent.iterdir()) == []


def test_without_a_place_for_the_backup_nothing_is_written(path: Path) -> None:
    path.write_bytes(b"0")
    with pytest.raises(ConfigurationError, match="TOOLATLAS_STATE_DIR"):
        Backups(path / "state").replace("connect", path, b"0", b"1")
    assert path.read_bytes() == b"0"


def test_a_link_stays_a_link(backups: Backups, path: Path) -> None:
    real = path.with_name("dotfiles.json")
    real.write_bytes(b"0")
    path.symlink_to(real)
    backups.replace("connect", path, b"0", b"1")
    assert path.is_symlink()
    assert real.read_bytes() == b"1"
    assert backups.undo("connect", real, force=False)
    assert path.is_symlink()
    assert path.read_bytes() == b"0"


def test_only_the_latest_changes_are_kept(backups: Backups, path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"0")
    for number in range(KEPT + 3):
        backups.replace("import", path, str(number).encode(), str(number + 1).encode())
    assert len([*(tmp_path / "state").rglob("*.before")]) == KEPT
    for _ in range(KEPT):
        assert backups.undo("import", path, force=False)
    assert not backups.undo("import", path, force=False)
    assert path.read_bytes() == b"3"
