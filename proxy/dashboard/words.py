"""JSON values of agents and servers as text to be read, and what is said where there are none.

Above: timeline.py, pages.py, rest.py. Below: store/trajectory.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from proxy.store.trajectory import Missing

LINE_CHARS = 100
"""JSON up to this stays on one line."""
_MISSING: Mapping[Missing, str] = {
    Missing.NOT_LOGGED: "not logged (level metadata)",
    Missing.NOTHING: "nothing came back",
    Missing.RUNNING: "not known while the episode runs",
    Missing.UNTOLD: "the agent did not say",
}


def said(result: Any) -> str:
    """The words of a tool's result; JSON where it has none."""
    content = as_object(result).get("content")
    if not isinstance(content, list) or not content:
        return result if isinstance(result, str) else pretty(result)
    return "\n".join(_block(as_object(block), block) for block in cast("list[Any]", content))


def too_long_to_show(episode_id: str) -> str:
    """What is said in the place of an episode that no page is made of."""
    return f"This episode is too long to be shown here: `toolatlas episodes show {episode_id}` has it."


def known(missing: Missing | None) -> str:
    """Why there is nothing to show; empty where there is something."""
    return "" if missing is None else _MISSING[missing]


def pretty(value: Any) -> str:
    """JSON to be read."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= LINE_CHARS else json.dumps(value, ensure_ascii=False, indent=2)


def _block(block: Mapping[str, Any], whole: Any) -> str:
    text = block.get("text")
    if isinstance(text, str):
        return text
    data = block.get("data")
    if isinstance(data, str):
        return f"[{block.get('type')}, {block.get('mimeType')}: {len(data):,} characters in base64]"
    return pretty(whole)


def as_object(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
