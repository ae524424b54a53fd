"""What code gets of a result: the value that the server meant, exactly, and never base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.sandbox.base import Reply
from proxy.sandbox.values import reply_of

SCHEMA = {"type": "object", "properties": {"celsius": {"type": "number"}}}
WRAPPING = {"type": "object", "properties": {"result": {}}, "x-fastmcp-wrap-result": True}
PNG = base64.b64encode(bytes(range(70))).decode()


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def reply(
    *content: Any,
    schema: Mapping[str, Any] | None = None,
    most: int = 1_000,
    kept: list[Any] | None = None,
    **more: Any,
) -> Reply:
    kept = [] if kept is None else kept

    def keep(item: Mapping[str, Any]) -> str:
        kept.append(item)
        return f"a_{len(kept)}"

    return reply_of("srv.tool", {"content": list(content), **more}, schema, most, keep)


def value(*content: Any, **more: Any) -> Any:
    answer = reply(*content, **more)
    assert answer.ok, answer
    return answer.value


def test_structured_content_is_the_value() -> None:
    assert value(text("21.5 degrees"), structuredContent={"celsius": 21.5}) == {"celsius": 21.5}
    assert value(text("none"), structuredContent={"celsius": None}, schema=SCHEMA) == {"celsius": None}


@pytest.mark.parametrize("inner", [[1, 2], "text", None, {"result": 1}, 0])
def test_a_wrapped_result_is_unwrapped_where_the_schema_says_that_it_is_wrapped(inner: Any) -> None:
    assert value(structuredContent={"result": inner}, schema=WRAPPING) == inner
    assert value(structuredContent={"result": inner}, schema=SCHEMA) == {"result": inner}
    assert value(structuredContent={"result": inner}) == {"result": inner}


def test_more_than_a_wrapped_result_is_not_unwrapped() -> None:
    both = {"result": 1, "next": 2}
    assert value(structuredContent=both, schema=WRAPPING) == both


def test_json_text_is_parsed_where_no_schema_describes_the_result() -> None:
    assert value(text('{"a": [1, null]}')) == {"a": [1, None]}
    assert value(text("\n [1, 2]")) == [1, 2]
    assert value(text('{"a": 1}'), schema=SCHEMA) == '{"a": 1}'


@pytest.mark.parametrize(
    "words",
    ["", "3", "true", "null", '"quoted"', "{not json", "[1, 2", "[NaN]", "[1e400]", '["\\ud800"]', "[" * 100_000],
)
def test_other_text_stays_text(words: str) -> None:
    assert value(text(words), most=1_000_000) == words


@pytest.mark.parametrize(
    "exact", [2**53 + 1, -(10**400), 0.1, 1e-320, 1.7976931348623157e308, "Việt 😀 \u2028", "é" + "\u0301", {"": [[]]}]
)
def test_values_are_exact(exact: Any) -> None:
    assert value(structuredContent={"x": exact}) == {"x": exact}
    assert value(text(json.dumps({"x": exact}))) == {"x": exact}


def test_several_blocks_are_a_list_and_none_is_none() -> None:
    assert value(text('{"id": 1}'), text("two")) == [{"id": 1}, "two"]
    assert value() is None


def test_an_image_is_a_handle_and_its_bytes_stay_outside() -> None:
    kept: list[Any] = []
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert value(image, kept=kept) == {"mime": "image/png", "bytes": 70, "handle": "a_1"}
    assert kept == [image]
    sound = {"type": "audio", "data": PNG, "mimeType": "audio/wav"}
    both = value(text("a dot"), sound)
    assert both == ["a dot", {"mime": "audio/wav", "bytes": 70, "handle": "a_1"}]


def test_resources_are_small_dicts() -> None:
    words = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "words"}}
    assert value(words) == {"uri": "file:///a", "mime": "text/plain", "text": "words"}
    blob = {"type": "resource", "resource": {"uri": "file:///b", "blob": PNG}}
    assert value(blob) == {"uri": "file:///b", "mime": None, "bytes": 70, "handle": "a_1"}
    link = {"type": "resource_link", "uri": "file:///c", "name": "c"}
    assert value(link) == link


@pytest.mark.parametrize("odd", [7, None, {}, {"type": "image"}, {"type": "text", "text": 7}, {"type": "new", "x": 1}])
def test_content_of_no_known_kind_is_passed_as_it_is(odd: Any) -> None:
    assert value(odd) == odd


def test_a_failure_is_the_servers_text() -> None:
    failed = reply(text("The disk is full."), text("Free some."), isError=True)
    assert failed == Reply(ok=False, value="The disk is full.\nFree some.", tool="srv.tool")
    assert reply(isError=True).value == "srv.tool failed and did not say why"
    assert reply(isError=True, structuredContent={"code": 7}).value == '{"code": 7}'


def test_what_is_too_large_is_an_error_that_says_how_large() -> None:
    assert reply(text("x" * 98), most=100).ok
    large = reply(text("x" * 99), most=100)
    assert not large.ok
    assert "srv.tool has run" in large.value
    assert "101 bytes is larger than the 100" in large.value
    assert not reply(text("é" * 60), most=100).ok
