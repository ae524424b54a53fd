"""Which tasks are the same, and which are of one family: the same request with other parameters.

Above: filing.py, the writers of rubrics. Below: numpy. A family is known by a MinHash signature of its request, in
which names, numbers, quoted strings, dates, paths and addresses are masked: of the text itself nothing is kept.
Deterministic over processes and machines, so that what one worker filed another finds. MinHash: Broder 1997, "On the
resemblance and containment of documents".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from operator import eq

import numpy as np

ROWS = 64
"""Values of a signature; the standard error of a similarity is at most 1/16."""
ALIKE = 0.5
"""The least similarity of two requests of one family. Of the pairs in tests/judge/writing/test_families.py, those of
the same request with other parameters have 0.64 to 1, and others at most 0.44, which is two short questions about the
time. A request in lower case shows fewer of its parameters and may begin a family of its own: the milder mistake, for
a rubric of another request would judge it wrongly. So does one that is put in other words: no measure of words tells
those from other requests. Of 18 tasks in bench/corpus, worded anew each time, pairs of one family share at most 0.16 of
words and pairs of words, others up to 0.22; of stems of content words 0.0 to 0.41, and up to 0.27."""
READ_CHARS = 4_000
"""Of a task; a request is in its beginning, what follows is mostly material."""
_KEY_BYTES = 12
_SLOT = "\N{BULLET}"

_QUOTED = re.compile(
    r"""(?<!\w)(?:"[^"\n]{1,300}"|'[^'\n]{1,300}'|`[^`\n]{1,300}`|“[^”\n]{1,300}”|‘[^’\n]{1,300}’)(?!\w)"""
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://\S{1,500}|[^\s@]{1,64}@[^\s@]{1,255}", re.IGNORECASE)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_](?:[\w./\\:+%-]{0,200}\w)?|\S")
"""A word with what joins its parts, one character of a script without spaces, or one sign."""
_ENDS = frozenset(".!?:;\n")
_JOINING = frozenset({"and", "or", "und", "oder", "et", "ou", "y", "o", ",", "&", "/", "to", "-"})
_PARTS = re.compile(r"[\d_/\\:.+%]")
_DAYS = re.compile(
    "january|february|march|april|may|june|july|august|september|october|november|december|(?:mon|tues|wednes|thurs|fri"
    "|satur|sun)day",
    re.IGNORECASE,
)


def task_key(text: str) -> str:
    """`t_` and 24 hexadecimal digits: equal for texts that differ only in white space, case and Unicode form."""
    normal = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return f"t_{blake2b(normal.encode('utf-8', 'surrogatepass'), digest_size=_KEY_BYTES).hexdigest()}"


def template(text: str) -> tuple[str, ...]:
    """The words of a request in lower case, without punctuation; each of its parameters, or list of them, is one mark.

    A parameter is a quoted string, an address, a number, date or time, a path or identifier, and a word with a capital
    letter within a sentence.
    """
    read = unicodedata.normalize("NFKC", text[:READ_CHARS]).strip()
    if len(read) > 1 and read[0] == read[-1] and read[0] in "\"'`":
        # The request itself in quotes is no parameter.
        read = read[1:-1]
    words = _masked(read)
    # Where all of it is parameters, nothing else tells it from other requests.
    return words if any(word != _SLOT for word in words) else tuple(read.casefold().split())


def _masked(read: str) -> tuple[str, ...]:
    read = _ADDRESS.sub(f" {_SLOT} ", _QUOTED.sub(f" {_SLOT} ", read))
    words: list[str] = []
    begins = True
    for found in _WORD.findall(read):
        masked = _is_parameter(found, begins=begins)
        begins = found in _ENDS
        words.append(_SLOT if masked else found.casefold())
    return tuple(word for word in _merged(words) if word == _SLOT or word[0].isalnum())


def signature(text: str) -> tuple[int, ...]:
    """`ROWS` numbers below 2**32: the MinHash of single words and pairs of words of the request."""
    words = template(text)
    # Single words beside pairs: a word put otherwise breaks two pairs, which weighs too much in a short request.
    shingles = {*words, *(f"{first} {second}" for first, second in pairwise(words))} or {""}
    digests = b"".join(blake2b(each.encode("utf-8", "surrogatepass"), digest_size=8).digest() for each in shingles)
    hashes = np.frombuffer(digests, dtype="<u8")[:, None]
    mixed = (hashes * _MULTIPLIERS + _ADDENDS) >> np.uint64(32)
    return tuple(mixed.min(axis=0).tolist())


def similarity(one: Sequence[int], other: Sequence[int]) -> float:
    """Estimated share of words and pairs of words, 0 to 1, that two requests have in common.

    Raises:
        ValueError: They are not signatures of the same kind.
    """
    if len(one) != len(other) or not one:
        raise ValueError(f"signatures of {len(one)} and of {len(other)} values cannot be compared")
    return sum(map(eq, one, other)) / len(one)


def nearest(of: Sequence[int], families: Mapping[str, Sequence[int]]) -> str | None:
    """Id of the family whose request is the most similar, at least `ALIKE`; None where there is none."""
    best, found = ALIKE, None
    # In the order of their ids, so that of two that are as near every worker takes the same.
    for family in sorted(families):
        near = similarity(of, families[family])
        if near > best or (near == best and found is None):
            best, found = near, family
    return found


def family_id(of: Sequence[int]) -> str:
    """`f_` and 24 hexadecimal digits, for a family that begins with a request of this signature."""
    written = ",".join(map(str, of))
    return f"f_{blake2b(written.encode(), digest_size=_KEY_BYTES).hexdigest()}"


def _is_parameter(word: str, *, begins: bool) -> bool:
    if not word[0].isalnum():
        return word == _SLOT
    if _PARTS.search(word) or (_DAYS.fullmatch(word) and not word.islower()):
        return True
    # `I` is no name; `iPhone` and `getUser` are.
    inner = any(letter.isupper() for letter in word[1:])
    return inner or (word[:1].isupper() and not begins and len(word) > 1)


def _merged(words: Sequence[str]) -> list[str]:
    """Parameters that follow one another, or are joined as a list, as one: `Oslo, Lima and Rome` is like `Oslo`."""
    merged: list[str] = []
    joining: list[str] = []
    for word in words:
        if word in _JOINING and merged and merged[-1] == _SLOT:
            joining.append(word)
        elif word == _SLOT and merged and merged[-1] == _SLOT:
            joining = []
        else:
            merged += [*joining, word]
            joining = []
    return merged + joining


def _constants(name: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    digests = b"".join(blake2b(f"{name} {row}".encode(), digest_size=8).digest() for row in range(ROWS))
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


# Odd, so that multiplying modulo 2**64 loses nothing.
_MULTIPLIERS = _constants("multiplier") | np.uint64(1)
_ADDENDS = _constants("addend")
