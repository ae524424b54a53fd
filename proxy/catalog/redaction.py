"""A result as an example that may be kept and shown to others: short, and without what looks secret or personal.

Above: shapes.py. Below: text.py. It errs on the side of taking out: an example is there to show a form, not values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from proxy.catalog.text import ELLIPSIS, one_line, visible_json

EXAMPLE_CHARS = 400
REDACTED = "[redacted]"
_SECRET_KEY = re.compile(
    r"pass(word|wd|phrase|code)?$|passw|pwd|secret|token|(api|access|license)_?key|private|credential|authori[sz]ation"
    r"|(^|_)o?auth(_|$)|cookie|session|signature|bearer|jwt|^otp|^pin$|ssn|iban|card|cvc|cvv|phone|birth|salary|address|e_?mail"
)
_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(\.[\w-]+)+")
_SECRET = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]+(\.[\w-]*)?"  # A signed token.
    r"|\b(sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|ya29|hf|npm|pypi|dop_v1|shpat)[-_.]?"
    r"[\w-]{10,}"
    r"|\b(Bearer|Basic|Digest)\s+\S+|-----BEGIN[^-]*-----.*",
    re.DOTALL,
)
_ASSIGNED = re.compile(
    r"(?i)\b(\w*(?:password|passwd|passphrase|secret|token|api[-_]?key|authorization|cookie)\w*)([\"']?\s*[=:]\s*)\S+"
)
_NAMING = ("name", "key", "field", "label", "header")
_NAMED = frozenset({"value", "val", "data", "content", "text"})
_TOKEN = re.compile(r"[A-Za-z0-9_+/=-]{20,}")
_NUMBER = re.compile(r"\+?\d(?:[ ()./-]{0,2}\d){8,}")
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)(?:[^\s/@]*@)?([^\s?#\"'<>]*)(?:[?#][^\s\"'<>]*)?")
# Strings, members and levels are cut harder and harder until the example is short enough.
_CUTS = ((60, 12, 5), (40, 10, 4), (24, 8, 4), (16, 6, 3), (12, 4, 2), (8, 2, 1))


def example_of(value: Any) -> str | None:
    """`value` as JSON of at most `EXAMPLE_CHARS` characters; None where even its outline is longer."""
    for chars, members, levels in _CUTS:
        shown = visible_json(_redacted(value, chars, members, levels))
        if len(shown) <= EXAMPLE_CHARS:
            return shown
    return None


def is_telling(key: str) -> bool:
    """Whether a key of an object is data itself, not the name of a field: an address, an id, a token, a date."""
    return len(key) > 48 or bool(_EMAIL.search(key) or _looks_random(key) or re.search(r"\d{4,}|://|\d-\d", key))


def redacted_text(text: str, chars: int) -> str:
    """One line of `text`, at most `chars` characters, without what looks secret."""
    # Cut first, generously: what is left out need not be searched. A word that was cut could be half of a secret.
    searched = 40 * chars + 4_000
    if len(text) > searched:
        text = text[:searched].rpartition(" ")[0] or REDACTED
    text = one_line(text, searched)
    text = _SECRET.sub(REDACTED, text)
    text = _ASSIGNED.sub(rf"\1\2{REDACTED}", text)
    text = _EMAIL.sub("[e-mail]", text)
    text = _URL.sub(r"\1\2", text)
    text = _TOKEN.sub(lambda found: REDACTED if _looks_random(found[0]) else found[0], text)
    text = _NUMBER.sub(lambda found: found[0] if _is_date(found[0]) else "[number]", text)
    return text if len(text) <= chars else text[: chars - 1].rstrip() + ELLIPSIS


def _redacted(value: Any, chars: int, members: int, levels: int) -> Any:
    if isinstance(value, str):
        return redacted_text(value, chars)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return 0 if abs(value) >= 1e12 or value != value else value
    if isinstance(value, Mapping):
        return _redacted_object(cast(Mapping[Any, Any], value), chars, members, levels)
    if isinstance(value, Sequence):
        items = cast(Sequence[Any], value)
        if levels <= 0:
            return [ELLIPSIS] if items else []
        first = [_redacted(item, chars, members, levels - 1) for item in items[:1]]
        return [*first, ELLIPSIS] if len(items) > 1 else first
    return type(value).__name__


def _redacted_object(value: Mapping[Any, Any], chars: int, members: int, levels: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    labels = [label for name in _NAMING if isinstance(label := value.get(name), str)]
    labelled = any(_SECRET_KEY.search(_squeezed(label[:200])) for label in labels)
    for key, inner in value.items():
        name = one_line(str(key), 48)
        if len(shown) >= members or levels <= 0:
            shown[ELLIPSIS] = ELLIPSIS
            break
        if is_telling(name):
            name = REDACTED
        secret = _SECRET_KEY.search(_squeezed(name)) is not None or (labelled and name.lower() in _NAMED)
        secret = secret and inner is not None and not isinstance(inner, bool)
        shown[name] = REDACTED if secret else _redacted(inner, chars, members, levels - 1)
    return shown


def _squeezed(name: str) -> str:
    """`apiKey`, `API-KEY` and `api key` as `api_key`."""
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).lower()


def _looks_random(text: str) -> bool:
    """Whether a part of a path, or all of it where it has few parts, is long and mixed as words are not: most keys,
    hashes, ids."""
    parts = text.split("/")
    few = len(parts) <= 1 + len(text) // 20
    return any(_is_mixed(part) for part in parts) or (few and _is_mixed("".join(parts)))


def _is_mixed(text: str) -> bool:
    if len(text) < 20:
        return False
    digits = sum(character.isdigit() for character in text)
    if digits < 2:
        both = text.lower() != text and text.upper() != text
        return both and len(text) >= (24 if digits else 32) and not re.search("[-_]", text)
    return any(character.isalpha() for character in text)


def _is_date(text: str) -> bool:
    return re.match(r"(19|20)\d\d-[01]\d-[0-3]\d", text) is not None


def size_of(value: Any) -> int:
    """Characters of `value` as JSON."""
    return len(json.dumps(value, separators=(",", ":")))
