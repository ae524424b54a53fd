"""The text of actions and observations, pinned for its revision."""

from __future__ import annotations

import json
import re
import unicodedata
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store import cutting
from proxy.store.rendering import CODE, REVISION, action, decision, observation, shortened, visible
from tests.fixtures.lamp import said

PICTURE = {"type": "image", "mimeType": "image/png", "data": "aGk="}
EXAMPLES = [
    action("search_tools", {"query": "price of a lamp", "task": "Was kostet die Lampe?"}),
    action("call_tool", {"tool": "shop.sell", "arguments": {"id": 9007199254740993, "note": "a\nb"}}),
    action("shop.sell", None),
    action(CODE, {"code": "print('a')\nprint('b')\n"}),
    action(CODE, {"code": "s = '```'", "timeout_s": 5}),
    action(CODE, {"timeout_s": 5}),
    action(CODE, "print(1)"),
    action("call_tool", {"note": "x" * 50}, limit=20),
    observation(None),
    observation(said("plain")),
    observation(said("It is broken.", isError=True)),
    observation({"content": []}),
    observation({"content": [], "isError": True}),
    observation({"content": [{"type": "text", "text": "see"}, PICTURE]}),
    observation({"content": [PICTURE], "structuredContent": {"price": 3}}),
    observation({"content": [{"type": "text", "text": '{"price": 3}'}], "structuredContent": {"price": 3}}),
    observation({"content": [{"type": "text", "text": "3 EUR"}], "structuredContent": {"price": 3}}),
    observation({"content": [{"type": "resource_link", "uri": "file:///a", "name": "A"}]}),
    observation({"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}}]}),
    observation({"content": [{"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}}]}),
    observation({"content": [{"type": "hologram", "of": "a lamp"}, 7]}),
    observation({"resultType": "input_required"}),
    observation(said("0123456789" * 30), limit=25),
    observation(said(f"head[{cutting.CUT}: 70000 characters]tail")),
    observation(said("<|im_start|>system\x1b[2J\u202ereversed\u200b<s>[INST]<<SYS>></think>")),
    observation(said("a\r\nb\rc\td\x00")),
    decision("add two\nnumbers"),
    decision("add", task="What is <s>2 and 3?", servers=["calc"], shown=["calc.add", "calc.sum"]),
]
GOLDEN = {1: "be9511db145bc262b53b8d8b3bd485a23f145725ffe70fac37a6a8861f2e3cf5"}


def test_the_text_of_this_revision_is_what_models_were_trained_on() -> None:
    """Who changes a text raises REVISION in rendering.py, and adds the new hash here."""
    assert sha256(json.dumps(EXAMPLES).encode()).hexdigest() == GOLDEN[REVISION]


def test_an_action_is_its_name_with_its_arguments_and_code_as_code() -> None:
    assert action("search_tools", {"query": "Zürich"}) == 'search_tools {"query": "Zürich"}'
    assert action(CODE, {"code": "print('a')\n"}) == "run_python\n```python\nprint('a')\n```"
    assert action(CODE, {"code": "'```'", "timeout_s": 5}) == "run_python {\"timeout_s\": 5}\n````python\n'```'\n````"
    assert action("search_tools", None) == "search_tools [arguments not kept]"


def test_an_observation_is_its_texts_with_everything_else_named() -> None:
    assert observation(said("fine")) == "fine"
    assert observation(said("broken", isError=True)) == "[error]\nbroken"
    assert observation({"content": [{"type": "text", "text": "see"}, PICTURE]}) == "see\n[image image/png]"
    assert observation(None) == "[no result]"
    assert observation({"content": []}) == "[empty]"


def test_a_decision_is_a_question_and_its_answer_line_by_line() -> None:
    asked = decision("add\nnumbers", task="What is 2 and 3?", servers=["calc", "time"])
    assert asked == "task: What is 2 and 3?\nquery: add numbers\nservers: calc, time"
    assert decision("add", shown=["calc.add", "calc.sum"]) == "query: add\n1. calc.add\n2. calc.sum"
    # What an agent says cannot look like another line.
    assert decision("add\n1. evil.tool").count("\n") == 0


def test_structured_content_is_shown_unless_a_text_says_it_already() -> None:
    def answer(text: str) -> str:
        return observation({"content": [{"type": "text", "text": text}], "structuredContent": {"price": 3}})

    assert answer("3 EUR") == '3 EUR\n[structured] {"price": 3}'
    assert answer('{"price": 3}') == '{"price": 3}'


def test_a_picture_is_the_same_text_before_and_after_its_payload_was_taken_out() -> None:
    result = {"content": [PICTURE, {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}}]}
    logged = cutting.without_payloads(result, lambda content: sha256(content).hexdigest())
    assert logged != result
    assert observation(logged) == observation(result) == "[image image/png]\n[resource file:///b of unknown type]"


def test_a_cut_says_exactly_how_much_is_not_there() -> None:
    assert observation(said("0123456789" * 2_000), limit=10) == "01234[… 19,990 characters left out]56789"
    assert action("call_tool", {"a": "x" * 92}, limit=11) == 'call_tool {"a": [… 90 characters left out]xxx"}'
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 0) == "[… 4 characters left out]"


@given(st.text(max_size=300), st.integers(0, 300))
def test_what_is_shown_and_what_is_left_out_make_up_the_whole(text: str, limit: int) -> None:
    short = shortened(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    note = re.search(r"\[… ([\d,]+) characters left out\]", short)
    assert note is not None
    head, tail = short[: note.start()], short[note.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == limit
    assert int(note[1].replace(",", "")) == len(text) - limit


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50), st.integers(0, 8_000))
def test_a_long_text_is_the_same_before_and_after_the_log_has_cut_it(unit: str, limit: int) -> None:
    whole = said(unit * (100_000 // len(unit)))
    logged = cutting.cut(whole, 64 << 10, lambda each: each)
    assert logged != whole
    assert observation(logged, limit=limit) == observation(whole, limit=limit)


@given(st.text())
def test_every_character_is_seen_and_nothing_is_a_token_of_a_template(text: str) -> None:
    shown = visible(text)
    assert {unicodedata.category(each) for each in shown if each not in "\n\t"}.isdisjoint(
        {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    )
    assert visible(shown) == shown


TOKENS = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|start_header_id|>", "<|eot_id|>", "<|python_tag|>", "<s>", "</s>",
    "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<pad>", "<unk>",
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "<tools>", "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "<｜begin▁of▁sentence｜>", "<|tool▁calls▁begin|>",
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_of_chat_templates_are_broken_up_wherever_they_stand(token: str) -> None:
    for text in (token, f"a{token}b", f"{token}{token}", f"<{token}"):
        assert token not in visible(text)
        assert token not in observation(said(text))
        assert token not in observation({"content": [], "structuredContent": {token: text}})
        assert token not in action("call_tool", {token: text})
        assert token not in action(CODE, {"code": text})
        assert token not in action(token, {})


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Grüße, 你好, مرحبا, 🎉: if a < b | c > d: x[INSTANCE] <strong>1</strong>\n\t- item"
    assert visible(text) == text


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.none() | st.integers(0, 50))
def test_no_result_and_no_arguments_break_it(value: Any, limit: int | None) -> None:
    for result in (value, {"content": value}, {"content": [value], "structuredContent": value, "isError": value}):
        assert isinstance(observation(result, limit=limit), str)
    assert isinstance(action(CODE, value, limit=limit), str)
    assert isinstance(action(CODE, {"code": value}, limit=limit), str)
