"""`python -m bench judge`: whether rewards tell good runs from defective ones, how fast they come, and what models add.

The runs are those of bench/corpus, made over real servers; what was set aside before the first check was written
(docs/decisions/0023) is a part of its own. Checks alone judge them. A small model shows what a judge without signal
looks like; a capable endpoint, where the environment names one, is measured on the same runs.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio.to_thread
from rich.console import Console
from rich.table import Table

from bench.corpus.defects import Kind
from bench.corpus.made import MANIFEST
from bench.corpus.running import choose, make
from bench.corpus.split import Part
from bench.judged.models import capable, small
from bench.judged.scoring import RUBRICS, Scored, checks_alone, read, score
from bench.judged.separation import Separation, separation
from bench.judged.speed import speed
from bench.measure import ROOT
from judge.rubric import Category

CATEGORIES = {
    Kind.WRONG_SERVER: Category.TOOL_APPROPRIATENESS,
    Kind.WRONG_TOOL: Category.TOOL_APPROPRIATENESS,
    Kind.NEEDLESS_REPEATS: Category.TOOL_APPROPRIATENESS,
    Kind.INJECTION_OBEYED: Category.TOOL_APPROPRIATENESS,
    Kind.WRONG_ARGUMENT: Category.PARAMETER_ACCURACY,
    Kind.MADE_UP_VALUE: Category.PARAMETER_ACCURACY,
    Kind.UNGROUNDED_ANSWER: Category.TOOL_GROUNDING,
    Kind.ERROR_IGNORED: Category.TOOL_GROUNDING,
    Kind.SWAPPED_RESULT: Category.TOOL_GROUNDING,
    Kind.STOPPED_EARLY: Category.TASK_FULFILMENT,
}
"""Which category has to tell each kind apart: fixed by docs/decisions/0023 before there was a check."""
PARTS = ("separation", "speed", "small", "endpoint")
SET_ASIDE_AUC = 0.95
REST_AUC = 0.97
CATEGORY_AUC = 0.9
SPEED = 200.0
"""Trajectories a second."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpus", type=Path, metavar="FOLDER", help="one that `python -m bench.corpus` made; made and kept without"
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; all without")
    parser.add_argument("--trajectories", type=int, default=10_000, help="how many are judged for the speed")


def run(args: argparse.Namespace) -> dict[str, object]:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> dict[str, object]:
    parts: Sequence[str] = args.part or PARTS
    folder = args.corpus
    if folder is None:
        folder = ROOT / "bench" / "out" / "corpus"
        if not (folder / MANIFEST).exists():
            await anyio.to_thread.run_sync(make, folder, choose())
    result: dict[str, Any] = {}
    with TemporaryDirectory() as scratch:
        corpus = await read(folder, Path(scratch))
        if "separation" in parts:
            result["runs"] = len(corpus.runs)
            result["tasks"] = len({each.task for each in corpus.runs})
            result["separation"] = _separated(await score(corpus, checks_alone()))
        if "speed" in parts:
            result["speed"] = await speed(folder, Path(scratch), args.trajectories)
        if "small" in parts:
            result["small"] = await small(Path(scratch))
        if "endpoint" in parts:
            result["endpoint"] = await capable(corpus)
    if problems := list(_problems(result)):
        result["failed"] = "; ".join(problems)
    return result


def _separated(scored: Sequence[Scored]) -> dict[str, Any]:
    """By rubric: each part of the corpus, whole and by kind of defect."""
    answer: dict[str, Any] = {}
    for rubric in RUBRICS:
        of_it = [each for each in scored if each.rubric == rubric]
        kinds = {each.run.kind for each in of_it if each.run.kind is not None}
        parts = {part: [each for each in of_it if each.run.part is part] for part in Part}
        answer[rubric] = {
            part.value: {
                "all": _reward_separation(runs),
                "kinds": {kind: _kind_separation(runs, kind) for kind in sorted(kinds)},
                "unrewarded": sum(each.judged.reward.value is None for each in runs),
            }
            for part, runs in parts.items()
        }
    return answer


def _reward_separation(runs: Iterable[Scored]) -> dict[str, Any]:
    good, defective = _values(runs, lambda each: each.judged.reward.value)
    return _content(separation(good, defective))


def _kind_separation(runs: Sequence[Scored], kind: Kind) -> dict[str, Any]:
    chosen = [each for each in runs if each.run.kind in (None, kind)]
    category = CATEGORIES[kind]
    reward = _values(chosen, lambda each: each.judged.reward.value)
    own = _values(chosen, lambda each: each.judged.reward.subtotals.get(category))
    defective = sum(each.run.kind == kind for each in chosen)
    return {
        "runs": defective,
        "category": category.value,
        "reward": _content(separation(*reward)),
        "own": _content(separation(*own)),
        "without_own": defective - len(own[1]),
    }


def _values(runs: Iterable[Scored], value: Any) -> tuple[list[float], list[float]]:
    """Of the good ones and of the defective ones; runs without the value are left out."""
    of: Mapping[bool, list[float]] = defaultdict(list)
    for each in runs:
        given = value(each)
        if given is not None:
            of[each.run.kind is None].append(given)
    return of[True], of[False]


def _content(found: Separation) -> dict[str, Any]:
    return {
        "auc": found.auc,
        "low": found.low,
        "high": found.high,
        "good": found.good,
        "defective": found.defective,
    }


def _problems(result: Mapping[str, Any]) -> Iterable[str]:
    if "separation" in result:
        of_task = result["separation"]["task"]
        for part, least in ((Part.SET_ASIDE, SET_ASIDE_AUC), (Part.DEVELOPMENT, REST_AUC)):
            auc = of_task[part.value]["all"]["auc"]
            if auc is None or auc < least:
                yield f"{part}: AUC {auc}, at least {least} is wanted"
        for kind, found in of_task[Part.SET_ASIDE.value]["kinds"].items():
            auc = found["own"]["auc"]
            if found["runs"] and (auc is None or auc < CATEGORY_AUC):
                yield f"{kind}: {found['category']} separates with AUC {auc}, at least {CATEGORY_AUC} is wanted"
    if "speed" in result and result["speed"]["per_second"] < SPEED:
        yield f"{result['speed']['per_second']:.0f} trajectories a second, at least {SPEED:.0f} are wanted"
    if "small" in result and result["small"].get("admitted"):
        yield "a judge without signal was admitted"


def table(result: Mapping[str, Any]) -> str:
    console = Console(width=220, record=True, file=StringIO(), highlight=False)
    if "separation" in result:
        console.print(f"{result['runs']} runs of {result['tasks']} tasks, checks alone; references are not scored")
        for rubric, parts in result["separation"].items():
            console.print(_separation_table(rubric, parts))
    for part in ("speed", "small", "endpoint"):
        if part in result:
            lines = Table(part, "")
            for name, value in result[part].items():
                lines.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
            console.print(lines)
    return console.export_text().rstrip()


def _separation_table(rubric: str, parts: Mapping[str, Any]) -> Table:
    shown = Table(f"rubric: {rubric}", "runs", "own category", *(f"{part}: AUC, own" for part in parts))
    kinds = dict.fromkeys(kind for found in parts.values() for kind in found["kinds"])
    shown.add_row("all", "", "", *(_auc(found["all"]) for found in parts.values()))
    for kind in kinds:
        found = [each["kinds"][kind] for each in parts.values()]
        shown.add_row(
            kind,
            " + ".join(str(each["runs"]) for each in found),
            found[0]["category"],
            *(f"{_auc(each['reward'])}, {_auc(each['own'])}" if each["runs"] else "" for each in found),
        )
    shown.add_row("without a reward", " + ".join(str(found["unrewarded"]) for found in parts.values()))
    return shown


def _auc(found: Mapping[str, Any]) -> str:
    return "" if found["auc"] is None else f"{found['auc']:.3f} [{found['low']:.2f}, {found['high']:.2f}]"
