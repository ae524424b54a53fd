"""The log of steps: one line of JSON each, with the outcome and without what was said."""

from __future__ import annotations

import json
import logging

import pytest

from proxy.store.recorder import Level, LogRecorder, Outcome, Step
from tests.fixtures.steps import a_step

SECRET = "hunter2"


def step(outcome: Outcome, error: str | None = None) -> Step:
    return a_step(
        arguments={"tool": "mail.send", "arguments": {"password": SECRET}},
        outcome=outcome,
        result={"content": [{"type": "text", "text": SECRET}]},
        error=error,
    )


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "toolatlas.steps")
    return caplog


@pytest.mark.parametrize("outcome", Outcome)
def test_a_step_is_one_json_line_with_its_outcome(lines: pytest.LogCaptureFixture, outcome: Outcome) -> None:
    LogRecorder(unchanged).record(step(outcome))
    (line,) = lines.messages
    assert json.loads(line) == {
        "event": "step",
        "id": "s_1",
        "parent": "s_0",
        "at": "2026-01-02T03:04:05.000+00:00",
        "episode": "e_1",
        "agent": "alice",
        "mode": "search",
        "name": "call_tool",
        "server": "mail",
        "tool": "send",
        "outcome": outcome.value,
        "ms": 12.35,
        "error": None,
    }


def test_neither_arguments_nor_results_are_written(lines: pytest.LogCaptureFixture) -> None:
    LogRecorder(unchanged).record(step(Outcome.OK))
    assert len(lines.messages) == 1
    assert SECRET not in lines.text


def test_line_breaks_and_letters_of_an_error_stay_on_one_line(lines: pytest.LogCaptureFixture) -> None:
    LogRecorder(unchanged).record(step(Outcome.SERVER_DOWN, error='größer\n"worse"'))
    (line,) = lines.messages
    assert "\n" not in line
    assert "größer" in line
    assert json.loads(line)["error"] == 'größer\n"worse"'


def test_a_logger_that_is_turned_down_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolatlas.steps")
    LogRecorder(unchanged).record(step(Outcome.OK))
    assert not caplog.messages


def test_the_words_of_an_error_and_of_a_name_that_failed_are_redacted(lines: pytest.LogCaptureFixture) -> None:
    recorder = LogRecorder(lambda episode_id, text: text.replace(SECRET, f"[{episode_id}]"))
    recorder.record(a_step(name=SECRET, outcome=Outcome.INVALID_ARGUMENTS, error=f"no tool {SECRET}", call=None))
    line = json.loads(lines.messages[0])
    assert (line["name"], line["error"]) == ("[e_1]", "no tool [e_1]")


def test_the_error_of_a_step_without_contents_is_not_written(lines: pytest.LogCaptureFixture) -> None:
    LogRecorder(unchanged).record(a_step(outcome=Outcome.TOOL_ERROR, error="private", level=Level.METADATA))
    assert json.loads(lines.messages[0])["error"] is None


def unchanged(episode_id: str, text: str) -> str:
    return text
