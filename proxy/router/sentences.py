"""A query's sentences: a long text asks for several things, and each sentence for few of them.

Above: lexical.py and fusion.py. Below: nothing of ours.
"""

from __future__ import annotations

import re
import textwrap

MIN_WORDS = 3
"""Of a sentence that asks for something; shorter ones are greetings."""
MAX_PASSAGES = 24
PASSAGE_CHARS = 200
"""Longer sentences are cut between words: they ask for several things as well."""
READ_CHARS = 1_100
"""Of one text, in all: what an encoder on one thread of a CPU reads in some 60 ms. Later sentences still fit where an
earlier one did not."""
LOOKED_AT_CHARS = 8_000

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def split_sentences(text: str) -> list[str]:
    """The sentences and lines of a text, in its order, none empty. Time grows with the length of the text only."""
    return [part for piece in _END.split(text) if (part := piece.strip())]


def passages(text: str) -> list[str]:
    """What an encoder reads of a query: at least one passage, the text's beginning where it has no sentences."""
    sentences = split_sentences(text[:LOOKED_AT_CHARS])
    pieces = [
        piece
        for sentence in sentences
        # Scripts without spaces have few words and say much with them.
        if len(sentence.split()) >= MIN_WORDS or not sentence.isascii()
        for piece in textwrap.wrap(sentence, PASSAGE_CHARS)
    ]
    chosen: list[str] = []
    room = READ_CHARS
    for piece in pieces:
        # A character of most other scripts is a token, four of ASCII are one.
        length = len(piece) if piece.isascii() else len(piece.encode("utf-8", "surrogatepass"))
        if length <= room and len(chosen) < MAX_PASSAGES:
            chosen.append(piece)
            room -= length
    return chosen or [" ".join(text[:PASSAGE_CHARS].split())]
