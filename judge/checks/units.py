"""Names of months and units, as numbers and dates are written with them.

Above: numerals.py. Below: nothing. Only what people write beside numbers that tools give: lengths, weights, durations,
amounts of data, shares, and multipliers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Unit = tuple[tuple[str, float], ...]
"""What a number with it comes to: a dimension (empty for a plain number) with a factor to its base, all readings."""


def _months() -> dict[str, int]:
    names = (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    )
    found = {name: place for line in names for place, name in enumerate(line.split(), 1)}
    return {**found, "sept": 9}


def _units() -> dict[str, Unit]:
    units: dict[str, Unit] = {}

    def add(dimension: str, factor: float, names: str) -> None:
        for name in names.split():
            units[name] = (*units.get(name, ()), (dimension, factor))

    add("", 1e3, "k K thousand")
    add("", 1e6, "M mio million millions")
    add("", 1e9, "bn billion billions")
    add("share", 1e-2, "% percent pct")
    add("share", 1e-3, "‰")
    for names, factor in (
        ("mm millimetre millimetres millimeter millimeters", 1e-3),
        ("cm centimetre centimetres centimeter centimeters", 1e-2),
        ("m metre metres meter meters", 1.0),
        ("km kilometre kilometres kilometer kilometers", 1e3),
    ):
        add("length", factor, names)
    for names, factor in (
        ("mg milligram milligrams", 1e-3),
        ("g gram grams", 1.0),
        ("kg kilo kilos kilogram kilograms", 1e3),
        ("t tonne tonnes", 1e6),
    ):
        add("weight", factor, names)
    for names, factor in (
        ("ms millisecond milliseconds", 1e-3),
        ("s sec secs second seconds", 1.0),
        ("min mins minute minutes", 60.0),
        ("h hr hrs hour hours", 3_600.0),
        ("day days", 86_400.0),
        ("week weeks", 604_800.0),
    ):
        add("time", factor, names)
    add("time", 1 / 60, "s sec secs second seconds")
    add("time", 1.0, "min mins minute minutes")
    add("data", 1.0, "B byte bytes")
    for place, letter in enumerate("kmgt", 1):
        for factor in (1000.0**place, 1024.0**place):
            add("data", factor, f"{letter}b {letter.upper()}B")
        add("data", 1024.0**place, f"{letter}ib {letter.upper()}iB")
    return units


MONTHS: Mapping[str, int] = MappingProxyType(_months())
UNITS: Mapping[str, Unit] = MappingProxyType(_units())
"""As written first, then in lower case: `M` is a million, `m` a metre."""


def _measures() -> dict[str, str]:
    """Longer names of what is measured, and currencies, each with its measure."""
    found = {
        name: each[0][0]
        for name, each in UNITS.items()
        if len({dimension for dimension, _ in each}) == 1 and each[0][0] not in ("", "share") and len(name) > 1
    }
    for names in (
        "EUR euro euros €",
        "USD dollar dollars $",
        "GBP pound pounds £",
        "CHF franc francs",
        "JPY yen ¥",
        "litre litres liter liters ml cl hl",
        "kWh Wh MWh",
        "°C °F degrees",
    ):
        first, *_ = names.split()
        found |= dict.fromkeys(names.split(), first)
    return found


MEASURES: Mapping[str, str] = MappingProxyType(_measures())
"""Units that say what a number measures: those of one measure may stand for each other."""
