"""The soak in its short form, and that it sees what it is there to see."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from bench import soak
from bench.__main__ import main
from bench.lean import Era
from bench.soak import Tally
from bench.targets.soak_agents import Agent, Talk
from bench.targets.soak_servers import SERVERS, Servers, State


@pytest.mark.timeout(240)
def test_the_short_form_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "soak.json"
    short = ["--seconds", "12", "--agents", "24", "--kill-every", "1.2", "--json", str(out)]
    code = main(["soak", *short])
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    result = json.loads(out.read_text())
    assert set(result["calls"]) <= {"ok", "error"}
    assert result["calls"]["ok"] > 100
    assert set(result["kills"]) >= {*list(SERVERS)[:5]}
    assert set(result["by_way"]) == {f"{era.value} {mode}" for era in Era for mode in ("search", "direct", "server")}
    assert result["state"]["peak"]["processes of agents"] > result["state"]["after"]["processes of agents"]
    assert "24 agents, 8 servers, 12 s" in printed.out


def agent(servers: Servers) -> Agent:
    return Agent(0, "http://127.0.0.1:1", servers, random.Random(1), 0, lambda talk: None)


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **more}


class Killed:
    """Only what the judgement asks of the servers."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def killed_since(self, name: str, when: float) -> bool:
        return name in self._names


@pytest.mark.parametrize(
    ("answer", "tool", "expected", "outcome"),
    [
        (said("plain:mine"), "echo", "plain:mine", "ok"),
        (said("plain:yours"), "echo", "plain:mine", "wrong"),
        (said("second:mine"), "echo", "plain:mine", "wrong"),
        ({"content": []}, "echo", "plain:mine", "wrong"),
        (said("server 'plain' ended", isError=True), "echo", "plain:mine", "error"),
        (said("something failed", isError=True), "echo", "plain:mine", "unclear"),
        (said("plain:2"), "count", "plain:3", "wrong"),
        (said("plain:1"), "count", "plain:3", "wrong"),
    ],
)
def test_an_answer_is_judged(answer: dict[str, Any], tool: str, expected: str, outcome: str) -> None:
    judge = agent(cast(Servers, Killed()))._judge
    assert judge(answer, "plain", tool, expected, 0.0)[0] == outcome


def test_a_count_begins_again_after_a_kill_only() -> None:
    judge = agent(cast(Servers, Killed("own")))._judge
    assert judge(said("own:1"), "own", "count", "own:3", 0.0)[0] == "ok"
    assert judge(said("own:3"), "own", "count", "own:5", 0.0)[0] == "wrong"


def test_what_is_no_clear_error_after_a_kill_is_a_violation() -> None:
    tally = Tally()
    for outcome, expected in (("ok", False), ("error", True), ("error", False), ("lost", True), ("unclear", True)):
        tally.note(Talk("way", "plain", outcome, "said", 1.0, expected))
    assert tally.calls == Counter(error=2, ok=1, lost=1, unclear=1)
    assert [violation.partition(":")[0] for violation in tally.violations] == ["error", "lost", "unclear"]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (State(processes=7, files=40, memory_mb=100), []),
        (State(processes=7, files=48, memory_mb=124, of_agents=2), []),
        (State(processes=8, files=40, memory_mb=100), ["processes"]),
        (State(processes=6, files=40, memory_mb=100), ["processes"]),
        (State(processes=7, files=40, memory_mb=100, defunct=1), ["defunct"]),
        (State(processes=7, files=49, memory_mb=100), ["files"]),
        (State(processes=7, files=40, memory_mb=126), ["memory"]),
        (State(processes=7, files=40, memory_mb=100, of_agents=3), ["agents"]),
    ],
)
def test_what_is_left_over_is_a_violation(after: State, words: list[str]) -> None:
    before = State(processes=7, files=40, memory_mb=100, of_agents=1)
    found = soak._grown(before, after)
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_a_traceback_in_the_log_is_found_with_the_line_before_it() -> None:
    log = "all well\nERROR something\nTraceback (most recent call last):\n  File x\nValueError: bad\n"
    (found,) = soak._tracebacks(log)
    assert found.startswith("ERROR something")
    assert "ValueError: bad" in found
    assert soak._tracebacks("all well\n") == []
