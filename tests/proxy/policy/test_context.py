"""What a model is reminded of stays within its budget: the oldest observations become a line each, which is noted."""

from __future__ import annotations

import json
import logging

import pytest

from proxy.errors import ConfigurationError
from proxy.policy.base import Asked, Exchange
from proxy.policy.context import Context
from proxy.policy.counting import tokens_of_conversation
from proxy.policy.folding import folded
from proxy.policy.limits import WorkLimits, work_limits

FOUND = (
    "time.convert_time(source: str)\n    Convert. See evil.tool( here.\ngit.git_log(repo: str) [changed]\n    Log."
    '\nNext: describe_tools(["..."]), then call_tool.'
)
LISTED = "git.git_log: Show the log.\ngit.git_diff [changed]: Show the difference.\n3 tools withheld until"


def asked(name: str, **arguments: object) -> Asked:
    return Asked(id="1", name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("action", "observed", "line"),
    [
        (
            asked("search_tools", query="time"),
            FOUND,
            "search_tools time → 2 tools: time.convert_time, git.git_log",
        ),
        (asked("list_tools", server="git"), LISTED, "list_tools git → 2 tools: git.git_log, git.git_diff"),
        (asked("list_servers"), "git - Repositories (2)\ntime - Time (1)", "list_servers → 2 servers: git, time"),
        (asked("search_tools", query="x"), "Nothing found.", "search_tools x → no tools"),
        (
            asked("describe_tools", tools=["a.b", "c.d"]),
            "x" * 2000,
            "describe_tools a.b, c.d → definitions, 2,000 characters; describe again if needed",
        ),
        (
            asked("call_tool", tool="time.now", arguments={}),
            "[error]\nno such\nzone",
            "call_tool time.now → error: no such zone",
        ),
        (asked("time__now"), "12:00 " * 100, f"time__now → 600 characters: {('12:00 ' * 20)[:120]}…"),
        (
            asked("call_tool", tool="a.b"),
            '[toolatlas: 99 characters, the first 9 are below; read_result(id="r_abc234", offset=9) gives the rest]\nx',
            "call_tool a.b → 104 characters: x; read_result(id='r_abc234') has it",
        ),
    ],
)
def test_an_observation_becomes_one_line_that_says_what_came_of_it(action: Asked, observed: str, line: str) -> None:
    assert folded(action, observed) == line


@pytest.mark.parametrize("text", ["x" * 300_000, "a." * 150_000, "\n" * 100_000, "[changed] " * 30_000])
def test_a_line_is_short_whatever_a_server_said(text: str) -> None:
    for name in ("search_tools", "list_tools", "list_servers", "call_tool"):
        line = folded(asked(name, query=text), text)
        assert len(line) < 3_000
        assert "\n" not in line


def context(tokens: int, keep: int = 2) -> Context:
    return Context("Rules.", "The task in the user's words.", (), WorkLimits(context_tokens=tokens, keep=keep))


def fill(of: Context, count: int, size: int = 4_000) -> None:
    for number in range(count):
        action = Asked(id=str(number), name="call_tool", arguments={"tool": f"s.t{number}"})
        of.add(Exchange(said="", asked=(action,), observed=(f"{number} " + "x" * size,)))


def test_nothing_is_folded_while_everything_fits() -> None:
    of = context(10_000)
    fill(of, 5)
    conversation = of.fitted()
    assert conversation is not None
    assert of.folded == []


def test_the_oldest_are_folded_first_and_only_as_many_as_needed(caplog: pytest.LogCaptureFixture) -> None:
    of = context(3_500)
    fill(of, 5)
    with caplog.at_level(logging.INFO, "toolatlas.policy"):
        conversation = of.fitted()
    assert conversation is not None
    assert tokens_of_conversation(conversation) <= 3_500
    texts = [exchange.observed[0] for exchange in conversation.exchanges]
    assert [text.startswith("[folded] call_tool s.t") for text in texts] == [True, True, False, False, False]
    assert conversation.task == "The task in the user's words."
    assert [each.place for each in of.folded] == [1, 2]
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert lines[0] == {"event": "folded", "place": 1, "action": "call_tool", "from": 4002, "to": len(texts[0])}
    assert of.fitted() == conversation


def test_the_newest_are_never_folded() -> None:
    of = context(2_500)
    fill(of, 5)
    conversation = of.fitted()
    assert conversation is not None
    assert ["[folded]" in exchange.observed[0] for exchange in conversation.exchanges] == [True] * 3 + [False] * 2


def test_long_code_of_old_turns_is_cut_where_folding_is_not_enough() -> None:
    of = context(1_000, keep=1)
    for number in range(3):
        action = Asked(id=str(number), name="run_python", arguments={"code": "y" * 3_000})
        of.add(Exchange(said="", asked=(action,), observed=("done",)))
    assert of.fitted() is None
    last = Exchange(said="", asked=(Asked(id="4", name="list_servers", arguments={}),), observed=("a - b",))
    of.add(last)
    conversation = of.fitted()
    assert conversation is not None
    assert "characters left out" in conversation.exchanges[0].asked[0].arguments["code"]
    assert conversation.exchanges[-1] == last
    assert of.fitted() == conversation


def test_what_cannot_be_made_to_fit_is_said_so() -> None:
    of = context(500)
    fill(of, 2)
    assert of.fitted() is None


def test_limits_are_read_and_refused_by_name() -> None:
    assert work_limits(["turns=3", "context_tokens=900"]) == WorkLimits(turns=3, context_tokens=900)
    for wrong in ("turns", "turns=0", "turns=-1", "turns=1e3", "turn=3", f"turns={'9' * 5000}"):
        with pytest.raises(ConfigurationError):
            work_limits([wrong])
