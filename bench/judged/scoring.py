"""The corpus under three rubrics: the default one, one of the same task's references, one of the family's other tasks.

Above: bench/judge.py. Below: bench/corpus, judge/, a SQLite file of its own. No rubric is made of a run that it scores.
The reference that works with other tools is scored too, by a rubric that knows the usual way alone: whether a way that
no reference showed is taken for a good one is the harder half of being fair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.corpus.defects import REFERENCES, Good
from bench.corpus.made import LOG, Run, load
from judge.case import Case
from judge.checks.library import Library, library
from judge.default import default_rubric
from judge.judging import Judge, Judged
from judge.rubric import Rubric
from judge.settings import RewardSettings
from judge.writing.derived import derive
from proxy.store.catalogues import Catalogue, catalogue
from proxy.store.database import Database
from proxy.store.importing import import_lines
from proxy.store.migrating import migrate
from proxy.store.trajectories import stream

RUBRICS = ("task", "family", "default")
USUAL = frozenset({Good.PLAIN, Good.REWORDED})
"""What the rubric for `other_way` is made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One run, judged by one rubric."""

    run: Run
    rubric: str
    """One of RUBRICS."""
    judged: Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Runs and what was logged of them."""

    runs: Sequence[Run]
    cases: Mapping[str, Case]
    """By episode."""


async def read(folder: Path, scratch: Path) -> Corpus:
    """The corpus in `folder`, by way of a database in `scratch`, as a gateway would have it."""
    url = f"sqlite:///{scratch / 'corpus.db'}"
    await migrate(url)
    database = Database(url)
    try:
        with (folder / LOG).open("rb") as lines:
            done = await import_lines(database, lines)
        if done.refused:
            raise ValueError(f"line {done.refused[0].line} of the corpus cannot be imported: {done.refused[0].why}")
        catalogues: dict[str, Catalogue | None] = {}
        cases: dict[str, Case] = {}
        async for trajectory in stream(database):
            if trajectory.catalog not in catalogues:
                catalogues[trajectory.catalog] = await catalogue(database, trajectory.catalog)
            cases[trajectory.id] = Case(trajectory, catalogues[trajectory.catalog])
    finally:
        await database.close()
    runs = load(folder)
    return Corpus(runs=[run for run in runs if run.episode in cases], cases=cases)


async def score(corpus: Corpus, judge: Judge) -> list[Scored]:
    """All runs but those that rubrics are made from, by each rubric that there is for them."""
    checks = library()
    rubrics: dict[tuple[str, bool], Mapping[str, Rubric]] = {}
    scored: list[Scored] = []
    for run in corpus.runs:
        if run.variant == Good.PLAIN:
            continue
        unseen = run.variant == Good.OTHER_WAY
        if (run.task, unseen) not in rubrics:
            rubrics[run.task, unseen] = _rubrics(corpus, run, checks, USUAL if unseen else REFERENCES)
        for name, rubric in rubrics[run.task, unseen].items():
            scored.append(Scored(run=run, rubric=name, judged=await judge.judge(rubric, corpus.cases[run.episode])))
    return scored


def checks_alone() -> Judge:
    """The judge without a model, as it comes."""
    return Judge(library(), RewardSettings())


def _rubrics(corpus: Corpus, run: Run, checks: Library, sources: frozenset[Good]) -> Mapping[str, Rubric]:
    """By the name of what each was made from; a corpus may hold no sources of some tasks."""
    good = [each for each in corpus.runs if each.kind is None and each.family == run.family]
    of_task = [each for each in good if each.task == run.task and each.variant in sources]
    of_others = [each for each in good if each.task != run.task and each.reference]
    made = {"default": default_rubric()}
    text = corpus.cases[run.episode].task or ""
    for name, runs in (("task", of_task), ("family", of_others)):
        if runs:
            made[name] = derive([corpus.cases[each.episode] for each in runs], tasks=[text], library=checks)
    return made
