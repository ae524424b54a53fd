"""Logs of simulated traffic, made once and kept, and judged: by the default rubric, and by rubrics of their own tasks.

Above: the parts of bench/learn.py. Below: bench/traffic, and the judge as `toolatlas learn` runs it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.traffic.running import make_traffic, write_labels
from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.store.database import Database
from trainer.loop.judging import RubricSettings, judge_all, write_rubrics

DEFAULT, DERIVED = "default", "derived"
"""Rubrics by which a log was judged: the package's own; or, of each task with good episodes enough, one of its own."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log with what belongs to it."""

    path: Path
    """SQLite, judged."""
    tasks: dict[str, str]
    """Episode -> id of its task in the file."""
    agents: dict[str, str]
    """Episode -> who worked it."""

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def episodes(self, tasks: frozenset[str]) -> tuple[str, ...]:
        """Those of these tasks, in the order in which they were made."""
        return tuple(episode for episode, task in self.tasks.items() if task in tasks)


async def log_of(
    folder: Path,
    catalog: Path,
    tasks: Path,
    *,
    episodes: int,
    seed: int,
    rubric: str = DEFAULT,
    name: str | None = None,
    poison: float = 0.0,
    stuffed: bool = False,
    router: str = "fused",
    say: Say = print,
) -> Log:
    """The log of that name, made and judged where it is not there yet. What was killed half-way is begun again."""
    stem = name or f"{catalog.stem}-{episodes}-seed{seed}"
    made = folder / f"{stem}.db"
    labels = folder / f"{stem}.labels.jsonl"
    if not labels.is_file():
        _remove(folder, stem)
        say(f"simulated traffic: {episodes} episodes over {catalog.name}, seed {seed}")
        url = f"sqlite:///{made}"
        traffic = await make_traffic(
            catalog, tasks, url, episodes=episodes, seed=seed, poison=poison, stuffed=stuffed, router=router
        )
        say(f"  {len(traffic.episodes)} episodes in {traffic.seconds:.0f} s")
        write_labels(labels, traffic)
    judged = await _judged(made, DEFAULT, say)
    if rubric == DERIVED:
        judged = await _judged(judged, DERIVED, say)
    rows = [json.loads(line) for line in labels.read_text("utf-8").splitlines()]
    return Log(
        path=judged,
        tasks={row["episode"]: row["task"] for row in rows if row["episode"] is not None},
        agents={row["episode"]: row["agent"] for row in rows if row["episode"] is not None},
    )


async def _judged(source: Path, rubric: str, say: Say) -> Path:
    """A copy beside it with its judgements."""
    target = source.with_suffix(f".{rubric}.db")
    if target.is_file():
        return target
    draft = source.with_suffix(f".{rubric}.draft")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as from_, closing(sqlite3.connect(draft)) as to:
        from_.backup(to)
    database = Database(f"sqlite:///{draft}", statement_s=None)
    judge = Judge(library(), RewardSettings())
    try:
        written = await write_rubrics(database, library(), RubricSettings()) if rubric == DERIVED else 0
        judged = (await judge_all(database, judge)).judged
    finally:
        await judge.close()
        await database.close()
    say(f"  judged by {rubric} rubrics: {judged} judgements" + (f", {written} rubrics" if written else ""))
    _put(draft, target)
    return target


def _remove(folder: Path, stem: str) -> None:
    for path in folder.glob(f"{stem}.*"):
        path.unlink()


def _put(draft: Path, target: Path) -> None:
    """One file, whatever SQLite has beside it."""
    with closing(sqlite3.connect(draft)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    draft.rename(target)
    for rest in (f"{draft}-wal", f"{draft}-shm"):
        Path(rest).unlink(missing_ok=True)
