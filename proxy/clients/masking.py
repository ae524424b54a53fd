"""Entries as they may be shown: what can be a secret becomes `***`, names and references to variables stay.

Above: importing.py, connecting.py. Below: nothing. What is not known to be harmless is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from proxy.clients.base import Entry

MASK = "***"
HARMLESS = frozenset(
    (
        "cwd", "type", "transport", "description", "tools", "timeout", "bearer_token_env_var", "env_vars",
        "env_http_headers", "enabled_tools", "disabled_tools", "includeTools", "excludeTools",
    )
)  # fmt: skip
ADDRESSES = ("url", "httpUrl", "serverUrl")
# Whole, or after a word such as `Bearer`; a default after `:-` may itself be a secret.
REFERENCE_ONLY = re.compile(r"(?:[A-Za-z]+ )?\$\{[^}$]*?\}")
SECRET_WORD = re.compile(r"key|token|secret|passw|pwd|auth|credential|header|cookie|bearer", re.IGNORECASE)
VALUE_FOLLOWS = frozenset(("-e", "--env", "-H", "-u", "-p"))
OPAQUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_.=+-]{24,}|(?:sk|pk|ghp|gho|xox[a-z]|glpat|ta)[-_].*")
ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)=(?P<value>.*)", re.DOTALL)


def masked(entry: Entry) -> Entry:
    """`entry` without its secrets, in the same shape."""
    return {key: _shown(key, value) for key, value in entry.items()}


def summary(entry: Entry) -> str:
    """One line: how the server is reached, and which variables and headers it is given."""
    shown = masked(entry)
    args = cast("list[object]", shown["args"]) if isinstance(shown.get("args"), list) else []
    parts = [str(part) for part in (shown.get("command") or shown.get("url"), *args) if part]
    text = " ".join(parts)
    for key in ("env", "headers"):
        names = entry.get(key)
        if isinstance(names, Mapping) and names:
            text += f" ({key}: {', '.join(map(str, cast('Entry', names)))})"
    return text + (" (disabled)" if entry.get("enabled") is False else "")


def _shown(key: str, value: object) -> object:
    if isinstance(value, bool | int | float) or key in HARMLESS:
        return value
    if key in ADDRESSES and isinstance(value, str):
        return _address(value)
    if key == "command" and isinstance(value, str):
        return " ".join(map(str, _arguments(value.split(" "))))
    if key in ("command", "args") and isinstance(value, list):
        return _arguments(cast("list[object]", value))
    return _hidden(value)


def _hidden(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _hidden(inner) for key, inner in cast("Entry", value).items()}
    if isinstance(value, list):
        return [_hidden(inner) for inner in cast("list[object]", value)]
    if isinstance(value, str):
        return value if REFERENCE_ONLY.fullmatch(value) and ":-" not in value else MASK
    return value if isinstance(value, bool) or value is None else MASK


def _address(text: str) -> str:
    """Without the user's name and password, and without the values of the query."""
    text = re.sub(r"://[^/@\s]*@", f"://{MASK}@", text)
    return re.sub(r"([?&#][^=&#\s]*=)[^&#\s]*", rf"\1{MASK}", text)


def _arguments(words: Sequence[object]) -> list[object]:
    shown: list[object] = []
    previous = ""
    for word in words:
        text = str(word)
        shown.append(_argument(text, previous))
        previous = text
    return shown


def _argument(text: str, previous: str) -> object:
    assigned = ASSIGNMENT.fullmatch(text)
    if assigned and (previous in VALUE_FOLLOWS or SECRET_WORD.search(assigned["name"])):
        return f"{assigned['name']}={_hidden(assigned['value'])}"
    named = previous.startswith("-") and "=" not in previous and SECRET_WORD.search(previous)
    if (previous in VALUE_FOLLOWS or named) and not text.startswith("-"):
        # `-e NAME` and `--token-env NAME` hand a variable on by its name.
        return text if previous.endswith(("-e", "-env")) and text.isidentifier() else _hidden(text)
    return MASK if OPAQUE.fullmatch(text) else _address(text)
