"""Limits of the sandbox as the gateway's owner writes them: `name=value`, the names of `Limits`.

Above: app.py. Below: base.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from proxy.catalog.argument_problems import nearest
from proxy.errors import ConfigurationError
from proxy.sandbox.base import Limits

_DEFAULTS: dict[str, int | float] = asdict(Limits())
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmg]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
MOST = {"output_kept": 1_000_000, "argument_bytes": 2_000_000, "value_bytes": 12_000_000, "code_bytes": 1_000_000}
"""What the supervisor in a container takes at most."""
_MAY_BE_NOTHING = frozenset({"warm", "grace_s"})


def limits_of(settings: Iterable[str]) -> Limits:
    """The limits with those changed that are named; `k`, `m` and `g` stand for powers of 1024.

    Raises:
        ConfigurationError: An unknown name, or a value that it cannot have.
    """
    given: dict[str, Any] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if (default := _DEFAULTS.get(name)) is None:
            near = nearest(name, list(_DEFAULTS), 60)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(_DEFAULTS)}"
            raise ConfigurationError(f"no limit of the sandbox is called {name!r}; {hint}")
        given[name] = _number(name, value, whole=isinstance(default, int))
    limits = Limits(**given)
    if limits.run_s > limits.max_run_s:
        raise ConfigurationError(f"run_s ({limits.run_s:g}) is more than max_run_s ({limits.max_run_s:g})")
    for name, most in MOST.items():
        if given.get(name, 0) > most:
            raise ConfigurationError(f"{name} is at most {most}, not {given[name]}: the sandbox takes no more")
    return limits


def _number(name: str, value: str, *, whole: bool) -> int | float:
    match = _NUMBER.fullmatch(value.strip())
    number = float(match[1]) * _FACTORS[match[2].lower()] if match is not None else math.nan
    if not (number > 0 or (number == 0 and name in _MAY_BE_NOTHING)) or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise ConfigurationError(f"{name} is {kind} above 0, such as {_DEFAULTS[name]}, not {value!r}")
    return int(number) if whole else number
