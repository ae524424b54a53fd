"""What several checks ask of the same case is worked out once.

Above: every module of checks/ that several checks share. Below: case.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from judge.case import Case

T = TypeVar("T")


def once_a_case(make: Callable[[Case], T]) -> Callable[[Case], T]:
    """`make`, called once for each case and remembered as long as the case lives: so what it gives must not hold the
    case."""
    known: WeakKeyDictionary[Case, T] = WeakKeyDictionary()

    @wraps(make)
    def made(case: Case) -> T:
        if case not in known:
            known[case] = make(case)
        return known[case]

    return made
