"""The sandbox bench in its short form, what its limits say, and the chores over published servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.sandbox import _chores, _same, _verdict, table
from bench.targets.chore_agents import Transcript
from tests.end_to_end.test_real_servers import _require_uvx_and_npx

GOOD: dict[str, Any] = {
    "warm": {
        "run_ms_p50": 1.0,
        "run_ms_p95": 2.0,
        "memory_mb": 11.0,
        "call_added_ms": 0.5,
        **{f"call_{where}_ms_{which}": 1.0 for where in ("from_code", "outside") for which in ("p50", "p95")},
    },
    "cold_start_s": {"p50": 0.5, "max": 1.0},
    "arrivals": {"from_reserve": 9, "started_for": 1},
    "crowd": {
        "tasks": 50,
        "first_answer_s_p50": 2.0,
        "first_answer_s_max": 4.0,
        "next_run_ms_p50": 5.0,
        "from_reserve": 1,
        "started_for": 49,
    },
    "chores": [
        {
            "chore": "count",
            "right": {"by_hand": True, "by_program": True},
            "by_hand": {"round_trips": 22, "tokens": 2_000, "tokens_o200k": None, "read_in_all": 30_000},
            "by_program": {"round_trips": 2, "tokens": 400, "tokens_o200k": None, "read_in_all": 600},
        }
    ],
}


def worse(*path: Any, value: Any) -> dict[str, Any]:
    result = json.loads(json.dumps(GOOD))
    place = result
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return result


def test_within_the_limits_nothing_is_said() -> None:
    assert _verdict(GOOD) == {}
    shown = table(GOOD)
    assert all(text in shown for text in ("9 of 10", "1 of 50", "22 → 2", "2,000 → 400"))
    assert "right" in shown


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (worse("warm", "run_ms_p50", value=3.1), "a warm run takes 3.10 ms, more than 3"),
        (worse("warm", "call_added_ms", value=1.6), "code adds 1.60 ms to a call, more than 1.5"),
        (worse("chores", 0, "right", "by_program", value=False), "count: a wrong answer by_program"),
        (worse("chores", 0, "by_program", "tokens", value=2_000), "count: the program saves no tokens"),
        (worse("chores", 0, "by_program", "round_trips", value=30), "count: the program saves no round trips"),
    ],
)
def test_what_is_beyond_a_limit_is_said(result: dict[str, Any], failed: str) -> None:
    assert _verdict(result) == {"failed": failed}


def test_tokens_are_counted_once_and_again_for_every_round_trip() -> None:
    transcript = Transcript([("ab", "cde"), ("f", "g")])
    assert (transcript.round_trips, transcript.tokens(len), transcript.read_again(len)) == (2, 7, 5 + 7)


def test_an_answer_counts_however_python_writes_it() -> None:
    assert _same("['a', 1]", '["a", 1]')
    assert not _same("['a', 2]", '["a", 1]')
    assert not _same("", '["a", 1]')


@pytest.mark.docker
def test_the_short_form_measures_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "sandbox.json"
    few = ["--runs", "20", "--starts", "1", "--arrivals", "1", "--tasks", "3", "--no-chores", "--json", str(out)]
    # Times are for a machine without other work, so beyond their limits or not, they only have to be there.
    assert main(["sandbox", *few]) in (0, 1)
    result = json.loads(out.read_text())
    warm, crowd = result["warm"], result["crowd"]
    assert 0 < warm["run_ms_p50"] <= warm["run_ms_p95"]
    assert warm["call_outside_ms_p50"] > 0
    assert warm["call_from_code_ms_p50"] > 0
    assert 1 < warm["memory_mb"] < 256
    assert result["arrivals"]["from_reserve"] + result["arrivals"]["started_for"] == 1
    assert crowd["from_reserve"] + crowd["started_for"] == crowd["tasks"] == 3
    assert result["cold_start_s"]["p50"] > 0
    assert "3 at once" in capsys.readouterr().out


@pytest.mark.docker
@pytest.mark.real_servers
@pytest.mark.timeout(600)
def test_one_program_saves_tokens_and_round_trips(tmp_path: Path) -> None:
    _require_uvx_and_npx()
    chores = _chores(tmp_path)
    assert len(chores) == 3
    assert _verdict({**GOOD, "chores": chores}) == {}
