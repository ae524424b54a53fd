"""Finds what is quoted, identifiers and names in texts, in linear time; and makes texts comparable.

Above: values.py, reading.py. Below: nothing. What a name is can only be told by how it is written: a text in which
nearly every word begins with a capital (a headline, German) has no names here.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple


def vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


NEUTRAL = vocabulary(
    "i ok am pm utc gmt id ids url urls uri json csv tsv sql xml html http https pdf api mcp iso ascii utf true "
    "false none null yes no done note total result results summary answer e.g i.e etc vs n/a "
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun "
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec "
    "eur usd gbp chf jpy sek nok dkk pln czk cny inr cad aud euro euros dollar dollars"
)
"""Words that name nothing that a tool would have to say. Weekdays and months are parts of dates."""
LONGEST_QUOTE = 200
_MOSTLY = 0.5
"""Share of capitals among words inside sentences from which on capitals mean nothing."""
_GERMAN = vocabulary("der die das und ist ein eine nicht mit von auf dem zu")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
_GROUPED = re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")
_ALIKE = str.maketrans(
    {**dict.fromkeys("‘’‚", "'"), **dict.fromkeys("“”„", '"'), **dict.fromkeys("–−‑", "-"), "—": " - "}
)
_QUOTED = re.compile(
    rf"(?<![\w\"])\"([^\"\n]{{1,{LONGEST_QUOTE}}})\"(?!\w)"
    rf"|(?<![\w'])'([^'\n]{{1,{LONGEST_QUOTE}}})'(?!\w)"
    rf"|`([^`\n]{{1,{LONGEST_QUOTE}}})`"
    rf"|«([^»\n]{{1,{LONGEST_QUOTE}}})»"
)
_WORD = re.compile(r"\S{1,400}")
_AROUND = "\"'`*«»()[]{}<>,;:!?…|~#=+"
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "/": "/", "\\": "\\", "b": " ", "f": " "}
_SURROGATES = re.compile("[\ud800-\udfff]")


class Word(NamedTuple):
    """What stands out of a text."""

    kind: str
    """`text` where it is quoted, `identifier`, `name`."""
    text: str
    start: int
    end: int


def clean(text: str) -> str:
    """With one kind of quote, dash and space, and without what is not seen; letters keep their case."""
    if text.isascii():
        return text
    text = _GROUPED.sub(",", _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", text)))
    # One character may become eighteen; people's texts hardly grow.
    return unicodedata.normalize("NFKC", text.translate(_ALIKE)).translate(_ALIKE)[: 2 * len(text)]


def fold(cleaned: str) -> str:
    """Without regard to case."""
    return cleaned.lower() if cleaned.isascii() else cleaned.casefold()


def unescaped(text: str) -> str:
    """With the escapes of JSON undone: servers send JSON as text, with `\\u00fc` and `\\n` in it."""
    if "\\" not in text:
        return text
    return _joined(_ESCAPE.sub(_meant, text))


def words(cleaned: str, *, alone: bool = False) -> list[Word]:
    """What is quoted, identifiers and names. An identifier within quotes is both.

    The first word of a sentence is no name, however it is written, unless the text stands `alone`.
    """
    found = [
        Word(
            "text",
            match.group(match.lastindex or 0),
            match.start(match.lastindex or 0),
            match.end(match.lastindex or 0),
        )
        for match in _QUOTED.finditer(cleaned)
    ]
    names: list[Word] = []
    inside = german = 0
    for match in _WORD.finditer(cleaned):
        word = _stripped(match.group(), match.start())
        if word is None:
            continue
        if is_identifier(word.text):
            found.append(word._replace(kind="identifier"))
        elif alone or not _begins(cleaned, match.start()):
            inside += word.text[0].isalpha()
            german += word.text in _GERMAN
            if word.text[0].isupper():
                names.append(word)
    headline = inside >= 20 and len(names) > inside * _MOSTLY
    if not headline and german < 3:
        found += [each for each in map(_bare, names) if fold(each.text) not in NEUTRAL and len(each.text) > 1]
    return found


def is_identifier(word: str) -> bool:
    """Whether a word has marks or digits as no word of a language has."""
    if word.isalpha() or word.isdigit() or not any(map(str.isalnum, word)):
        return False
    if "@" in word or "_" in word or "://" in word or word.startswith(("/", "~/", "./", "../")):
        return any(map(str.isalpha, word))
    letters, digits = any(map(str.isalpha, word)), any(map(str.isdigit, word))
    if not letters:
        # 127.0.0.1, 1.2.3; but 2.50, 14:05 and 2026-03-05 are numbers, times and dates.
        return word.count(".") > 1 and word.replace(".", "").isdigit()
    if digits:
        # Not `5km`, `2pm`, `50%`: a unit.
        return not _starts_as_number(word)
    parts = [part for part in word.split(".") if part]
    if len(parts) > 1:
        return all(len(part) > 1 for part in parts) and all(part[0].isalnum() for part in parts)
    if word.count("/") > 1:
        return True
    return "\\" in word


def _starts_as_number(word: str) -> bool:
    """A number, with or without marks, and then letters alone; or dates and times in one word."""
    if not word[0].isdigit() and word[0] not in "-+$€£":
        return False
    tail = word.lstrip("-+$€£0123456789.,'")
    return _is_moment(word) or (len(tail) <= 12 and (tail.isalpha() or not any(map(str.isalpha, tail))))


def _is_moment(word: str) -> bool:
    """`2026-03-05T14:05:00Z`."""
    return len(word) >= 16 and word[:4].isdigit() and word[4] == "-" and word[10:11] in "T_" and ":" in word


def _stripped(written: str, start: int) -> Word | None:
    left = len(written) - len(written.lstrip(_AROUND))
    text = written[left:].rstrip(_AROUND + ".")
    if not text:
        return None
    return Word("name", text, start + left, start + left + len(text))


def _bare(word: Word) -> Word:
    """Without the ending of possession: `Oslo's`; of words that hang together only the first."""
    text = word.text.partition("'")[0].partition("/")[0].partition(":")[0].partition("(")[0] or word.text
    return Word("name", text, word.start, word.start + len(text))


def _begins(cleaned: str, start: int) -> bool:
    """Whether a sentence, a line or a point of a list begins here."""
    before = cleaned[max(0, start - 8) : start]
    line = before.rpartition("\n")[2]
    if (len(before) < 8 or "\n" in before) and not line.strip(" \t*#>-+•·|0123456789.)("):
        return True
    return line.rstrip(" \t\"'*(`").endswith((".", "!", "?", ":", "|", "-", "•", "。"))


def _meant(match: re.Match[str]) -> str:
    escape = match.group(1)
    return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPED.get(escape, match.group())


def _joined(text: str) -> str:
    """Two halves of a character outside the basic plane made one; a half alone is none."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
