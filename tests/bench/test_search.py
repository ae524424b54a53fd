"""The search bench: what it counts as found, on catalogues where the answer is known."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.measure import Missing
from bench.search import add_arguments, measure, run, table
from bench.targets.gateway import write_catalog
from bench.targets.invented import invented_rows


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return write_catalog(tmp_path, invented_rows(servers=6, tools=30))


def tasks(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_words_out_of_descriptions_lead_back_to_most_tools(catalog: Path) -> None:
    result = measure(catalog, None)
    assert (result["catalog"], result["servers"], result["tools"]) == ("catalog.jsonl", 6, 30)
    assert isinstance(result["queries"], int)
    assert 0 < result["queries"] <= 30
    assert isinstance(result["found_at_5"], float)
    assert 0.3 < result["found_at_5"] <= 1
    assert "tool_recall_at_10" not in result


def test_the_drawn_queries_are_always_the_same(catalog: Path) -> None:
    first, second = measure(catalog, None), measure(catalog, None)
    assert [first[key] for key in ("queries", "found_at_5")] == [second[key] for key in ("queries", "found_at_5")]


def test_recall_is_the_share_of_what_a_task_needs(catalog: Path, tmp_path: Path) -> None:
    queries = tasks(
        tmp_path,
        {
            "text": "weather forecast",
            "needed_servers": ["weather", "gone"],
            "needed_tools": ["weather:get_forecast", "gone:none"],
        },
        {"text": "weather forecast", "needed_servers": ["weather"], "needed_tools": ["weather:get_forecast"]},
        {"text": "zzzz", "needed_servers": ["weather"], "needed_tools": []},
        {"text": "of no known need"},
    )
    result = measure(catalog, queries)
    assert result["queries"] == 4
    assert result["server_recall_at_5"] == 0.5  # a half, all and none
    assert result["tool_recall_at_10"] == 0.75
    assert "found_at_5" not in result


def test_tasks_without_known_needs_give_no_recall(catalog: Path, tmp_path: Path) -> None:
    result = measure(catalog, tasks(tmp_path, {"text": "weather"}))
    assert not {"server_recall_at_5", "tool_recall_at_10", "found_at_5"} & set(result)


@pytest.mark.parametrize("option", ["--catalog", "--queries"])
def test_a_file_that_is_not_there_is_named(catalog: Path, option: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(Missing, match=r"no file /nowhere\.jsonl"):
        run(parser.parse_args(["--catalog", str(catalog), option, "/nowhere.jsonl"]))


def test_the_command_prints_a_table_and_writes_json(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "search.json"
    assert main(["search", "--catalog", str(catalog), "--json", str(out)]) == 0
    result = json.loads(out.read_text("utf-8"))
    assert result["tools"] == 30
    printed = capsys.readouterr().out
    assert "found at 5" in printed
    assert table(result) in printed
