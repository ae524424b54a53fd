"""How to repair code that used a name which is not there, where that name is of a tool or looks like a server.

Above: running.py. Below: the catalogue. What is of the language itself, modules for instance, backends explain; where
one has given a hint, there is none here.
"""

from __future__ import annotations

import re

from proxy.catalog.argument_problems import nearest
from proxy.catalog.catalog import Catalog
from proxy.catalog.names import OWN_TOOLS
from proxy.errors import AgentError
from proxy.sandbox.base import Failure

HELPERS = ("servers", "help", "describe", "parallel", "ToolError")
"""What is bound in code beside the servers."""
_NO_NAME = re.compile(r"name '(\w{1,80})' is not defined")
_NO_ATTRIBUTE = re.compile(r"module '(\w{1,80})' has no attribute '")
_LIKE = 65
"""Similarity in percent from which on a name is suggested."""


def hint(failure: Failure, catalog: Catalog) -> str | None:
    """One line, or None where the message says it all. The message comes out of a sandbox: no word of it is obeyed."""
    if "\nHint: " in failure.traceback:
        return None
    if (taken := _NO_ATTRIBUTE.match(failure.message)) is not None and taken[1] in _servers(catalog):
        return (
            f"The name {taken[1]} is Python's module here, because the code imported it: import it under another name, "
            "and run with reset=true."
        )
    unknown = _NO_NAME.fullmatch(failure.message)
    if unknown is None:
        return None
    name = unknown[1]
    if name in OWN_TOOLS:
        return (
            f"{name} is not a function in code: servers(), help('server') and describe('server.tool') tell what there "
            "is, server.tool(name=value) calls it."
        )
    try:
        return f"Did you mean {catalog.tool(name).written}?"
    except AgentError:
        near = nearest(name, [*_servers(catalog), *HELPERS], _LIKE)
    return None if near is None else f"Did you mean {near}?"


def _servers(catalog: Catalog) -> list[str]:
    return [server.written for server in catalog.servers if server.withheld is None]
