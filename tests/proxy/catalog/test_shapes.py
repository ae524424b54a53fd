"""What is learned of results: their form, merged over many; one example without secrets; kept over restarts."""

from __future__ import annotations

import ast
import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.catalog.learning import MAX_CHARS, merged, observed, written
from proxy.catalog.records import ToolRecord
from proxy.catalog.redaction import EXAMPLE_CHARS, example_of, size_of
from proxy.catalog.shapes import SETTLED, Shapes, described

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)
ISSUE = {"id": 7, "title": "Broken", "labels": ["bug"], "closed": None}


def tool(name: str = "list_issues", **more: Any) -> ToolRecord:
    raw = {"name": name, "description": "Lists issues.", "inputSchema": {"type": "object"}, **more}
    return ToolRecord("tracker", name, f"tracker.{name}", raw)


def form(*values: Any) -> str:
    schema = observed(values[0])
    for value in values[1:]:
        schema = merged(schema, observed(value))
    return written(schema, 1_000)


async def saved(shapes: Shapes) -> None:
    """What is done at the end of a gateway."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shapes.save_changes)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["text"], "str"),
        ([1], "int"),
        ([True], "bool"),
        ([1, 2.5], "float"),
        ([1, "x", None], "int | str | None"),
        ([[]], "list"),
        ([[], [1]], "list[int]"),
        ([[1, "x"]], "list[int | str]"),
        ([{}], "dict"),
        ([ISSUE], "{id: int, title: str, labels: list[str], closed: None}"),
        ([[{"id": 1}, {"id": 2, "note": "x"}]], "list[{id: int, note?: str}]"),
        ([{"id": 1, "a": 1}, {"id": "x", "b": None}], "{id: int | str, a?: int, b?: None}"),
        ([{"id": 1}, "none found"], "{id: int} | str"),
        ([{"id": 1}, [1]], "list[int] | {id: int}"),
        ([{"not a name": 1}], "{'not a name': int}"),
        ([{f"k{i}": i for i in range(60)}], "dict[str, int]"),
        ([{"2026-11-30": {"n": 1}, "2026-12-01": {"n": 2}}], "dict[str, {n: int}]"),
        ([{"ann@example.com": 1}], "dict[str, int]"),
        ([{name: {"age": 3} for name in ("Ann", "Bob", "Cem", "Dot", "Eve")}], "dict[str, {age: int}]"),
        ([{"a": 1}, {"2026-11-30": 2}], "dict[str, int]"),
    ],
)
def test_forms(values: list[Any], expected: str) -> None:
    assert form(*values) == expected


def test_many_fields_over_many_results_become_a_mapping() -> None:
    assert form(*({f"k{i}": 1} for i in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) == "dict[str, int]"


@settings(max_examples=150, deadline=None)
@given(JSON, JSON)
def test_any_two_values_have_a_small_form_that_is_the_same_again(first: Any, second: Any) -> None:
    total = merged(observed(first), observed(second))
    assert size_of(total) <= 2 * MAX_CHARS
    assert merged(total, observed(first)) == total
    assert merged(total, observed(second)) == total
    example = example_of(first)
    assert example is None or (len(example) <= EXAMPLE_CHARS and json.loads(example) is not ...)
    shapes = Shapes(Path("/nonexistent"))
    shapes.learn(tool(), "x", first)
    shapes.learn(tool(), "x", second)
    ast.parse(described(tool(), shapes.of(tool(), "x")))


def test_a_huge_value_has_a_small_form() -> None:
    value = {
        f"f{chr(97 + i)}": {f"g{chr(97 + j)}": [{"deep": {"er": [i, {"x" * 40: j}]}}] for j in range(20)}
        for i in range(20)
    }
    assert size_of(observed(value)) <= MAX_CHARS
    assert form(value).startswith("{fa: dict, fb: dict")


@pytest.mark.parametrize(
    "secret",
    [
        "hunter2",
        "correct horse battery",
    ],
)
@pytest.mark.parametrize(
    "key",
    ["password", "user_password", "apiKey", "API-KEY", "accessToken", "client_secret", "Authorization", "set-cookie",
     "ssn", "auth", "oauth", "credentials", "private_key", "refreshToken", "cardNumber", "phone", "pin"],
)  # fmt: skip
def test_nothing_under_a_telling_key(key: str, secret: str) -> None:
    for value in ({key: secret}, {"a": [{key: {"inner": [secret]}}]}, {"name": key, "value": secret}):
        example = example_of(value)
        assert example is not None
        assert secret not in example
        assert "[redacted]" in example


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("write to ann.b+c@mail.example.com today", "ann.b+c@mail.example.com"),
        ("key sk-proj-abcdefghijklmnop", "abcdefghijklmnop"),
        ("ghp_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ", "ghp_abcdefghij"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "K7MDENG"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJzdWIi"),
        ("Authorization: Bearer abc.def", "abc.def"),
        ('{"password": "hunter2"}', "hunter2"),
        ("DB_PASSWORD=hunter2 rest", "hunter2"),
        ("https://ann:hunter2@example.com/path", "hunter2"),
        ("https://example.com/path?sig=hunter2", "hunter2"),
        ("https://hooks.example.com/services/T00/B00/XXabcdefgh1234567890XX", "XXabcdefgh1234567890XX"),
        ("550e8400-e29b-41d4-a716-446655440000", "41d4"),
        ("d41d8cd98f00b204e9800998ecf8427e", "d41d8cd9"),
        ("card 4111 1111 1111 1111", "1111"),
        ("call +49 (170) 1234567", "1234567"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow", "MIIEow"),
        ("a" * 7_000 + " hunter2-abcdef", "hunter2"),
    ],
)
def test_no_secret_within_a_text(text: str, secret: str) -> None:
    for value in (text, [text], {"note": text}, {"note": {"body": text}}):
        example = example_of(value)
        assert example is not None
        assert secret not in example


@pytest.mark.parametrize(
    "text",
    ["Fix the build on Windows", "2026-11-30T08:30:59+01:00", "2026-11-30 08:30", "src/proxy/catalog/shapes.py", "1.20",
     "/usr/lib/python3/dist-packages", "author", "README.md", "https://example.com/docs/index.html", "Straße 12"],
)  # fmt: skip
def test_what_is_harmless_stays(text: str) -> None:
    assert example_of({"author": text}) == json.dumps({"author": text}, ensure_ascii=False)


def test_an_example_is_short_and_says_what_it_left_out() -> None:
    example = example_of(
        [{"id": n, "body": "word " * 500, **{f"field{i}": i for i in "abcdefghij"}} for n in range(100)]
    )
    assert example is not None
    assert len(example) <= EXAMPLE_CHARS
    assert example.startswith('[{"id": 0, "body": "word word')
    assert example.endswith('"…"]')


def test_numbers_that_tell_too_much_are_left_out() -> None:
    assert example_of({"n": 4111111111111111, "m": 5, "f": 2.5}) == '{"n": 0, "m": 5, "f": 2.5}'


def test_a_description_shows_the_form_and_an_example() -> None:
    shapes = Shapes(Path("/nonexistent"))
    shapes.learn(tool(), "x", [ISSUE])
    shapes.learn(tool(), "x", [{**ISSUE, "closed": "2026-11-30"}, {"id": 8, "title": "More", "labels": []}])
    text = described(tool(), shapes.of(tool(), "x"))
    ast.parse(text)
    assert "def list_issues() -> list[ListIssuesResult]:" in text
    assert "    title: str" in text
    assert "    closed: NotRequired[None | str]" in text
    assert text.endswith(
        "# Return type: learned from results, may vary; for instance "
        '[{"id": 7, "title": "Broken", "labels": ["bug"], "closed": "2026-11-30"}, "…"]'
    )
    assert described(tool(), None) == described(tool(), Shapes(Path("/nonexistent")).of(tool(), "x"))


def test_a_server_cannot_break_out_of_the_description() -> None:
    shapes = Shapes(Path("/nonexistent"))
    shapes.learn(tool(), "x", {'"""\nimport os': "\n\u202eevil\x1b[2J", "ok": "line\nbreak\u2028x"})
    text = described(tool(), shapes.of(tool(), "x"))
    tree = ast.parse(text)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert text.splitlines()[-1].startswith("# Return type")


def test_tools_with_an_output_schema_are_not_learned() -> None:
    shapes = Shapes(Path("/nonexistent"))
    declared = tool(outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}})
    shapes.learn(declared, "x", {"n": 1})
    assert shapes.of(declared, "x") is None
    assert "for instance" not in described(declared, None)


def test_what_is_no_json_does_no_harm() -> None:
    shapes = Shapes(Path("/nonexistent"))
    circle: list[Any] = []
    circle.append(circle)
    shapes.learn(tool(), "x", circle)
    shapes.learn(tool("other"), "x", {"a": object()})
    circular, odd = shapes.of(tool(), "x"), shapes.of(tool("other"), "x")
    assert circular is not None
    assert circular.type.startswith("list[list[")
    assert odd is not None
    assert (odd.type, odd.example) == ("{a: Any}", '{"a": "object"}')
    ast.parse(described(tool("other"), odd))


def test_a_settled_form_is_looked_at_now_and_then() -> None:
    shapes = Shapes(Path("/nonexistent"))
    for _ in range(SETTLED + 1):
        shapes.learn(tool(), "x", {"id": 1})
    for _ in range(SETTLED):
        shapes.learn(tool(), "x", {"id": 1, "late": True})
    shape = shapes.of(tool(), "x")
    assert shape is not None
    assert shape.type == "{id: int, late?: bool}"


@pytest.mark.anyio
async def test_kept_over_a_restart_for_its_owner_only(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path / "shapes")
    shapes.learn(tool(), "abc", [ISSUE])
    assert not (tmp_path / "shapes").exists()
    await saved(shapes)
    (file,) = (tmp_path / "shapes").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    again = Shapes(tmp_path / "shapes")
    assert again.of(tool(), "abc") == shapes.of(tool(), "abc")
    assert again.of(tool(), "another server") is None


@pytest.mark.anyio
async def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path)
    shapes.learn(tool(), "abc", [ISSUE])
    await saved(shapes)
    (tmp_path / "abc.json").unlink()
    shapes.learn(tool(), "abc", [{**ISSUE, "id": 9}])
    await saved(shapes)
    assert not (tmp_path / "abc.json").exists()


@pytest.mark.anyio
async def test_a_changed_definition_is_learned_anew(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path)
    shapes.learn(tool(), "abc", [ISSUE])
    await saved(shapes)
    for each in (shapes, Shapes(tmp_path)):
        changed = tool(description="Lists other things.")
        assert each.of(changed, "abc") is None
        each.learn(changed, "abc", "text")
        shape = each.of(changed, "abc")
        assert shape is not None
        assert shape.type == "str"
        assert each.of(tool(), "abc") is None
    icons = tool(icons=[{"src": "x"}], _meta={"n": 1})
    fresh = Shapes(tmp_path)
    assert fresh.of(icons, "abc") is not None


@pytest.mark.anyio
@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "\0", '{"version": 9}', '{"version": 1}', '{"version": 1, "tools": {"a": 3}}'),
        '{"version": 1, "tools": {"t": {"definition": "x", "schema": {"type": 3}, "example": null}}}',
    ],
)
async def test_a_damaged_file_is_made_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "abc.json").write_text(content)
    shapes = Shapes(tmp_path)
    assert shapes.of(tool(), "abc") is None
    shapes.learn(tool(), "abc", [1])
    await saved(shapes)
    again = Shapes(tmp_path).of(tool(), "abc")
    assert again is not None
    assert again.type == "list[int]"


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    shapes = Shapes(tmp_path / "file")
    shapes.learn(tool(), "abc", [1])
    await saved(shapes)
    assert "cannot be kept on disk" in caplog.text


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("TypeError", "string indices must be integers, not 'str'"),
        ("TypeError", "list indices must be integers or slices, not str"),
        ("TypeError", "'int' object is not subscriptable"),
        ("TypeError", "'NoneType' object is not iterable"),
        ("AttributeError", "'str' object has no attribute 'get'"),
        ("AttributeError", "'list' object has no attribute 'items'"),
        ("KeyError", "'issues'"),
        ("IndexError", "list index out of range"),
    ],
)
def test_a_misused_result_gets_a_hint(kind: str, message: str) -> None:
    shapes = Shapes(Path("/nonexistent"))
    shapes.learn(tool(), "x", "3 issues: …")
    assert shapes.hint_for(tool(), "x", kind, message) == 'tracker.list_issues returns str, for instance "3 issues: …"'


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ZeroDivisionError", "division by zero"),
        ("TypeError", "f() missing 1 required positional argument: 'x'"),
        ("AttributeError", "module 'json' has no attribute 'load_all'"),
        ("ToolError", "no such issue"),
        ("NameError", "name 'x' is not defined"),
    ],
)
def test_other_exceptions_get_none(kind: str, message: str) -> None:
    shapes = Shapes(Path("/nonexistent"))
    shapes.learn(tool(), "x", "text")
    assert shapes.hint_for(tool(), "x", kind, message) is None


def test_hints_of_attributes_and_of_declared_types() -> None:
    shapes = Shapes(Path("/nonexistent"))
    message = "'dict' object has no attribute 'title'"
    shapes.learn(tool(), "x", {"title": "a"})
    hint = shapes.hint_for(tool(), "x", "AttributeError", message)
    assert hint is not None
    assert hint.endswith('; a dict, so ["title"] and not .title')
    declared = tool(outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert shapes.hint_for(declared, "x", "KeyError", "'m'") == "tracker.list_issues returns {n: int}"
    assert shapes.hint_for(tool("unknown"), "x", "KeyError", "'m'") is None


@pytest.mark.anyio
async def test_what_is_forgotten_while_it_is_written_does_not_come_back(tmp_path: Path) -> None:
    class Deleting(Shapes):
        """Something is deleted from the log just while a file is written."""

        def _write(self, identity: str, content: bytes) -> None:
            anyio.from_thread.run_sync(self.forget)
            super()._write(identity, content)

    shapes = Deleting(tmp_path)
    for identity in ("one", "two", "three"):
        shapes.learn(tool(), identity, ISSUE)
    with anyio.fail_after(20):
        await saved(shapes)
    assert os.listdir(tmp_path) == []
    assert shapes.of(tool(), "two") is None
