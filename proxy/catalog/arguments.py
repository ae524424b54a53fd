"""Placeholder until the real module lands."""

from collections.abc import Mapping
from typing import Any

from proxy.catalog.records import ToolRecord


def understand(arguments: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    return dict(arguments or {})


class ArgumentChecker:
    def check(self, tool: ToolRecord, arguments: Mapping[str, Any]) -> None: ...
