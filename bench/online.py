"""`python -m bench online`: whether GRPO through the live gateway makes a policy better, with one that is tiny.

Everything is real but small: a gateway over HTTP with its log, three servers in memory, the judge's checks with the
default rubric, TRL. The policy is first schooled by imitation of careless agents, so that what it samples are actions;
then it works tasks by itself, sampled at temperature 1, and learns from the judge alone.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from anyio.from_thread import BlockingPortal, start_blocking_portal
from rich.console import Console
from rich.table import Table

from bench.targets.small_world import ERRANDS, SmallWorld, small_world
from bench.targets.tiny_policy import demonstrate, logged_rows, school, system_of, tiny_model, tokenizer_of
from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.policy.base import Variant
from proxy.policy.client_world import connected
from proxy.policy.limits import WorkLimits
from proxy.store.database import Database
from trainer.data.tokens import Reader
from trainer.loop.devices import Device
from trainer.online.grpo import train
from trainer.online.live import LivePlay
from trainer.online.settings import OnlineSettings
from trainer.rows import PolicyRow

ENDS = 10
"""Updates that are compared: so many first ones with so many last."""
DEMONSTRATIONS = 72
SCHOOLING = 250
"""Steps of imitation."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="for a run in parts")
    parser.add_argument("--updates", type=int, default=30, metavar="N")


def settings_of(seed: int, updates: int) -> OnlineSettings:
    return OnlineSettings(
        updates=updates,
        tasks=2,
        group=8,
        micro_batch=8,
        learning_rate=1e-3,
        rank=16,
        kl=0.1,
        seed=seed,
        limits=WorkLimits(turns=5, output_tokens=48, seconds=600),
        model_tokens=700,
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """What all seeds share."""

    portal: BlockingPortal
    world: SmallWorld
    database: Database
    judge: Judge
    tokenizer: Any
    rows: list[PolicyRow]


def run(args: argparse.Namespace) -> dict[str, object]:
    if args.updates < 2 * ENDS:
        raise SystemExit(f"--updates is at least {2 * ENDS}: the first {ENDS} are compared with the last {ENDS}")
    numbers = range(args.first_seed, args.first_seed + args.seeds)
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    with TemporaryDirectory(prefix="bench-online-") as name, start_blocking_portal() as portal:
        folder = Path(name)
        with portal.wrap_async_context_manager(small_world(folder)) as world:
            database = portal.call(partial(Database, world.database, statement_s=None))
            judge = Judge(library(), RewardSettings())
            try:
                portal.call(demonstrate, world.url, database, DEMONSTRATIONS, random.Random(0))
                tokenizer = tokenizer_of(portal.call(system_of, world.url))
                rows = portal.call(logged_rows, database, judge, Reader(tokenizer))
                setting = Setting(portal, world, database, judge, tokenizer, rows)
                seeds = [one_seed(setting, seed, args.updates, folder) for seed in numbers]
            finally:
                portal.call(database.close)
    worse = [row["seed"] for row in seeds if row["last"] <= row["first"]]
    failed = {"failed": f"no better than in the beginning: seeds {worse}"} if worse else {}
    return {"demonstrations": len(rows), "seeds": seeds} | failed


def one_seed(setting: Setting, seed: int, updates: int, folder: Path) -> dict[str, Any]:
    began, cpu_s = time.perf_counter(), time.process_time()
    tokenizer = setting.tokenizer
    model = tiny_model(tokenizer, seed)
    losses = school(model, setting.rows, tokenizer.pad_token_id, steps=SCHOOLING, batch=12, seed=seed)
    schooled, weights = time.perf_counter(), sum(each.numel() for each in model.parameters())
    settings = settings_of(seed, updates)
    play = LivePlay(
        setting.portal,
        lambda client: connected(setting.world.url, Variant.TOOLS, client_name=client),
        setting.database,
        setting.judge,
        Reader(tokenizer),
        partial(tokenizer.decode, skip_special_tokens=True),
        settings,
    )

    left_out: list[int] = []

    def told(number: int, figures: Mapping[str, float]) -> None:
        left_out.append(int(figures["left out"]))
        print(f"seed {seed}, update {number}: {figures['mean reward']:.3f}, {left_out[-1]} left out", file=sys.stderr)

    tasks = [errand.task for errand in ERRANDS]
    trained = train(model, tokenizer, tasks, play, settings, Device("cpu"), folder / f"seed{seed}", told=told)
    rewards = [each for each in trained.rewards if each == each]
    return {
        "seed": seed,
        "weights": weights,
        "schooling_loss": round(losses[-1], 3),
        "rewards": [round(each, 4) for each in trained.rewards],
        "first": round(sum(rewards[:ENDS]) / ENDS, 4),
        "last": round(sum(rewards[-ENDS:]) / ENDS, 4),
        "rollouts": settings.rollouts * updates,
        "left_out": dict(trained.left_out),
        "left_out_first": sum(left_out[:ENDS]),
        "left_out_last": sum(left_out[-ENDS:]),
        "schooling_s": round(schooled - began, 1),
        "seconds": round(time.perf_counter() - schooled, 1),
        "cpu_s": round(time.process_time() - cpu_s, 1),
    }


def table(result: Mapping[str, Any]) -> str:
    title = (
        f"Mean reward of the first and last {ENDS} updates, schooled on {result['demonstrations']} careless episodes"
    )
    main = Table(title=title)
    for name in (
        "seed",
        "first",
        "last",
        "gain",
        "rollouts",
        "left out first",
        "last",
        "schooling",
        "updates",
        "CPU s",
    ):
        main.add_column(name, justify="right")
    for row in result["seeds"]:
        main.add_row(
            str(row["seed"]),
            f"{row['first']:.3f}",
            f"{row['last']:.3f}",
            f"{row['last'] - row['first']:+.3f}",
            f"{row['rollouts']:,}",
            str(row["left_out_first"]),
            str(row["left_out_last"]),
            f"{row['schooling_s']:.0f} s",
            f"{row['seconds']:.0f} s",
            f"{row['cpu_s']:.0f}",
        )
    console = Console(width=110)
    with console.capture() as capture:
        console.print(main)
    return capture.get()
