"""Actions in the text of a model's answer: what is read, what is not, and that it is read back as it is written."""

from __future__ import annotations

import json
import time

import pytest

from proxy.policy.base import Action, Asked, Conversation, Exchange
from proxy.policy.text_calls import found, messages, read_arguments
from proxy.store.rendering import action

NAMES = ("search_tools", "call_tool", "run_python", "finish_task", "list_servers")
CALL = {"tool": "time.now", "arguments": {"zone": "UTC"}}


@pytest.mark.parametrize(
    "text",
    [
        f"call_tool {json.dumps(CALL)}",
        f"I will ask.\n\ncall_tool {json.dumps(CALL)}\nand then see",
        f"`call_tool {json.dumps(CALL)}`",
        f"Action: call_tool {json.dumps(CALL)}",
        f"call_tool({json.dumps(CALL)})",
        f"<tool_call>\n{json.dumps({'name': 'call_tool', 'arguments': CALL})}\n</tool_call>",
        f"```json\n{json.dumps({'tool': 'call_tool', 'parameters': CALL})}\n```",
        json.dumps({"name": "call_tool", "arguments": json.dumps(CALL)}),
        json.dumps({"type": "function", "function": {"name": "call_tool", "arguments": CALL}}),
        f"<think>search_tools {{}} may help</think>call_tool {json.dumps(CALL)}",
        f'Some {{braces}} before {{"a": 1}} it: {json.dumps({"name": "call_tool", "arguments": CALL})}',
    ],
)
def test_an_action_is_read_in_the_forms_that_models_write(text: str) -> None:
    meant = found(text, NAMES)
    assert meant is not None
    assert (meant.name, meant.arguments, meant.problem) == ("call_tool", CALL, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 42.",
        "call_tool is what I would use {if I could}",
        '{"name": "unknown_tool", "arguments": {}}',
        '{"tool": "time.now"}',
        "finish_tasks {}",
    ],
)
def test_what_is_no_action_is_not_taken_for_one(text: str) -> None:
    assert found(text, NAMES) is None


@pytest.mark.parametrize(
    "arguments",
    [{"code": "print(1)\nfor x in y:\n    z()"}, {"timeout_s": 5, "code": "a = '{'"}, {"code": "s = '''```'''"}],
)
def test_code_is_read_back_as_the_log_writes_it(arguments: dict[str, object]) -> None:
    meant = found(action("run_python", arguments), NAMES)
    assert meant is not None
    assert meant.arguments == arguments


def test_code_whose_fence_is_never_closed_ends_with_the_text() -> None:
    meant = found("run_python\n```python\nprint(1)", NAMES)
    assert meant is not None
    assert meant.arguments == {"code": "print(1)"}


def test_broken_arguments_are_a_problem_that_says_what_is_wrong() -> None:
    meant = found('call_tool {"tool": "time.now", "arguments": {', NAMES)
    assert meant is not None
    assert meant.arguments == {}
    assert "no JSON" in (meant.problem or "")
    assert read_arguments("[1]") == ({}, "the arguments are no JSON object")


@pytest.mark.parametrize("piece", ["{", "`", '{"name":', "run_python ```", "[", "\\", "call_tool {", "(`: "])
def test_an_answer_made_to_be_slow_is_read_in_bounded_work(piece: str) -> None:
    began = time.process_time()
    found(piece * (200_000 // len(piece)), NAMES)
    # Work that grew with the square of the text would take minutes.
    assert time.process_time() - began < 20


def test_the_conversation_alternates_and_names_every_action() -> None:
    asked = Asked(id="1", name="search_tools", arguments={"query": "time"})
    conversation = Conversation(
        system="Rules.",
        task="Tell the time.",
        exchanges=(
            Exchange(said="Hm.", asked=(), observed=("That was no action.",)),
            Exchange(said="Let me look.", asked=(asked,), observed=("time.now()",)),
        ),
    )
    actions = (Action(name="search_tools", description="Find tools.", parameters={"type": "object"}),)
    written = messages(conversation, actions)
    assert [each["role"] for each in written] == ["system", "user", *["assistant", "user"] * 2]
    assert 'search_tools {"type":"object"}\n    Find tools.' in written[0]["content"]
    assert written[4]["content"] == 'Let me look.\nsearch_tools {"query": "time"}'
    assert written[-1]["content"] == "time.now()"
