"""The routing bench: what it counts, on catalogues where the answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.measure import Missing
from bench.routed.figures import Answer, figures, servers_of
from bench.routed.tasks import Task, read_catalog, read_tasks, schema_tokens
from bench.targets.gateway import write_catalog
from bench.targets.invented import invented_rows
from proxy.router.adapters import Kind, save_adapter
from proxy.router.encoder import load_encoder
from proxy.router.language_model import load_language_model
from tests.fixtures.small_language_model import lora, save_small_model
from tests.proxy.router.encoders import tiny_bert


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return write_catalog(tmp_path, invented_rows(servers=6, tools=30))


def tasks(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def need(*names: str) -> frozenset[str]:
    return frozenset(names)


FORECAST = {
    "task_id": "one",
    "text": "What does the weather forecast say?",
    "needed_servers": ["weather"],
    "needed_tools": ["weather:get_forecast"],
}


def test_figures_are_counted_over_the_tasks_that_can_have_them() -> None:
    costs = {"a.x": 10, "a.y": 20, "b.x": 40, "c.x": 80}
    asked = [
        Task(task_id="1", text="", servers=(need("a"), need("b")), tools=(need("a.y"), need("b.x"))),
        Task(task_id="2", text="", servers=(need("c"),), tools=(need("c.x", "a.x"),)),
        Task(task_id="3", text="", servers=(need("gone"),), tools=(need("gone:tool"),)),
        Task(task_id="4", text="", servers=(), tools=()),
    ]
    answer = Answer(tools=["a.x", "a.y", "b.x"], servers=["a", "b"], ms=1)
    result = figures(asked, [answer] * 4, costs)
    assert result["server_recall@1"] == pytest.approx((0.5 + 0 + 0) / 3, abs=1e-4)
    assert result["server_recall@5"] == pytest.approx(1 / 3, abs=1e-4)
    assert result["all_needed@5"] == pytest.approx(1 / 3, abs=1e-4)
    assert result["tool_recall@5"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["mrr"] == pytest.approx((1 / 2 + 1 + 0) / 3, abs=1e-4)
    # The third needs what costs nothing that is known; all the others are found.
    assert result["tokens_until_all"] == (70 + 10) / 2
    assert result["tokens_oracle"] == (60 + 10) / 2
    assert (result["latency_p50_ms"], result["tasks"], result["tasks_that_never_find_all"]) == (1, 4, 0)
    low, high = result["intervals"]["server_recall@5"]
    assert 0 <= low < result["server_recall@5"] < high <= 1


def test_a_tool_that_is_never_found_costs_reading_everything() -> None:
    asked = [Task(task_id="1", text="", servers=(need("b"),), tools=(need("b.x"),))]
    result = figures(asked, [Answer(tools=["a.x"], servers=["a"], ms=1)], {"a.x": 10, "b.x": 40, "c.x": 80})
    assert (result["tokens_until_all"], result["tasks_that_never_find_all"]) == (130, 1)


def test_servers_stand_in_the_order_of_their_first_tools() -> None:
    assert servers_of(["a.x", "b.x", "a.y", "c.x"]) == ["a", "b", "c"]


def test_an_alternative_meets_a_need_and_replaces_a_server_that_it_replaces_whole(
    catalog: Path, tmp_path: Path
) -> None:
    known = read_catalog(catalog)
    names = [f"{tool.server}:{tool.name}" for tool in known.tools.values()]
    first, second = names[0], names[1]
    other = next(name for name in names if not name.startswith(first.partition(":")[0]))
    row = {
        "text": "x",
        "needed_servers": [first.partition(":")[0]],
        "needed_tools": [first],
        "alternatives": {first: [other]},
    }
    (one,) = read_tasks(tasks(tmp_path, row), known).tasks
    written = {f"{tool.server}:{tool.name}": tool.written for tool in known.tools.values()}
    assert one.tools == (need(written[first], written[other]),)
    assert one.servers == (need(*(written[name].partition(".")[0] for name in (first, other))),)
    (two,) = read_tasks(tasks(tmp_path, {**row, "needed_tools": [first, second]}), known).tasks
    assert two.servers == (need(written[first].partition(".")[0]),)


def test_what_the_catalogue_lacks_is_said_and_counts_as_not_found(catalog: Path, tmp_path: Path) -> None:
    gone = {"text": "x", "needed_servers": ["weather", "gone"], "needed_tools": ["gone:tool"]}
    read = read_tasks(tasks(tmp_path, FORECAST, gone, {"text": "of no known need"}), read_catalog(catalog))
    assert read.tasks[1].servers == (need("weather"), need("gone"))
    assert [note.partition(": ")[0] for note in read.notes] == [
        "1 needed servers are not in the catalogue and count as not found",
        "1 of 3 tasks name no servers that they need, and count for no figure of servers",
        "1 needed tools are not in the catalogue and count as not found",
        "1 of 3 tasks name no tools that they need, and count for no figure of tools",
    ]


def test_a_short_query_is_the_longest_line_and_has_no_more_than_thirty_words() -> None:
    assert Task(task_id="1", text="hi\nfind me this file\nbye", servers=(), tools=()).short == "find me this file"
    assert len(Task(task_id="1", text="word " * 50, servers=(), tools=()).short.split()) == 30
    assert Task(task_id="1", text="", servers=(), tools=()).short == ""


def test_the_command_prints_a_table_and_writes_one_object_for_each_router(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "routing.json", tasks(tmp_path, FORECAST)
    command = ["routing", "--catalog", str(catalog), "--tasks", str(file), "--router", "lexical", "--json", str(out)]
    assert main([*command, "--embeddings", str(tmp_path / "embeddings.sqlite")]) == 0
    result = json.loads(out.read_text("utf-8"))
    (row,) = result["routers"]
    assert (row["router"], row["catalog"], row["server_recall@5"], row["tool_recall@10"]) == (
        *("lexical", "catalog.jsonl"),
        *(1, 1),
    )
    assert row["tokens_oracle"] <= row["tokens_until_all"] < sum(schema_tokens(read_catalog(catalog)).values())
    assert {"server_recall@1", "tool_recall@20", "mrr", "latency_p95_ms"} <= row["intervals"].keys()
    assert "server recall@5" in capsys.readouterr().out


def test_a_language_model_reorders_what_the_fusion_finds_and_is_measured_like_all_others(
    catalog: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="a light installation loads no model")
    out, file = tmp_path / "routing.json", tasks(tmp_path, FORECAST)
    model, encoder = save_small_model(tmp_path / "small"), tiny_bert(tmp_path / "tiny")
    command = ["routing", "--catalog", str(catalog), "--tasks", str(file), "--json", str(out)]
    with_models = ["--router", f"slm:{model}", "fused", "--encoder", str(encoder)]
    assert main([*command, *with_models, "--embeddings", str(tmp_path / "embeddings.sqlite")]) == 0
    slm, fused = json.loads(out.read_text("utf-8"))["routers"]
    assert (slm["router"], fused["router"]) == (f"slm:{model}", "fused")
    assert slm.keys() == fused.keys()
    # All 30 tools are candidates, and found in some order.
    assert slm["tasks_that_never_find_all"] == 0
    assert slm["mrr"] > 0


def test_an_adapter_is_named_by_the_beginning_of_its_hash(
    catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="a light installation loads no model")
    out, file, encoder = tmp_path / "routing.json", tasks(tmp_path, FORECAST), tiny_bert(tmp_path / "tiny")
    base = load_encoder(str(encoder))
    head = np.zeros((base.width, base.width), dtype=np.float32)
    made = save_adapter(tmp_path / "made", base_hash=base.hash, servers=["weather"], head=head)
    (tmp_path / "adapters").mkdir()
    made.folder.rename(tmp_path / "adapters" / made.hash)
    monkeypatch.setenv("TOOLATLAS_ADAPTERS", str(tmp_path / "adapters"))
    command = ["routing", "--catalog", str(catalog), "--tasks", str(file), "--encoder", str(encoder)]
    command += ["--embeddings", str(tmp_path / "embeddings.sqlite"), "--json", str(out)]
    assert main([*command, "--router", "fused", f"adapter:{made.hash[:8]}"]) == 0
    fused, adapter = json.loads(out.read_text("utf-8"))["routers"]
    assert adapter["router"] == f"adapter:{made.hash[:8]}"
    assert adapter["mrr"] == fused["mrr"]
    assert main([*command, "--router", "adapter:nothing"]) == 2
    assert "0 adapters in" in capsys.readouterr().err


# peft asks transformers for something under its old name.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_a_scorer_brings_the_name_of_its_model_or_has_to_be_told_it(
    catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("peft", reason="a light installation has no LoRA")
    out, file = tmp_path / "routing.json", tasks(tmp_path, FORECAST)
    model, encoder = save_small_model(tmp_path / "small"), tiny_bert(tmp_path / "tiny")
    base = load_language_model(model)
    for name, facts in (("told", {"config": {"language_model": model}}), ("untold", {})):
        layers = lora(base.model, 1, task_type="CAUSAL_LM")
        made = {"base_hash": base.hash, "servers": ["weather"], "kind": Kind.SCORER, "facts": facts}
        save_adapter(tmp_path / name, lora=layers, **made)
    told, untold = tmp_path / "told", tmp_path / "untold"
    command = ["routing", "--catalog", str(catalog), "--tasks", str(file), "--encoder", str(encoder)]
    command += ["--embeddings", str(tmp_path / "embeddings.sqlite"), "--json", str(out)]
    assert main([*command, "--router", f"adapter:{told}", f"slm:{model}#{untold}"]) == 0
    one, other = json.loads(out.read_text("utf-8"))["routers"]
    assert (one["router"], other["router"]) == (f"adapter:{told}", f"slm:{model}#{untold}")
    assert one["mrr"] == other["mrr"] > 0
    assert main([*command, "--router", f"adapter:{untold}"]) == 2
    assert "does not say which model it is for; name it, slm:MODEL#" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("--router", "magic"), "there is no router magic"),
        (("--router", "slm"), "there is no router slm"),
        (("--router", "lexical:x"), "there is no router lexical:x"),
        (("--catalog", "/nowhere.jsonl"), "no file /nowhere.jsonl; --catalog"),
        (("--tasks", "/nowhere.jsonl"), "no file /nowhere.jsonl; --tasks"),
        (("--encoder", "/nowhere", "--router", "fused"), "/nowhere is no folder"),
    ],
)
def test_what_cannot_be_measured_is_named(
    changes: tuple[str, ...], said: str, catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tasks(tmp_path, FORECAST)
    command = ["routing", "--catalog", str(catalog), "--tasks", str(file), "--embeddings", str(tmp_path / "e.sqlite")]
    assert main([*command, *changes]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"text": 1}', '{"text": "x", "needed_tools": [1]}'])
def test_a_line_that_is_no_task_is_named(line: str, catalog: Path, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(FORECAST) + "\n" + line + "\n", "utf-8")
    with pytest.raises(Missing, match="line 2"):
        read_tasks(path, read_catalog(catalog))
