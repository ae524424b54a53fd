"""The keys of an entry that only servers reached over HTTP have: `headers`, `forward_headers` and `oauth`.

Above: entry.py, whose reader is handed in. Below: web.py. Values may be secrets: texts name keys and types only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import httpx2

from proxy.servers.config import OAuthConfig
from proxy.servers.web import forwarding_problem, header_problem, web_origin

if TYPE_CHECKING:
    from proxy.servers.entry import EntryReader

OAUTH_KEYS = ("client_id", "client_secret", "scopes", "redirect_port", "allowed_origins")


def read_headers(reader: EntryReader) -> dict[str, str]:
    """`headers`, sent with every request to the server."""
    headers = reader.values("headers")
    for name, value in headers.items():
        if problem := header_problem(name, value):
            reader.problems.append(f"'headers.{name}' {problem}")
    return headers


def read_forwarded(reader: EntryReader, headers: Mapping[str, str]) -> tuple[str, ...]:
    """`forward_headers`, in lower case and each once."""
    fixed = {name.lower() for name in headers}
    names = dict.fromkeys(
        name.strip().lower() for name in reader.strings("forward_headers", reader.fields.get("forward_headers", []))
    )
    for name in names:
        if problem := forwarding_problem(name):
            reader.problems.append(f"'forward_headers': {name!r} {problem}")
        elif name in fixed:
            reader.problems.append(f"'forward_headers': {name!r} is also in 'headers'; remove it from one of them")
    return tuple(names)


def read_oauth(reader: EntryReader) -> OAuthConfig:
    """`oauth`: how `toolatlas servers login` logs in to the server."""
    given = reader.mapping("oauth")
    for key in given:
        if key not in OAUTH_KEYS:
            reader.warnings.append(f"unknown key 'oauth.{key}' is ignored; there are {', '.join(OAUTH_KEYS)}")
    client_id, secret = (_text(reader, given, key) for key in ("client_id", "client_secret"))
    if secret and not client_id:
        reader.problems.append("'oauth.client_secret' needs 'oauth.client_id', which the entry does not have")
    scopes = given.get("scopes") or list[str]()
    return OAuthConfig(
        client_id=client_id or None,
        client_secret=secret or None,
        scopes=tuple(scopes.split()) if isinstance(scopes, str) else reader.strings("oauth.scopes", scopes),
        redirect_port=_port(reader, given.get("redirect_port")),
        allowed_origins=_origins(reader, given.get("allowed_origins") or list[str]()),
    )


def _text(reader: EntryReader, given: Mapping[str, object], key: str) -> str:
    value = given.get(key)
    return "" if value is None else reader.expanded(f"oauth.{key}", reader.scalar(f"oauth.{key}", value))


def _port(reader: EntryReader, given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given < 65536:
        return given
    reader.wrong("oauth.redirect_port", "a port from 1 to 65535", given)
    return 0


def _origins(reader: EntryReader, given: object) -> frozenset[str]:
    found: set[str] = set()
    for i, item in enumerate(reader.strings("oauth.allowed_origins", given)):
        key = f"oauth.allowed_origins[{i}]"
        text = reader.expanded(key, item).rstrip("/")
        try:
            url = httpx2.URL(text)
            whole = url.scheme in ("http", "https") and url.host and url.path in ("", "/") and not url.query
        except httpx2.InvalidURL:
            whole = False
        if whole:
            found.add(web_origin(text))
        else:
            reader.problems.append(f"'{key}' has to be an origin such as https://login.example.com, but is not")
    return frozenset(found)
