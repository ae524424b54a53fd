"""Actions as plain text, for models without tool calls of their own: how they are shown, and read out of an answer.

Above: openai_model.py where the endpoint has no tool calls, and local_model.py. Below: store/rendering.py: an action
stands in the conversation as the log and the trainer write it. What a model wrote may be of any form: work is bounded,
and nothing here raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from proxy.policy.base import Action, Asked, Conversation
from proxy.policy.counting import compact
from proxy.store.rendering import CODE, action, visible

MOST_CHARS = 100_000
"""Of an answer that are read."""
TRIES = 60
"""Brackets and lines at which an action is looked for."""
SAID_CHARS = 2_000

_HOW = (
    "\n\nReply with exactly one action and nothing after it: its name, a space, and its arguments as JSON, on one line."
    '\nFor example: search_tools {"query": "weather forecast"}'
)
_HOW_CODE = "\nrun_python takes its code in a fence:\nrun_python\n```python\nprint(1)\n```"
_KEYS = (("name", "tool", "action", "function"), ("arguments", "parameters", "args", "input"))


@dataclass(frozen=True, slots=True)
class Found:
    """An action in a text."""

    name: str
    arguments: Mapping[str, Any]
    problem: str | None
    said: str
    """What stood before it."""


def messages(conversation: Conversation, actions: tuple[Action, ...]) -> list[dict[str, str]]:
    """The conversation as texts of alternating roles, after one of `system`."""
    code = _HOW_CODE if any(each.name == CODE for each in actions) else ""
    lines = [f"{each.name} {compact(each.parameters)}\n    {each.description}" for each in actions]
    system = f"{conversation.system}{_HOW}{code}\nActions:\n" + "\n".join(lines)
    written = [{"role": "system", "content": system}, {"role": "user", "content": conversation.task}]
    for exchange in conversation.exchanges:
        # In this form there is one action a turn; of more, each is shown with what it was answered.
        if not exchange.asked:
            written += _pair(exchange.said or "…", exchange.observed[0])
        for asked, observed in zip(exchange.asked, exchange.observed, strict=False):
            said = f"{exchange.said}\n" if exchange.said and asked is exchange.asked[0] else ""
            written += _pair(f"{said}{action(asked.name, asked.arguments)}", observed)
    return written


def found(text: str, names: Collection[str]) -> Found | None:
    """The first action of `names` that a text has, as a line of ours or as JSON, fenced, tagged or in the middle."""
    text = without_reasoning(text)[:MOST_CHARS]
    return _as_line(text, names) or _as_json(text, names)


def without_reasoning(text: str) -> str:
    return text.rpartition("</think>")[2].strip()


def asked_of(found: Found, id: str) -> Asked:
    return Asked(id=id, name=found.name, arguments=found.arguments, problem=found.problem)


def read_arguments(given: Any) -> tuple[Mapping[str, Any], str | None]:
    """Arguments as an object, and why they are not; models write them as a text, or as a text in a text."""
    value = given
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}, None
        try:
            value = json.loads(value[:MOST_CHARS], strict=False)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be read"
            return {}, f"the arguments are no JSON ({why}): {visible(value[:200])}"
    if value is None:
        return {}, None
    if not isinstance(value, Mapping):
        return {}, "the arguments are no JSON object"
    return cast("Mapping[str, Any]", value), None


def _pair(said: str, observed: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": said}, {"role": "user", "content": observed}]


def _as_line(text: str, names: Collection[str]) -> Found | None:
    """`name {…}`, or `run_python` with its code in a fence."""
    place = 0
    for line in text.split("\n", TRIES)[:TRIES]:
        start = line.strip().lstrip("`*-> ").removeprefix("Action:").strip()
        name = re.split(r"[\s({`:]", start, maxsplit=1)[0]
        begin, place = place, place + len(line) + 1
        if name not in names:
            continue
        at = text.index(name, begin) + len(name)
        rest, said = text[at:], text[:begin].strip()[:SAID_CHARS]
        if name == CODE and (fenced := _fenced(rest)) is not None:
            others, problem = read_arguments(fenced[0])
            if "code" not in others:
                return Found(name, {**others, "code": fenced[1]}, problem, said)
        opening = rest.find("{")
        if opening < 0 or rest[:opening].strip("(`: \t\n"):
            # A name alone is an action without arguments, but a sentence that begins with it is none.
            if rest.strip("()` \t\n") == "":
                return Found(name, {}, None, said)
            continue
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(rest[opening:])
        except (ValueError, RecursionError):
            arguments, problem = read_arguments(rest[opening:])
        else:
            arguments, problem = read_arguments(value)
        return Found(name, arguments, problem, said)
    return None


def _fenced(text: str) -> tuple[str, str] | None:
    """What stands before the first fence, and the code in it; a fence that is never closed ends with the text."""
    start = text.find("```")
    if start < 0 or (line_end := text.find("\n", start)) < 0:
        return None
    fence = "`" * (len(text[start:line_end]) - len(text[start:line_end].lstrip("`")))
    end = text.find(fence, line_end)
    return text[:start].strip(), text[line_end + 1 : end if end >= 0 else len(text)].removesuffix("\n")


def _as_json(text: str, names: Collection[str]) -> Found | None:
    """`{"name": …, "arguments": {…}}`, wherever it stands."""
    decoder, place = json.JSONDecoder(strict=False), 0
    for _ in range(TRIES):
        place = text.find("{", place)
        if place < 0:
            return None
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        if (meant := _meant(value, names)) is not None:
            before = re.sub(r"<tool_call>|`{3,}(?:json)?", "", text[:place])
            return Found(*meant, before.strip()[:SAID_CHARS])
        place = end
    return None


def _meant(value: Mapping[str, Any], names: Collection[str]) -> tuple[str, Mapping[str, Any], str | None] | None:
    if isinstance(inner := value.get("function"), Mapping):
        return _meant(cast("Mapping[str, Any]", inner), names)
    name = next((value[key] for key in _KEYS[0] if isinstance(value.get(key), str)), None)
    if name is None or name not in names:
        return None
    arguments, problem = read_arguments(next((value[key] for key in _KEYS[1] if key in value), None))
    return name, arguments, problem
