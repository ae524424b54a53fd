"""Made-up values that are the same in every process: names, codes, amounts and days, drawn by the hash of a key.

Above: worlds.py. Below: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

_FIRST = (
    "Bel",
    "Cor",
    "Dal",
    "Esk",
    "Fen",
    "Gar",
    "Hol",
    "Ivar",
    "Jor",
    "Kel",
    "Lun",
    "Mar",
    "Nor",
    "Orl",
    "Pell",
    "Quin",
)
_LAST = (
    "adine",
    "beck",
    "croft",
    "dorn",
    "emere",
    "field",
    "gate",
    "hurst",
    "ivane",
    "kett",
    "lund",
    "more",
    "ness",
    "ova",
)
_LETTERS = "ABCDEFGHJKLMNPRSTVWXZ"
_BEGIN = date(2025, 1, 1)
_DAYS = 600


def draw(key: str, count: int) -> int:
    """A number from 0 up to `count`."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()) % count


def one_of(key: str, choices: Sequence[T]) -> T:
    return choices[draw(key, len(choices))]


def name(key: str) -> str:
    """`Corbeck Lunova`."""
    first, last = (f"{one_of(f'{key} {part}a', _FIRST)}{one_of(f'{key} {part}b', _LAST)}" for part in (1, 2))
    return f"{first} {last}"


def code(key: str) -> str:
    """`KLR-48213`."""
    letters = "".join(one_of(f"{key} {place}", _LETTERS) for place in range(3))
    return f"{letters}-{10_000 + draw(f'{key} number', 90_000)}"


def amount(key: str) -> float:
    """Between 11 and 10,000, with two decimals that are not zero."""
    return round(11 + draw(key, 9_900) + (1 + draw(f"{key} cents", 98)) / 100, 2)


def day(key: str) -> str:
    """`2025-07-14`."""
    return (_BEGIN + timedelta(days=draw(key, _DAYS))).isoformat()
