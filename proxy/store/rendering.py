"""How an action of an agent, what it was answered, and a decision of the router become text: the same for the router
that serves, the judge that reads and the trainer that learns.

Above: those three, and tables.py for the revision. Below: cutting.py for how the log notes what it left out. Pure
functions. A change of what any of them returns is a new revision (`REVISION`): a model must read what it was trained
on. Texts of others cannot speak in another voice than their own: characters that are not seen are written as escapes,
and what a chat template would take for its own tokens is broken up.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, cast

from proxy.store.cutting import CUT

REVISION = 1
"""Of how observations and decisions become text; in every episode, so that a trainer never mixes two."""
CODE = "run_python"
"""The meta-tool whose argument `code` is written as code."""

# As the writer of the log puts it into a text that was too long to keep.
_LEFT_OUT = re.compile(rf"\[{re.escape(CUT)}: (\d{{1,15}}) characters\]")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Nothing is seen of these either: fillers, variation selectors, the braille blank, tags. What is not assigned in one
# version of Unicode may be in the next, so that no more of it is here than tags.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
_BARS = re.compile("[<\uff1c](?=[|\uff5c])")
_TAGS = re.compile(
    r"<(/?(?:s|bos|eos|pad|unk|mask|think|answer|tools?|tool_call|tool_response|(?:start|end)_of_\w{1,20}))>",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS))\]")
_SYSTEM = re.compile(r"<<(/?SYS)>>")


def action(name: str, arguments: Any, *, limit: int | None = None) -> str:
    """A call as the agent made it: the name with its arguments as JSON, and code as code.

    `limit` is the most characters of the arguments, and of the code, that are shown; the middle goes first.
    """
    if arguments is None:
        return f"{visible(name)} [arguments not kept]"
    if name != CODE or not isinstance(arguments, Mapping):
        return f"{visible(name)} {_shown(_json(arguments), limit)}"
    others = dict(cast("Mapping[str, Any]", arguments))
    code = others.pop("code", None)
    if not isinstance(code, str):
        return f"{visible(name)} {_shown(_json(arguments), limit)}"
    head = f"{name} {_shown(_json(others), limit)}" if others else name
    return f"{head}\n{_fenced(_shown(code, limit))}"


def observation(result: Any, *, limit: int | None = None) -> str:
    """The result of a `tools/call` as text: its texts as they are, everything else by its kind.

    Pictures, sounds and binary resources are only named, since the log does not keep them. `limit` is the most
    characters that are shown; the middle goes first. A result of one text becomes the same as it was served and as it
    was logged and cut, if `limit` is at most what the log keeps of it (64 KB, half of that from each end).
    """
    if result is None:
        return "[no result]"
    whole: Mapping[str, Any] = cast("Mapping[str, Any]", result) if isinstance(result, Mapping) else {}
    content = whole.get("content")
    if not isinstance(content, list):
        return _shown(_json(result), limit)
    items = cast("list[Any]", content)
    parts = [_item(item) for item in items]
    structured = whole.get("structuredContent")
    if structured is not None and not _said_already(items):
        parts.append(f"[structured] {_json(structured)}")
    text = _shown("\n".join(parts), limit) if parts else "[empty]"
    return f"[error]\n{text}" if whole.get("isError") is True else text


def decision(
    query: str, *, task: str | None = None, servers: Sequence[str] | None = None, shown: Sequence[str] = ()
) -> str:
    """A ranking of the router: what was asked of it, line by line, and the tools that it showed, in their order.

    Without `shown` it is the question alone, as a router that has yet to answer reads it.
    """
    lines = [f"query: {_on_one_line(query)}"]
    if task is not None:
        lines.insert(0, f"task: {_on_one_line(task)}")
    if servers is not None:
        lines.append(f"servers: {', '.join(map(_on_one_line, servers))}")
    return "\n".join([*lines, *(f"{place}. {_on_one_line(tool)}" for place, tool in enumerate(shown, 1))])


def visible(text: str) -> str:
    """`text` in which every character is seen, and none is a token of a chat template."""
    text = text.replace("\r\n", "\n")
    if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        unseen = {ord(each): _escaped(each) for each in set(text) if each not in "\n\t" and _is_unseen(each)}
        text = text.translate(unseen)
    text = _BARS.sub("‹", text)
    text = _TAGS.sub(r"‹\1›", text)
    text = _SYSTEM.sub(r"‹‹\1››", text)
    return _BRACKETS.sub(r"⟦\1⟧", text)


def shortened(text: str, limit: int) -> str:
    """Head and tail of a text of more than `limit` characters, with the count of those between them.

    What the log left out already is counted too, so that the text before and after it was logged comes out the same.
    """
    parts = _LEFT_OUT.split(text)
    kept, left_out = parts[::2], [int(count) for count in parts[1::2]]
    here = sum(map(len, kept))
    if here <= limit:
        return "".join(part + note for part, note in zip(kept, [*map(_note, left_out), ""], strict=True))
    head = kept[0][: limit - limit // 2]
    tail = kept[-1][max(0, len(kept[-1]) - limit // 2) :]
    return f"{head}{_note(here + sum(left_out) - len(head) - len(tail))}{tail}"


def _on_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _note(count: int) -> str:
    return f"[… {count:,} characters left out]"


def _shown(text: str, limit: int | None) -> str:
    return visible(shortened(text, len(text) if limit is None else limit))


def _item(item: Any) -> str:
    known: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
    match known:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind}:
            return f"[{kind} {known.get('mimeType', 'of unknown type')}]"
        case {"type": "resource_link"}:
            return f"[link {known.get('uri')} {_json(known.get('name'))}]"
        case {"type": "resource", "resource": {"uri": uri, "text": str(text)}}:
            return f"[resource {uri}]\n{text}"
        case {"type": "resource", "resource": {"uri": uri, "blob": _, **others}}:
            return f"[resource {uri} {others.get('mimeType', 'of unknown type')}]"
        case _:
            return _json(item)


def _said_already(items: list[Any]) -> bool:
    """Whether a text looks like JSON: by the protocol it is then the structured content once more."""
    texts = (cast("Mapping[str, Any]", item).get("text") for item in items if isinstance(item, Mapping))
    return any(isinstance(text, str) and text.lstrip()[:1] in ("{", "[") for text in texts)


def _fenced(code: str) -> str:
    """`code` between lines of more backticks than it has itself."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{code.removesuffix(chr(10))}\n{fence}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or _BLANK.match(character) is not None
