"""How far a judge agrees with people: pairs of its score and a person's value in, measures out.

Above: gold.py, drift.py, calibration.py (pairs), commands/. Below: numpy; scipy for one measure. Every resample comes
of a fixed seed: the same pairs give the same figures.

Missing verdicts are no pairs for any measure but the share that is missing. Scores and values are made *met* or *not
met* at 0.5, which itself is met. A measure that the pairs do not determine is None, and `undefined` says why.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judge.trust.scientific import scipy_part

MET = 0.5
BINS = 10
RESAMPLES = 1_000
SEED = 20_260_105

Table = NDArray[np.float64]
"""Counts by what the judge said and what people said: [..., 0 or 1 of the judge, 0 or 1 of people]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a judge and a person said of the same thing."""

    judge: str
    """The judge's name."""
    item: str
    """The trajectory: the id of the episode, or the name of a gold case."""
    criterion: str | None
    """None where the whole trajectory was labelled, which the reward answers."""
    by_model: bool
    """Whether a model decided it, not code."""
    score: float | None
    """Of the verdict, or the reward; None where it is missing."""
    human: float
    """0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Of some pairs. None where `undefined` has the measure's name."""

    pairs: int
    """Missing ones included."""
    decided: int
    missing_share: float | None
    kappa: float | None
    """Cohen's, over met and not met: 1 is agreement, 0 what chance gives."""
    kappa_low: float | None
    """Of its 95 % interval, by resampling trajectories (their pairs go together)."""
    kappa_high: float | None
    weighted_kappa: float | None
    """Cohen's with quadratic weights, over scores to the nearest of 0, 0.5 and 1."""
    spearman: float | None
    """Rank correlation of scores and values."""
    ece: float | None
    """Expected calibration error: scores in 10 bins of equal width, in each the distance between the mean score and the
    mean of people's values, averaged by the pairs in the bin."""
    both: int
    """Judge and people say met."""
    judge_only: int
    people_only: int
    neither: int
    undefined: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a measure is None, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One judge against people."""

    judge: str
    gold: str | None
    """Hash of the gold set that the pairs are from; None for labels of any other origin."""
    criteria: Measures
    """Over the criteria of all trajectories together."""
    overall: Measures
    """Rewards against labels of whole trajectories."""
    by_criterion: Mapping[str, Measures]
    pairs: tuple[Pair, ...]
    """All that this is made of, so that a later judge can be compared pair by pair."""

    def content(self) -> dict[str, Any]:
        """As JSON, for `gold_runs.agreement`; `of_content` reads it back from `pairs` alone."""
        return {
            "judge": self.judge,
            "gold": self.gold,
            "criteria": asdict(self.criteria),
            "overall": asdict(self.overall),
            "by_criterion": {criterion: asdict(each) for criterion, each in self.by_criterion.items()},
            "pairs": [[each.item, each.criterion, each.by_model, each.score, each.human] for each in self.pairs],
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Agreement:
        judge: str = content["judge"]
        pairs = [
            Pair(judge=judge, item=item, criterion=criterion, by_model=by_model, score=score, human=human)
            for item, criterion, by_model, score, human in content["pairs"]
        ]
        return agreement(judge, pairs, gold=content["gold"])


def agreements(pairs: Iterable[Pair]) -> tuple[Agreement, ...]:
    """By judge, in the order of their names."""
    by_judge: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_judge[pair.judge].append(pair)
    return tuple(agreement(judge, by_judge[judge]) for judge in sorted(by_judge))


def agreement(judge: str, pairs: Sequence[Pair], *, gold: str | None = None) -> Agreement:
    """Of one judge; `pairs` may be none.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    by_criterion: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.criterion is not None:
            by_criterion[pair.criterion].append(pair)
    return Agreement(
        judge=judge,
        gold=gold,
        criteria=measures([each for each in pairs if each.criterion is not None]),
        overall=measures([each for each in pairs if each.criterion is None]),
        by_criterion={criterion: measures(by_criterion[criterion]) for criterion in sorted(by_criterion)},
        pairs=tuple(pairs),
    )


def measures(pairs: Sequence[Pair]) -> Measures:
    """All measures of `pairs`, whatever they are of.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    scores = np.array([pair.score for pair in pairs if pair.score is not None], dtype=np.float64)
    people = np.array([pair.human for pair in pairs if pair.score is not None], dtype=np.float64)
    decided = len(scores)
    tables = item_tables(pairs)
    whole = tables.sum(axis=0)
    kappa = float(kappas(whole))
    low, high = (math.nan, math.nan) if math.isnan(kappa) else interval(kappas(resampled(tables)))
    found = {
        "missing_share": math.nan if not pairs else 1 - decided / len(pairs),
        "kappa": kappa,
        "kappa_low": low,
        "kappa_high": high,
        "weighted_kappa": _weighted_kappa(scores, people),
        "spearman": _spearman(scores, people),
        "ece": _ece(scores, people),
    }
    unknown = [name for name, value in found.items() if math.isnan(value)]
    return Measures(
        pairs=len(pairs),
        decided=decided,
        **{name: None if math.isnan(value) else value for name, value in found.items()},
        both=int(whole[1, 1]),
        judge_only=int(whole[1, 0]),
        people_only=int(whole[0, 1]),
        neither=int(whole[0, 0]),
        undefined={name: _why(name, decided, kappa) for name in unknown},
    )


def _why(name: str, decided: int, kappa: float) -> str:
    if name == "missing_share":
        return "there are no pairs"
    if decided < 2:
        return f"{decided} decided pairs"
    if name == "spearman":
        return "all scores, or all of people's values, are the same"
    if name.startswith("kappa_") and not math.isnan(kappa):
        return "in most resamples people's values are all met or all not met"
    return "people's values are all the same"


def item_tables(pairs: Iterable[Pair]) -> Table:
    """One 2x2 table a trajectory, in the order of their first pairs: shape (trajectories, 2, 2)."""
    places: dict[str, int] = {}
    found: list[tuple[int, int, int]] = []
    for pair in pairs:
        place = places.setdefault(pair.item, len(places))
        if pair.score is not None:
            found.append((place, int(pair.score >= MET), int(pair.human >= MET)))
    tables = np.zeros((len(places), 2, 2))
    for at in found:
        tables[at] += 1
    return tables


def resample_counts(items: int) -> NDArray[np.float64]:
    """How often each of `items` trajectories is drawn, by resample: shape (RESAMPLES, items). The same every time."""
    random = np.random.default_rng(SEED)
    return random.multinomial(items, np.full(items, 1 / items), size=RESAMPLES).astype(np.float64)


def resampled(tables: Table) -> Table:
    """Sums of tables drawn with replacement: shape (RESAMPLES, 2, 2)."""
    return np.tensordot(resample_counts(len(tables)), tables, axes=1)


def kappas(tables: Table) -> NDArray[np.float64]:
    """Cohen's kappa of each table; NaN where people gave one value only, which no judge could be measured by, or there
    are fewer than two pairs. A judge that says the same of everything gets 0."""
    whole = tables.sum(axis=(-2, -1))
    people = tables.sum(axis=-2)
    agreed = tables[..., 0, 0] + tables[..., 1, 1]
    chance = (tables.sum(axis=-1) * people).sum(axis=-1)
    known = (whole >= 2) & (people > 0).all(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known, (agreed * whole - chance) / (whole * whole - chance), np.nan)


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 % of the values that are known; NaN where fewer than half are."""
    known = values[~np.isnan(values)]
    if 2 * len(known) < len(values) or not len(known):
        return math.nan, math.nan
    low, high = np.percentile(known, (2.5, 97.5))
    return float(low), float(high)


def _weighted_kappa(scores: NDArray[np.float64], people: NDArray[np.float64]) -> float:
    table = np.zeros((3, 3))
    np.add.at(table, (_third(scores), _third(people)), 1)
    if table.sum() < 2 or np.count_nonzero(table.sum(axis=0)) < 2:
        return math.nan
    distance = (np.arange(3)[:, None] - np.arange(3)) ** 2
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return 1 - float((distance * table).sum() / (distance * expected).sum())


def _third(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """To 0, 1 and 2: the nearest of 0, 0.5 and 1, the upper one where two are as near."""
    return np.floor(values * 2 + 0.5).astype(np.int64)


def _spearman(scores: NDArray[np.float64], people: NDArray[np.float64]) -> float:
    if len(scores) < 2 or len(np.unique(scores)) < 2 or len(np.unique(people)) < 2:
        return math.nan
    return float(scipy_part("stats").spearmanr(scores, people).statistic)


def _ece(scores: NDArray[np.float64], people: NDArray[np.float64]) -> float:
    if not len(scores):
        return math.nan
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    # The distance of two means times their number is the distance of two sums.
    distance = np.abs(np.bincount(bins, scores, BINS) - np.bincount(bins, people, BINS))
    return float(distance.sum() / len(scores))
