"""Which gateway a container belongs to, and whether that gateway lives: locks of real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.errors import SandboxError
from proxy.sandbox.owner import owning


def test_a_gateway_lives_as_long_as_its_process(tmp_path: Path) -> None:
    code = "import sys, time\nfrom pathlib import Path\nfrom proxy.sandbox.owner import owning\n"
    code += "with owning(Path(sys.argv[1])) as owner:\n  print(owner.gateway, flush=True)\n  time.sleep(60)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout
        name = process.stdout.readline().strip()
        with owning(tmp_path) as owner:
            try:
                assert not owner.left_behind(name)
                assert not owner.left_behind(owner.gateway)
            finally:
                process.kill()
                process.wait()
            assert owner.left_behind(name)
            assert owner.left_behind("../../etc/passwd")
            assert [path.name for path in tmp_path.glob("*.alive")] == [f"{owner.gateway}.alive"]
    assert list(tmp_path.glob("*.alive")) == []


def test_a_state_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxError, match="cannot use"):
        with owning(tmp_path / "file" / "sandbox"):
            pass
