"""`python -m bench learn`: what learning from traffic is worth. Traffic is simulated; rewards are the judge's alone.

`--quick` goes all the way once, as a user would: from an empty log through shadow and canary to an adapter that serves,
with a table of held-out tasks before and after. Without it, `--part` chooses among the full figures, in several seeds;
logs and trainings are kept in bench/out/learn, so that parts can be run one by one, and again.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.learned import parts
from bench.learned.figures import MAIN, compared, worths
from bench.learned.folds import by_task
from bench.learned.killing import killed
from bench.learned.kinds import kinds
from bench.learned.logs import Log, log_of
from bench.learned.remembering import RememberingEncoder
from bench.learned.serving import Amounts, all_the_way, training_tasks
from bench.learned.training import Bench
from bench.measure import ROOT, SHARED, Missing
from bench.routed.tasks import read_catalog, read_tasks
from bench.targets.catalog_server import rows_of
from bench.targets.gateway import write_catalog
from bench.traffic.poison import stuffed_rows
from proxy.catalog.catalog import Catalog
from proxy.errors import ConfigurationError
from proxy.router.adapters import load_adapter
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import DEFAULT_ENCODER, Encoder, load_encoder
from proxy.router.fusion import FusedRouter
from trainer.loop.running import Place
from trainer.promotion.sequential import SequentialSettings
from trainer.promotion.simulating import World, figures
from trainer.ranking.settings import RankingSettings
from trainer.settings import TrainingSettings

NAME = "learn"
DATA = SHARED / "data"
CATALOGS = (DATA / "catalog_large.jsonl", DATA / "catalog_mcpbench.jsonl")
TASKS = DATA / "tasks_mcpbench.jsonl"
OUT = ROOT / "bench" / "out" / "learn"
EMBEDDINGS = ROOT / "bench" / "out" / "embeddings.sqlite"
EPISODES = 1_250
"""Of a log: with a fifth of the tasks held out, about a thousand are trained on."""
POISONED = 1_000
POISON = 0.9
SEEDS = 3
QUICK_FOLDS = 4
"""Of `--quick`: one of them is held out."""
Part = Callable[[parts.Asked], Awaitable[dict[str, Any]]]
PARTS: Mapping[str, Part] = {
    "tasks": parts.held_out_tasks,
    "combinations": parts.unseen_combinations,
    "servers": parts.unseen_servers,
    "curve": parts.curve,
    "ablation": parts.ablation,
    "rubrics": parts.rubrics,
    "kinds": kinds,
}
OTHERS = ("poison", "kill", "sequential")
BOTH_CATALOGS = frozenset({"tasks", "servers"})
"""All others ask the first catalogue alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--catalog", type=Path, nargs="+", action="extend", help="JSON lines, one tool a line; --quick takes the first"
    )
    parser.add_argument("--tasks", type=Path, default=TASKS, help="JSON lines: text, needed_servers, needed_tools")
    parser.add_argument("--quick", action="store_true", help="once, one seed, one split, with a gateway that serves")
    parser.add_argument(
        "--part",
        nargs="+",
        action="extend",
        choices=(*PARTS, *OTHERS, "policy"),
        help="only these of the full figures",
    )
    parser.add_argument("--episodes", type=int, help="of each log (1,250), or to train on with --quick (500)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of the full figures (%(default)s)")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER, help="name or folder of a transformers encoder")
    parser.add_argument("--model", help="a causal model for the scorer of the part kinds; left out without it")
    parser.add_argument("--out", type=Path, default=OUT, help="where logs and trainings are kept")


def run(args: argparse.Namespace) -> dict[str, object]:
    args.catalog = args.catalog or list(CATALOGS)
    for path in (*args.catalog, args.tasks):
        if not path.is_file():
            raise Missing(f"there is no file {path}; --catalog and --tasks name others, of any servers and tasks")
    args.out.mkdir(parents=True, exist_ok=True)
    encoder = load_encoder(args.encoder)
    if not args.quick:
        encoder = RememberingEncoder(encoder)
    cache = EmbeddingCache(EMBEDDINGS)
    try:
        return asyncio.run(_quick(args, encoder, cache) if args.quick else _full(args, encoder, cache))
    except ConfigurationError as error:
        raise Missing(str(error)) from error
    finally:
        cache.close()


async def _quick(args: argparse.Namespace, encoder: Encoder, cache: EmbeddingCache) -> dict[str, object]:
    began = time.perf_counter()
    path: Path = args.catalog[0]
    catalog = read_catalog(path)
    tasks = [task for task in read_tasks(args.tasks, catalog).tasks if task.tools]
    held_out = by_task(tasks, 0, QUICK_FOLDS)[0]
    amounts = Amounts() if args.episodes is None else replace(Amounts(), training=args.episodes)
    with TemporaryDirectory(prefix="bench-learn-") as name:
        folder = Path(name)
        left = training_tasks(args.tasks, held_out, folder / "tasks.jsonl")
        place = Place(adapters=folder / "adapters", encoder=encoder, cache=cache, by="bench")
        place.adapters.mkdir()
        training = replace(TrainingSettings(), least_episodes=min(amounts.least, amounts.training))
        way = await all_the_way(folder, path, left, place, amounts=amounts, training=training, seed=0)
        asked = [task for task in tasks if task.task_id in held_out]
        before = worths(FusedRouter(catalog.servers, encoder, cache), asked)
        adapter = None if way.folder is None else load_adapter(way.folder)
        after = before if adapter is None else worths(FusedRouter(catalog.servers, encoder, cache, adapter), asked)
        kept = args.out / "quick"
        shutil.rmtree(kept, ignore_errors=True)
        if way.folder is not None:
            shutil.copytree(way.folder, kept / way.folder.name)
    result: dict[str, object] = {
        "simulated": True,
        "catalog": path.name,
        "tasks": args.tasks.name,
        "held_out": compared(asked, [(before, after)]),
        "way": {name: value for name, value in asdict(way).items() if name != "folder"},
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }
    if way.state != "active":
        result["failed"] = f"the adapter is not active, but {way.state or 'none: ' + str(way.idle)}"
    return result


async def _full(args: argparse.Namespace, encoder: Encoder, cache: EmbeddingCache) -> dict[str, object]:
    chosen = args.part or [*PARTS, *OTHERS]
    found: dict[str, Any] = {}
    for number, path in enumerate(args.catalog):
        catalog = read_catalog(path)
        own = [name for name in PARTS if name in chosen and (number == 0 or name in BOTH_CATALOGS)]
        if not own:
            continue
        asked = _asked(args, path, catalog, encoder, cache)
        for name in own:
            print(f"{path.name}: {name}", flush=True)
            found.setdefault(name, {})[path.name] = await PARTS[name](asked)
    if "poison" in chosen:
        print("poison", flush=True)
        found["poison"] = {args.catalog[-1].name: await _poison(args, encoder, cache)}
    if "kill" in chosen:
        print("kill", flush=True)
        found["kill"] = killed(await _last_log(args))
    if "sequential" in chosen:
        found["sequential"] = _sequential()
    if "policy" in chosen:
        found["policy"] = await _policy(args)
    return {"simulated": True, "tasks": args.tasks.name, "parts": found}


def _asked(
    args: argparse.Namespace, path: Path, catalog: Catalog, encoder: Encoder, cache: EmbeddingCache
) -> parts.Asked:
    tasks = [task for task in read_tasks(args.tasks, catalog).tasks if task.tools]
    bench = Bench(
        folder=args.out / "adapters",
        servers=catalog.servers,
        encoder=encoder,
        cache=cache,
        language_model=args.model,
    )

    async def log(seed: int, rubric: str) -> Log:
        return await log_of(
            args.out, path, args.tasks, episodes=args.episodes or EPISODES, seed=seed, rubric=rubric, say=_say
        )

    return parts.Asked(
        bench=bench,
        catalog=path,
        tasks_file=args.tasks,
        tasks=tasks,
        log=log,
        seeds=range(args.seeds),
        settings=RankingSettings(),
        untrained=worths(FusedRouter(catalog.servers, encoder, cache), tasks),
        say=_say,
    )


async def _poison(args: argparse.Namespace, encoder: Encoder, cache: EmbeddingCache) -> dict[str, Any]:
    path: Path = args.catalog[-1]
    rows = rows_of(path)
    stuffed = args.out / f"{path.stem}-stuffed"
    stuffed.mkdir(exist_ok=True)
    catalog = read_catalog(write_catalog(stuffed, [*rows, *stuffed_rows(rows)]))
    log = await log_of(
        args.out,
        path,
        args.tasks,
        episodes=args.episodes or POISONED,
        seed=0,
        name=f"{path.stem}-poisoned",
        poison=POISON,
        stuffed=True,
        say=_say,
    )
    return await parts.poisoned(_asked(args, path, catalog, encoder, cache), log)


def _sequential() -> dict[str, Any]:
    settings = SequentialSettings()
    return {
        f"worse by {worse}": asdict(figures(World(worse=worse), settings, runs=500)) for worse in (0.0, 0.1, 0.2, 0.3)
    }


async def _policy(args: argparse.Namespace) -> dict[str, Any]:
    from bench.learned.policy import policy_figures

    return dict(await policy_figures((await _last_log(args)).url))


async def _last_log(args: argparse.Namespace) -> Log:
    """Of the last catalogue, which is the smaller one of those by default."""
    episodes = args.episodes or EPISODES
    return await log_of(args.out, args.catalog[-1], args.tasks, episodes=episodes, seed=0, say=_say)


def _say(text: str) -> None:
    print(text, flush=True)


def table(result: Mapping[str, Any]) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        if "way" in result:
            way = result["way"]
            console.print(_compared("simulated: held-out tasks, " + result["catalog"], {"": result["held_out"]}))
            for each in way["states"]:
                console.print(f"{each['state']}: {each['reason']}", markup=False)
            console.print(
                f"{way['episodes']} episodes, {way['judged']} judgements, {way['rubrics']} rubrics; "
                f"{way['answered']} searches were answered by the adapter {(way['adapter'] or '')[:12]}; "
                f"{result['minutes']} minutes"
            )
        for part, its in result.get("parts", {}).items():
            for row in _rows(part, its):
                console.print(row)
    return captured.get().rstrip()


def _rows(part: str, its: Mapping[str, Any]) -> list[Table | str]:
    if part in ("kill", "sequential", "policy"):
        return [f"{part}: {name}: {value}" for name, value in its.items()]
    made: list[Table | str] = []
    for catalog, found in its.items():
        named = (
            {"": found}
            if MAIN[0] in found
            else {name: value for name, value in found.items() if isinstance(value, Mapping)}
        )
        made.append(_compared(f"simulated: {part}, {catalog}", named))
    return made


def _compared(title: str, named: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = Table("", "figure", "before", "after", "difference", "95 %", "tasks", title=title)
    for name, found in named.items():
        for figure, its in found.items():
            if isinstance(its, Mapping) and "interval" in its:
                low, high = its["interval"]
                numbers = [f"{its['before']:.3f}", f"{its['after']:.3f}", f"{its['difference']:+.3f}"]
                rows.add_row(name, figure, *numbers, f"{low:+.3f} to {high:+.3f}", str(its["tasks"]))
    return rows
