"""Text written by a server is data: these functions make it safe to print to an agent, and short.

Above: everything that shows a description, title or error of a server. Below: nothing.
"""

from __future__ import annotations

import json
import re
import unicodedata

ELLIPSIS = "…"

_LINE_BREAK = re.compile("\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r"\n{3,}")
# Code points that print as nothing although their category is a letter, mark or symbol, and those never assigned.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
# Between two paragraphs, and before a list, heading or `Args:` that starts on a new line.
_PARAGRAPH_END = re.compile(r"\n(?=\n|[-*•#>`<]|\d+[.)] |[A-Z]\w+:)")
_SENTENCE_END = re.compile(r"""[.!?。！？]["')\]]*(?=\s|$)|[。！？]""")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|approx|incl|[A-Za-z])\.$", re.IGNORECASE)


def printable(text: str) -> str:
    """`text` with its line breaks and spacing, without anything invisible: for a person's terminal."""
    return _visible(text)


def quoted(name: str, limit: int = 80) -> str:
    """The first `limit` characters of a name as Python writes strings, every one of them to be seen."""
    cut = name[:limit]
    return (repr(cut) if _visible(cut) == cut else ascii(cut)) + (ELLIPSIS if len(name) > limit else "")


def visible_json(value: object, indent: int | None = None) -> str:
    """`value` as JSON, the same when it is read again, in which whatever cannot be seen is written as `\\uXXXX`."""
    written = json.dumps(value, ensure_ascii=False, indent=indent)
    if written.isascii():
        return written.replace("\x7f", "\\u007f")
    # Outside of its strings JSON is ASCII, and line breaks within them are escaped already.
    unseen = {ord(c) for c in set(written) if not c.isascii() and not _visible(c)} | {0x7F, 0x85, 0x2028, 0x2029}
    return written.translate({code: json.dumps(chr(code))[1:-1] for code in unseen} | {0x7F: "\\u007f"})


def one_line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, without anything invisible."""
    return _cut(" ".join(_visible(text).split()), limit)


def block(text: str, limit: int) -> str:
    """`text` in at most `limit` characters with its line breaks, one blank line at most, without anything invisible."""
    lines = _SPACES.sub(" ", _visible(text)).split("\n")
    return _cut(_BLANK_LINES.sub("\n\n", "\n".join(line.strip() for line in lines)).strip(), limit)


def first_sentence(text: str, limit: int) -> str:
    """The first sentence of `text`, on one line of at most `limit` characters."""
    # A sentence may be spread over lines and blanks that one_line takes out: look at rather more than the limit.
    paragraph = _PARAGRAPH_END.split(block(text, 4 * limit + 80), maxsplit=1)[0]
    for end in _SENTENCE_END.finditer(paragraph):
        sentence = paragraph[: end.end()]
        if not _ABBREVIATION.search(sentence):
            return one_line(sentence, limit)
    return one_line(paragraph, limit)


def _visible(text: str) -> str:
    text = _BLANK.sub("", _TERMINAL_SEQUENCE.sub("", _LINE_BREAK.sub("\n", text)))
    if text.isascii() and text.isprintable():
        return text
    return text.translate({ord(c): None for c in set(text) if c not in "\n\t" and _is_invisible(c)})


def _is_invisible(character: str) -> bool:
    # The last two code points of every plane are no characters and never will be.
    return unicodedata.category(character) in _INVISIBLE_CATEGORIES or ord(character) & 0xFFFE == 0xFFFE


def _cut(text: str, limit: int) -> str:
    # Composing takes quadratic time over a run of combining marks, and at most four characters become one.
    text = unicodedata.normalize("NFC", text[: 4 * limit + 4])
    if len(text) <= limit:
        return text
    return text[: limit - 1].rstrip() + ELLIPSIS if limit > 0 else ""
