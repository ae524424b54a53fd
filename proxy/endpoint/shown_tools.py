"""Tool objects as agents are shown them where they see a server's own tools: in `direct` mode and at `/mcp/{server}`.

Above: modes.py. Below: plain_schema.py. One tool that a client does not take can cost that client the whole list, so
its object is mended: in `direct` mode for what any known client refuses, in pass-through only where it is no valid MCP
(docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proxy.catalog.catalog import Catalog
from proxy.catalog.schema_reader import mapping, sequence
from proxy.endpoint.plain_schema import plain_schema, tidy_root

DESCRIPTION_BYTES = 2_000
"""Claude Code cuts a description at 2 KB, in silence."""
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class DirectTools:
    """The list of `direct` mode, made once for each catalogue."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._shown: tuple[Mapping[str, Any], ...] = ()

    def of(self, catalog: Catalog) -> list[Mapping[str, Any]]:
        """Tool objects in catalogue order. They are shared: not to be changed."""
        if self._catalog is not catalog:
            self._shown = tuple(direct(tool.raw, name) for name, tool in catalog.exposed.items())
            self._catalog = catalog
        return list(self._shown)


def direct(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A server's tool under the name `name`, as every known client takes it."""
    shown = {**_typed(raw), "name": name, "inputSchema": plain_schema(raw.get("inputSchema"))}
    # A client that knows it throws away an answer that does not keep to it, and no gateway can make servers keep it.
    shown.pop("outputSchema", None)
    if isinstance(description := shown.get("description"), str):
        shown["description"] = _cut(description)
    return shown


def passed_through(raw: Mapping[str, Any], modern: bool) -> Mapping[str, Any]:
    """A server's tool as it is, the very same object; mended where it is no valid tool of the agent's protocol era."""
    shown = dict(_typed(raw))
    schema = mapping(raw.get("inputSchema"))
    shown["inputSchema"] = {"type": "object"} if schema is None else tidy_root(schema)
    if "outputSchema" in raw:
        result = mapping(raw["outputSchema"])
        # Since 2026-07-28 results need not be objects.
        if result is None or (not modern and tidy_root(result) is not result):
            del shown["outputSchema"]
    unchanged = shown.keys() == raw.keys() and all(shown[key] is raw[key] for key in shown)
    return raw if unchanged else shown


def _typed(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """`raw` without the optional fields that have a type that typed clients refuse, null included."""
    wrong = {key for key, fits in _OPTIONAL.items() if key in raw and not fits(raw[key])}
    if "annotations" in wrong and (annotations := mapping(raw["annotations"])) is not None:
        kept = {key: value for key, value in annotations.items() if _fits_annotation(key, value)}
        return {key: kept if key == "annotations" else raw[key] for key in raw if key not in wrong - {"annotations"}}
    return {key: value for key, value in raw.items() if key not in wrong} if wrong else raw


def _fits_annotation(key: str, value: Any) -> bool:
    return isinstance(value, str if key == "title" else bool) if key in (*HINTS, "title") else True


def _are_icons(value: Any) -> bool:
    icons = [mapping(icon) for icon in sequence(value)]
    return isinstance(value, list) and all(icon is not None and isinstance(icon.get("src"), str) for icon in icons)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_annotations(value: Any) -> bool:
    annotations = mapping(value)
    return annotations is not None and all(_fits_annotation(key, each) for key, each in annotations.items())


_OPTIONAL: Mapping[str, Callable[[Any], bool]] = {
    "title": _is_text,
    "description": _is_text,
    "annotations": _are_annotations,
    "icons": _are_icons,
    "execution": _is_object,
    "_meta": _is_object,
}


def _cut(description: str) -> str:
    """At most about 2 KB of it, and that it was cut."""
    data = description.encode("utf-8", "surrogatepass")
    if len(data) <= DESCRIPTION_BYTES:
        return description
    note = f"… [cut by toolatlas; {len(description):,} characters in all]"
    return data[: DESCRIPTION_BYTES - len(note.encode())].decode("utf-8", "ignore").rstrip() + note
