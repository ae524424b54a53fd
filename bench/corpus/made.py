"""Reads back what `python -m bench.corpus` wrote.

Above: bench/judge.py and running.py, which writes it. The trajectories lie in `corpus.jsonl`, as `toolatlas episodes
export` writes them; this is what is known of each run beyond what an agent's log tells.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.corpus.defects import Kind
from bench.corpus.split import Part

MANIFEST, LOG = "manifest.jsonl", "corpus.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One line of the manifest."""

    episode: str
    """Id of its trajectory."""
    task: str
    family: str
    variant: str
    """A `Good`, or the name of the kind."""
    kind: Kind | None
    """What is wrong with it; None where it is good."""
    reference: bool
    """A good run that rubrics are made from, and that is never scored."""
    set_aside: bool
    """Whether its task or its kind was kept away from those who wrote the checks; never of a fresh or unseen task."""
    fresh: bool = False
    """Whether its task was added after the first look at what was set aside; manifests from before do not say."""
    unseen: bool = False
    """Whether its task was added when the checks were done; manifests from before do not say."""

    @property
    def part(self) -> Part:
        if self.unseen:
            return Part.UNSEEN
        if self.fresh:
            return Part.FRESH
        return Part.SET_ASIDE if self.set_aside else Part.DEVELOPMENT


def load(folder: Path) -> list[Run]:
    """All runs of a corpus, in the order in which they were made.

    Raises:
        FileNotFoundError: There is none in this folder.
        ValueError: A line is no run.
    """
    lines = (folder / MANIFEST).read_text("utf-8").splitlines()
    return [_run(json.loads(line), number) for number, line in enumerate(lines, 1)]


def save(folder: Path, runs: list[Run]) -> None:
    """Writes the manifest."""
    (folder / MANIFEST).write_text("".join(json.dumps(asdict(run)) + "\n" for run in runs), "utf-8")


def _run(line: dict[str, Any], number: int) -> Run:
    try:
        return Run(**{**line, "kind": None if line["kind"] is None else Kind(line["kind"])})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"line {number} of {MANIFEST} is no run of a corpus: {error}") from error
