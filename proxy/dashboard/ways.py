"""Relative ways between pages, and back to one after signing in.

Above: the pages, signing.py, application.py. Relative, because a proxy in front may serve `/ui` under another folder.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.requests import Request

HOME = "episodes"
_PLACE = re.compile(
    r"(servers|tools|adapters|(episodes|label|training)(/[A-Za-z0-9_%.~-]+)?)(\?[A-Za-z0-9_=&%.~+:-]*)?"
)


def way_up(request: Request) -> str:
    """From a page to the folder of the pages: empty, `../` or more of them."""
    return "../" * _below(request).count("/")


def way_to_login(request: Request) -> str:
    """From a page to the form for signing in, which leads back to it."""
    query = request.scope["query_string"].decode("latin-1")
    place = f"{_below(request)}?{query}" if query else _below(request)
    return f"{way_up(request)}login?next={quote(place, safe='')}"


def place_of(wanted: str) -> str:
    """A page to go on to after signing in: the one that is wanted if it is one of ours, never another site."""
    return wanted if _PLACE.fullmatch(wanted) else HOME


def _below(request: Request) -> str:
    """The path below `/ui/` as it was sent, which is what the browser's own reckoning begins with."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    return raw.decode("latin-1").partition("?")[0].partition("/ui/")[2]
