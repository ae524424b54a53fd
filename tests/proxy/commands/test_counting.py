"""The figures that `connect` shows are counted on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.commands.counting import count_tokens
from tests.fixtures.running import entry


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE_DIR", "CACHE_DIR"):
        monkeypatch.setenv(f"TOOLATLAS_{name}", str(tmp_path / name.lower()))


def test_many_schemas_behind_the_gateway_cost_less_than_in_front() -> None:
    before = count_tokens({"a": entry("many", TOOLS="300")}, None, None)
    after = count_tokens({}, {"a": entry("many", TOOLS="300")}, None)
    assert before is not None
    assert after is not None
    assert before > 5 * after > 0


def test_a_server_that_cannot_be_listed_makes_the_figure_unknown() -> None:
    assert count_tokens({"a": entry("exits")}, None, None) is None
