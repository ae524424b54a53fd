"""`python -m bench routing`: how well routers find the servers and tools of tasks, what that costs, and how fast.

Every router is asked the raw text of every task, on one thread, and then a query of at most 30 words made from it.
`--served` adds the running gateway, and the latency of others while its router is busy; `--cut` tells instead how many
tools a search shows, and what that costs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import ROOT, SHARED, Missing, percentile
from bench.routed import cut
from bench.routed.figures import Answer, figures, servers_of
from bench.routed.tasks import Task, read_catalog, read_tasks, schema_tokens
from proxy.catalog.catalog import Catalog
from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind, load_adapter
from proxy.router.base import Query, Router
from proxy.router.documents import all_documents
from proxy.router.embeddings import EmbeddingCache, embed, missing
from proxy.router.encoder import DEFAULT_ENCODER, Encoder, load_encoder
from proxy.router.fusion import FusedRouter
from proxy.router.lexical import LexicalRouter
from proxy.settings import Folders
from trainer.evaluation.alone import EncoderRouter

NAME = "routing"
DATA = SHARED / "data"
DEFAULT_CATALOGS = (DATA / "catalog_mcpbench.jsonl", DATA / "catalog_large.jsonl")
DEFAULT_TASKS = DATA / "tasks_mcpbench.jsonl"
DEFAULT_ROUTERS = ("lexical", "encoder", "fused")
SHOWN = 10
"""Tools of an answer whose latency is taken: as many as agents ask for."""
BUDGET_MS = 150.0
"""Of the gateway's router: how many tasks stay within it is counted."""
EMBEDDINGS = ROOT / "bench" / "out" / "embeddings.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What routers are made of; the encoder is loaded when the first one needs it."""

    catalog: Catalog
    encoder: Callable[[], Encoder]
    cache: EmbeddingCache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--catalog", type=Path, nargs="+", action="extend", help="JSON lines, one tool a line; each file is measured"
    )
    parser.add_argument(
        "--tasks", type=Path, default=DEFAULT_TASKS, help="JSON lines: text, needed_servers, needed_tools"
    )
    parser.add_argument(
        "--router",
        nargs="+",
        action="extend",
        help="lexical, encoder, fused, slm:MODEL, adapter:ID (or folder), slm:MODEL#ID; the first three by default",
    )
    parser.add_argument("--encoder", default=DEFAULT_ENCODER, help="name or folder of a transformers encoder")
    parser.add_argument("--embeddings", type=Path, default=EMBEDDINGS, help="file in which vectors are kept")
    parser.add_argument("--cut", action="store_true", help="only how many tools a search shows, and what that costs")
    parser.add_argument("--served", action="store_true", help="also measure the running gateway, and what others wait")


def run(args: argparse.Namespace) -> dict[str, object]:
    catalogs: list[Path] = args.catalog or list(DEFAULT_CATALOGS)
    routers: list[str] = list(dict.fromkeys(args.router or DEFAULT_ROUTERS))
    args.embeddings.parent.mkdir(parents=True, exist_ok=True)
    cache = EmbeddingCache(args.embeddings)
    encoder = _once(lambda: _on_one_thread(args.encoder))
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    facts: list[dict[str, Any]] = []
    try:
        for path in catalogs:
            catalog = read_catalog(path)
            tasks = read_tasks(args.tasks, catalog)
            notes += [f"{path.name}: {note}" for note in tasks.notes]
            parts = Parts(catalog=catalog, encoder=encoder, cache=cache)
            facts.append({"catalog": path.name, "servers": len(catalog.servers), "tools": len(catalog.tools)})
            if any(name != "lexical" for name in routers):
                facts[-1] |= _embedded(parts)
            costs = schema_tokens(catalog)
            for name in routers:
                if args.cut:
                    of_router = cut.measure(build(name, parts), tasks.tasks)
                else:
                    of_router = measure(name, parts, tasks.tasks, costs)
                rows.append({"router": name, "catalog": path.name, **of_router})
            if args.served:
                # Only these two need a gateway, and only they are measured with one.
                served = importlib.import_module("bench.routed.served")
                rows.append({"router": "served", "catalog": path.name, **served.measure(path, tasks.tasks, costs)})
        result: dict[str, object] = {"tasks": args.tasks.name, "catalogs": facts, "routers": rows, "notes": notes}
        if args.served:
            result["latency"] = importlib.import_module("bench.routed.latency").measure(catalogs[-1], args.tasks)
    except ConfigurationError as error:
        raise Missing(str(error)) from error
    finally:
        cache.close()
    return result


def measure(name: str, parts: Parts, tasks: Sequence[Task], costs: Mapping[str, int]) -> dict[str, Any]:
    """One router's figures over one catalogue."""
    start = time.perf_counter()
    router = build(name, parts)
    build_s = time.perf_counter() - start
    router.rank(Query("warm up"), SHOWN)
    # Before the answers: what is read once is remembered.
    long = [_timed(router, task.text) for task in tasks]
    short = [_timed(router, task.short) for task in tasks]
    answers = [_answer(router, task, len(parts.catalog.tools), took.ms) for task, took in zip(tasks, long, strict=True)]
    return {
        **figures(tasks, answers, costs),
        **{f"cpu_p{share}_ms": _percentile([each.cpu_ms for each in long], share) for share in (50, 95)},
        "within_budget": round(fmean(each.ms <= BUDGET_MS for each in long), 4),
        "within_budget_of_cpu": round(fmean(each.cpu_ms <= BUDGET_MS for each in long), 4),
        **{f"short_latency_p{share}_ms": _percentile([each.ms for each in short], share) for share in (50, 95)},
        **{f"short_cpu_p{share}_ms": _percentile([each.cpu_ms for each in short], share) for share in (50, 95)},
        "build_s": round(build_s, 3),
    }


def build(name: str, parts: Parts) -> Router:
    """The router of that name, as `--router` takes it.

    Raises:
        Missing: There is no such router.
        ConfigurationError: A package or an adapter that it needs is not there.
    """
    kind, _, argument = name.partition(":")
    servers = parts.catalog.servers
    match kind, bool(argument):
        case "lexical", False:
            return LexicalRouter(servers)
        case "encoder", False:
            return EncoderRouter(servers, parts.encoder(), parts.cache)
        case "fused", False:
            return FusedRouter(servers, parts.encoder(), parts.cache)
        case "adapter", True:
            adapter = adapter_named(argument)
            if adapter.kind is Kind.SCORER:
                return _reordered(parts, _trained_on(adapter), adapter)
            return FusedRouter(servers, parts.encoder(), parts.cache, adapter)
        case "slm", True:
            model, _, scorer = argument.partition("#")
            return _reordered(parts, model, adapter_named(scorer) if scorer else None)
        case _:
            raise Missing(
                f"there is no router {name}; there are lexical, encoder, fused, slm:MODEL[#ID] and adapter:ID"
            )


def _reordered(parts: Parts, model: str, adapter: Adapter | None) -> Router:
    language = importlib.import_module("proxy.router.language")
    fused = FusedRouter(parts.catalog.servers, parts.encoder(), parts.cache)
    return language.LanguageRouter(fused, parts.catalog.servers, model, adapter=adapter)


def _trained_on(scorer: Adapter) -> str:
    """What the settings of its training call its model; whether it still is that one, its hash tells."""
    config: Mapping[str, Any] = scorer.facts.get("config") or {}
    if not isinstance(model := config.get("language_model"), str):
        raise Missing(f"{scorer.folder} does not say which model it is for; name it, slm:MODEL#{scorer.hash[:12]}")
    return model


def adapter_named(said: str) -> Adapter:
    """A folder, or the beginning of the hash of one in the folder of adapters, as the registry names it.

    Raises:
        Missing: There is none, or there are several.
        ConfigurationError: It cannot be read.
    """
    if Path(said).is_dir():
        return load_adapter(Path(said))
    given = os.environ.get("TOOLATLAS_ADAPTERS")
    place = Path(given).expanduser() if given else Folders.from_environment(os.environ).state_dir / "adapters"
    found = sorted(place.glob(f"{said}*")) if said.isalnum() else []
    if len(found) != 1:
        raise Missing(f"{len(found)} adapters in {place} begin with {said}; `toolatlas adapters list` shows them")
    return load_adapter(found[0])


def table(result: Mapping[str, Any]) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        for facts in result["catalogs"]:
            rows = Table(title=f"routing: {facts['catalog']}, {facts['servers']} servers, {facts['tools']} tools")
            own = [row for row in result["routers"] if row["catalog"] == facts["catalog"]]
            rows.add_column("")
            for row in own:
                rows.add_column(row["router"], justify="right")
            for key in _keys(own):
                rows.add_row(key.replace("_", " "), *[_cell(row, key) for row in own])
            console.print(rows)
        for facts in result["catalogs"]:
            if "embedded" in facts:
                console.print(f"{facts['catalog']}: {facts['embedded']} texts embedded in {facts['embedding_s']} s")
        if "latency" in result:
            console.print(importlib.import_module("bench.routed.latency").table(result["latency"]))
        for note in result["notes"]:
            console.print(note, markup=False)
    return captured.get().rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How long an answer took, and how much of a processor; on a machine with other work only the second is ours."""

    ms: float
    cpu_ms: float


def _timed(router: Router, text: str) -> Took:
    start, cpu = time.perf_counter(), time.thread_time()
    router.rank(Query(text), SHOWN)
    return Took(ms=(time.perf_counter() - start) * 1000, cpu_ms=(time.thread_time() - cpu) * 1000)


def _answer(router: Router, task: Task, everything: int, ms: float) -> Answer:
    query = Query(task.text)
    tools = [ranked.tool for ranked in router.rank(query, everything)]
    servers = router.rank_servers(query, everything) if isinstance(router, FusedRouter) else servers_of(tools)
    return Answer(tools=tools, servers=servers, ms=ms)


def _percentile(values: Sequence[float], share: int) -> float:
    return round(percentile(values, share / 100), 2)


def _embedded(parts: Parts) -> dict[str, Any]:
    """Embed what is new, and say how much that was."""
    encoder = parts.encoder()
    lacking = missing(encoder, parts.cache, all_documents(parts.catalog.servers))
    start = time.perf_counter()
    embed(encoder, parts.cache, lacking)
    return {"embedded": len(lacking), "embedding_s": round(time.perf_counter() - start, 1)}


def _on_one_thread(name: str) -> Encoder:
    encoder = load_encoder(name)
    import torch

    torch.set_num_threads(1)  # As the gateway's router has.
    return encoder


def _once(make: Callable[[], Encoder]) -> Callable[[], Encoder]:
    made: list[Encoder] = []

    def get() -> Encoder:
        if not made:
            made.append(make())
        return made[0]

    return get


def _keys(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    left_out = {"router", "catalog", "intervals"}
    return list(dict.fromkeys(key for row in rows for key in row if key not in left_out))


def _cell(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if value is None:
        return "-"
    text = _number(value)
    if key in row["intervals"]:
        low, high = row["intervals"][key]
        text += f" [{_number(low)}, {_number(high)}]"
    return text


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
