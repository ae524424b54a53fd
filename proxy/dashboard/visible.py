"""Text of agents and servers for the eye: whatever cannot be seen, or reorders what can, is written as its number.

Above: templating.py, which passes every printed value through it. Escaping for HTML is the template engine's.
"""

from __future__ import annotations

import re
import unicodedata

# What is "printable" and yet leaves no mark: fillers, joiners and selectors, which can carry hidden words.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_EMOJI_STYLE = "\ufe0f"


def visible(text: str) -> str:
    """`text` with line breaks and tabs as they are, and `⟨U+202E⟩` for every character that nobody would see."""
    return "\n".join(_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def _line(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    shown: list[str] = []
    before = ""
    for character in line:
        plain = character == "\t" or (character.isprintable() and not _UNSEEN.match(character))
        in_colour = character == _EMOJI_STYLE and before != "" and unicodedata.category(before) == "So"
        shown.append(character if plain or in_colour else f"⟨U+{ord(character):04X}⟩")
        before = character
    return "".join(shown)
