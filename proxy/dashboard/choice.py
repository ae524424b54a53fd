"""What a reader asks for in a query string: which episodes, from where on, and of which time.

Above: pages.py and rest.py. Below: store/filters.py. Text that cannot be meant is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from proxy.store.filters import Filters
from proxy.store.recorder import EndReason
from proxy.store.trajectories import Cursor

OUTCOMES = ("done", "failed", "abandoned")
REASONS = tuple(reason.value for reason in EndReason)
JUDGED: Mapping[str, bool] = {"yes": True, "no": False}
RUNNING = "running"
"""Beside the reasons: not ended."""
WINDOWS: Mapping[str, timedelta | None] = {
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "all": None,
}
"""Times over which calls are counted, up to now."""
DEFAULT_WINDOW = "7d"
PAGE = 50
MAX_PAGE = 500
MAX_CHARS = 500
MAX_ID = 64


class BadChoice(Exception):
    """The query string cannot be meant; the text names the field and says what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which episodes to list, newest first."""

    filters: Filters = field(default_factory=Filters)
    reason: str | None = None
    """Why it ended, or `running`."""
    failures: bool = False
    """Only those in which a step or a call failed."""
    text: str | None = None
    """Somewhere in the task of an episode that has ended."""
    after: Cursor | None = None
    """Where the page before ended."""
    limit: int = PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a page of a list begins, and how long it is."""

    after: Cursor | None
    limit: int


def read_page(query: Mapping[str, str]) -> Place:
    """Raises BadChoice."""
    given = _given(query)
    return Place(after=_cursor(given), limit=_number("limit", given, PAGE, MAX_PAGE))


def read_choice(query: Mapping[str, str]) -> Choice:
    """Raises BadChoice for a value that cannot be meant. Fields that are empty or unknown do not matter."""
    given = _given(query)
    return Choice(
        filters=Filters(
            agent=given.get("agent"),
            server=given.get("server"),
            tool=given.get("tool"),
            outcome=_one_of("outcome", given, OUTCOMES),
            since=_time("since", given),
            before=_time("before", given),
            judged=JUDGED.get(_one_of("judged", given, tuple(JUDGED)) or ""),
        ),
        reason=_one_of("reason", given, (*REASONS, RUNNING)),
        failures=_one_of("failures", given, ("1",)) is not None,
        text=given.get("text"),
        after=_cursor(given),
        limit=_number("limit", given, PAGE, MAX_PAGE),
    )


def is_id(text: str) -> bool:
    """Whether it can be the id or the hash of something: a database may refuse what cannot, and holds none of it."""
    return 0 < len(text) <= MAX_ID and text.isascii() and text.isprintable()


def read_window(query: Mapping[str, str]) -> str:
    """One of WINDOWS. Raises BadChoice."""
    return _one_of("window", {name: value for name, value in query.items() if value}, tuple(WINDOWS)) or DEFAULT_WINDOW


def written(cursor: Cursor) -> str:
    """A cursor for a URL, as `read_choice` reads it back."""
    return f"{cursor.began_at.astimezone(UTC).isoformat()}~{cursor.episode_id}"


def _given(query: Mapping[str, str]) -> dict[str, str]:
    given = {name: value.strip() for name, value in query.items() if value.strip()}
    for name, value in given.items():
        if len(value) > MAX_CHARS:
            raise BadChoice(f"{name}: at most {MAX_CHARS} characters, not {len(value)}")
    return given


def _one_of(name: str, given: Mapping[str, str], allowed: tuple[str, ...]) -> str | None:
    value = given.get(name)
    if value is not None and value not in allowed:
        raise BadChoice(f"{name}: one of {', '.join(allowed)}, not {value!r}")
    return value


def _number(name: str, given: Mapping[str, str], default: int, most: int) -> int:
    value = given.get(name)
    if value is None:
        return default
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= most:
        raise BadChoice(f"{name}: a number from 1 to {most}, not {value!r}")
    return int(value)


def _time(name: str, given: Mapping[str, str]) -> datetime | None:
    value = given.get(name)
    return None if value is None else _read_time(name, value)


def _read_time(name: str, value: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadChoice(f"{name}: a time such as 2026-11-30 or 2026-11-30T14:05, in UTC, not {value!r}") from None


def _cursor(given: Mapping[str, str]) -> Cursor | None:
    value = given.get("after")
    if value is None:
        return None
    time, mark, episode_id = value.partition("~")
    if not mark or not episode_id:
        raise BadChoice(f"after: what `next` of the page before said, not {value!r}")
    return Cursor(_read_time("after", time), episode_id)
