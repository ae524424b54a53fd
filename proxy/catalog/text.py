"""Text written by a server is data: these functions make it safe to print to an agent, and short.

Above: everything that shows a description, title or error of a server. Below: nothing.
"""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"

_LINE_BREAK = re.compile("\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r"\n{3,}")
# Code points that print as nothing although their category is a letter, mark or symbol, and those never assigned.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufdd0-\ufdef\U000e0000-\U000e0fff]"
)
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
# Between two paragraphs, and before a list, heading or `Args:` that starts on a new line.
_PARAGRAPH_END = re.compile(r"\n(?=\n|[-*•#>`<]|\d+[.)] |[A-Z]\w+:)")
_SENTENCE_END = re.compile(r"""[.!?。！？]["')\]]*(?=\s|$)|[。！？]""")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|approx|incl|[A-Za-z])\.$", re.IGNORECASE)


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
    invisible = {
        ord(c): None for c in set(text) if c not in "\n\t" and unicodedata.category(c) in _INVISIBLE_CATEGORIES
    }
    return text.translate(invisible)


def _cut(text: str, limit: int) -> str:
    # Composing takes quadratic time over a run of combining marks, and at most four characters become one.
    text = unicodedata.normalize("NFC", text[: 4 * limit + 4])
    if len(text) <= limit:
        return text
    return text[: limit - 1].rstrip() + ELLIPSIS if limit > 0 else ""
