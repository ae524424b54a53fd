"""HTML out of templates/: every value is made visible and then escaped, and none is trusted.

Above: pages.py, signing.py and the other pages; run_report.py. Below: visible.py and Jinja.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote

import anyio.to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from proxy.dashboard.visible import visible


class Templates:
    """Renders pages in a worker thread: those of long episodes take their time."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("proxy.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        filters: dict[str, Callable[[Any], str]] = {
            "segment": _segment,
            "moment": _moment,
            "machine_time": _machine_time,
            "duration": duration,
            "number": _number,
        }
        # Unknown values in Jinja's own annotation.
        cast("dict[str, Any]", self._environment.filters).update(filters)  # pyright: ignore[reportUnknownMemberType]

    async def page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """One page. `up` is the way to the folder of the pages: empty, or `../`."""
        return HTMLResponse(await anyio.to_thread.run_sync(lambda: self.text(name, **values)), status)

    def text(self, name: str, **values: Any) -> str:
        """The same as text, in this thread."""
        return self._environment.get_template(name).render(**values)


def duration(milliseconds: float) -> str:
    """`850 ms`, `1.25 s`, `3 min 20 s`, `2 h 5 min`."""
    if milliseconds < 999.5:
        return f"{milliseconds:.1f} ms" if 0.05 <= milliseconds < 9.95 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _shown(value: Any) -> Any:
    # Markup is what a macro has already escaped.
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _segment(text: str) -> str:
    return quote(text, safe="")


def _number(number: int) -> str:
    return f"{number:,}"


def _moment(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _machine_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")
