"""How an answer is put: the same facts in other words and formats, chosen by chance once per run.

Above: the plans of families. Numbers come as servers gave them; nothing here computes.
"""

from __future__ import annotations

from calendar import month_name
from random import Random


class Words:
    """The habits of one writer."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._grouped, self._bare, self._twelve = (chance.random() < 0.5 for _ in range(3))
        self._euro = chance.choice(("{} EUR", "EUR {}", "€{}", "{} euros"))

    def pick(self, *options: str) -> str:
        return self._chance.choice(options)

    def number(self, value: float) -> str:
        """`1200`, `1,200`, `2.50` or `2.5`."""
        if float(value).is_integer():
            return f"{int(value):,}" if self._grouped else str(int(value))
        text = f"{value:,.2f}" if self._grouped else f"{value:.2f}"
        return text.rstrip("0") if self._bare else text

    def money(self, value: float) -> str:
        """An amount with its unit."""
        text = f"{value:,.2f}" if self._grouped else f"{value:.2f}"
        if self._bare:
            text = text.rstrip("0").rstrip(".")
        return self._euro.format(text)

    def clock(self, time: str) -> str:
        """`22:30` or `10:30 pm`, of a 24-hour time."""
        hour, minute = (int(part) for part in time.split(":"))
        if not self._twelve:
            return time
        return f"{(hour - 1) % 12 + 1}:{minute:02} {'pm' if hour >= 12 else 'am'}"

    def date(self, day: str) -> str:
        """`2026-05-06`, `6 May 2026` or `May 6, 2026`."""
        year, month, number = (int(part) for part in day.split("-"))
        named = month_name[month]
        return self.pick(day, f"{number} {named} {year}", f"{named} {number}, {year}")
