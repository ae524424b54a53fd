"""Stubs of thousands of tools at once: all valid, all leading back, and shorter than what they stand for.

`python -m bench stubs --catalog FILE` holds the same of real catalogues; here the catalogue is invented, and written as
the common schema generators write.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.stubs import MAX_SHARE, measure_rows, problems_of
from bench.targets.gateway import write_catalog
from bench.targets.invented import invented_rows
from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.records import Listing, ToolRecord
from proxy.catalog.stubs import stub

SPELLINGS = ("{}", "{}-", "{}.x", "{}/x", "2{}", "{} ü", "日本{}", "class", "None", "{}_", "_{}", "{}" * 30)
PARAMETERS = (
    "from",
    "class",
    "$filter",
    "a-b",
    "a_b",
    "a.b",
    "2nd",
    "größe",
    "self",
    "print",
    "ﬁ",
    "",
    "日期",
    "__debug__",
)


def generated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as schemas come out of pydantic, which titles every property and writes optional ones as unions."""
    for row in rows:
        schema = row["input_schema"]
        for name, node in schema["properties"].items():
            title = name.replace("_", " ").title()
            if name not in schema["required"]:
                kind = {key: node.pop(key) for key in ("type", "items", "enum", "format") if key in node}
                node |= {"anyOf": [kind, {"type": "null"}], "default": node.get("default")}
            node["title"] = title
        schema |= {"title": f"{row['tool']}Arguments", "$schema": "https://json-schema.org/draft/2020-12/schema"}
        schema["additionalProperties"] = False
    return rows


def misspelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows under names that are no identifiers, or that are alike but for what identifiers cannot hold."""
    for number, row in enumerate(rows):
        row["tool"] = SPELLINGS[number % len(SPELLINGS)].format(*[row["tool"]] * 30) + str(number // len(SPELLINGS))
        row["server"] = SPELLINGS[len(row["server"]) % 8].format(row["server"])
        schema = row["input_schema"]
        for offset in range(number % 5):
            name = PARAMETERS[(number + offset) % len(PARAMETERS)]
            schema["properties"][name] = {"type": "string", "description": f'{name} \\ """ {row["tool"]}'}
            schema["required"] = [*schema["required"], name]
    return rows


def test_stubs_of_5736_tools_are_valid_lead_back_and_are_short(tmp_path: Path) -> None:
    result = measure_rows(generated(invented_rows(804, 5_736)), tmp_path)
    assert result["problems"] == []
    assert (result["tools"], result["servers"], result["valid"]) == (5_736, 804, 5_736)
    assert isinstance(share := result["share_of_schema"], float)
    assert share <= MAX_SHARE


def test_names_that_are_no_identifiers_lead_back_too(tmp_path: Path) -> None:
    result = measure_rows(misspelled(invented_rows(84, 2_000)), tmp_path)
    assert result["problems"] == []
    assert result["valid"] == 2_000


@pytest.fixture
def known() -> Catalog:
    def tool(name: str) -> dict[str, Any]:
        return {"name": name, "inputSchema": {"type": "object", "properties": {"a-b": {"type": "string"}}}}

    return build_catalog([Source("s", "", Listing((tool("x"), tool("y")), "2025-11-25"))], lambda _server, _tool: None)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("def x(", "def y(", "does not end with the function s.x"),
        ("def x(", "import os\ndef x(", "more than classes before the function"),
        ("a_b:", "a_c:", "its parameters are not those that can be mapped back"),
        ("def x(", "def x((", "not Python"),
        ("def x(", "\0def x(", "not Python"),
    ],
)
def test_a_broken_stub_is_found(known: Catalog, before: str, after: str, problem: str) -> None:
    tool = known.tool("s.x")
    assert list(problems_of(stub(tool), tool, known)) == []
    (found,) = problems_of(stub(tool).replace(before, after), tool, known)
    assert found.startswith(problem)


def test_a_name_that_leads_elsewhere_is_found(known: Catalog) -> None:
    astray = ToolRecord("s", "x", "s.y", known.tool("s.y").raw)
    assert list(problems_of(stub(astray), astray, known)) == ["s.y leads to s: y"]


def test_the_command_says_what_is_missing_and_what_is_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stubs", "--catalog", str(tmp_path / "nowhere.jsonl")]) == 2
    assert "nowhere.jsonl; --catalog names another" in capsys.readouterr().err
    wordy = [{**row, "tool_description": "x" * 500, "input_schema": {}} for row in invented_rows(1, 3)]
    out = tmp_path / "stubs.json"
    assert main(["stubs", "--catalog", str(write_catalog(tmp_path, wordy)), "--json", str(out)]) == 1
    assert "more than 0.6" in json.loads(out.read_text())["failed"]
