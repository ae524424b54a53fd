"""A model's scores moved to what people gave where it scored so: isotonic regression, kept as knots.

Above: commands/ of the judge. Below: agreement.py (pairs), scipy. A map never turns round which of two scores of one
criterion is the higher. It is fitted to the labels at hand, so agreement of the calibrated judge with those same labels
flatters it.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judge.settings import FINGERPRINT_CHARS
from judge.trust.agreement import Pair
from judge.trust.scientific import scipy_part
from judge.verdict import Verdict
from proxy.errors import ConfigurationError

FEWEST_LABELS = 50
ALL = "*"
"""Names the map of the criteria that have none of their own."""

Knots = tuple[tuple[float, float], ...]
"""(score, calibrated score), both 0 to 1, rising in the first and never falling in the second; at least one."""


class TooFewLabels(ConfigurationError):
    """Fewer than a map can be fitted to; the text says how many are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Of one judge. Named by its hash."""

    judge: str
    """Name of the judge whose scores it takes."""
    maps: Mapping[str, Knots]
    """By criterion, or `*`."""
    labels: int
    """That it was fitted to."""

    @property
    def hash(self) -> str:
        """64 hexadecimal digits."""
        said = json.dumps([self.judge, self.content()], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Of the calibrated judge."""
        return f"{self.judge}~{self.hash[:FINGERPRINT_CHARS]}"

    def content(self) -> dict[str, Any]:
        """As JSON, for `calibrations.content`; `of_content` reads it back."""
        return {name: [list(knot) for knot in knots] for name, knots in self.maps.items()}

    @classmethod
    def of_content(cls, content: Mapping[str, Any], *, judge: str, labels: int) -> Calibration:
        maps = {name: tuple((float(x), float(y)) for x, y in knots) for name, knots in content.items()}
        return cls(judge=judge, maps=maps, labels=labels)


def fit(judge: str, pairs: Iterable[Pair]) -> Calibration:
    """A map for each criterion with at least 50 labels of its own, and one of all for the others.

    Only what a model decided is taken: a check's score is a fact, which people's opinion of it does not move.

    Raises:
        TooFewLabels: All criteria together have fewer than 50.
        ConfigurationError: scipy is not installed.
    """
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        if pair.judge == judge and pair.by_model and pair.criterion is not None and pair.score is not None:
            found[pair.criterion].append((pair.score, pair.human))
    everything = [each for its in found.values() for each in its]
    if len(everything) < FEWEST_LABELS:
        raise TooFewLabels(
            f"calibrating {judge} takes {FEWEST_LABELS} labels on criteria that its model decided; there are "
            f"{len(everything)}, so {FEWEST_LABELS - len(everything)} are missing: `toolatlas label EPISODE` adds some"
        )
    maps = {criterion: _fitted(its) for criterion, its in sorted(found.items()) if len(its) >= FEWEST_LABELS}
    return Calibration(judge=judge, maps={**maps, ALL: _fitted(everything)}, labels=len(everything))


def calibrated(verdicts: Sequence[Verdict], calibration: Calibration) -> tuple[Verdict, ...]:
    """The same verdicts, those with a score of a model moved by its criterion's map, or else by that of all."""
    return tuple(_moved(verdict, calibration.maps) for verdict in verdicts)


def _moved(verdict: Verdict, maps: Mapping[str, Knots]) -> Verdict:
    # Where code decided, there are no repeats.
    knots = maps.get(verdict.criterion, maps.get(ALL))
    if verdict.score is None or not verdict.repeats or knots is None:
        return verdict
    return replace(verdict, score=_at(knots, verdict.score))


def _at(knots: Knots, score: float) -> float:
    """Between two knots on the line through them; beyond the first or last as there."""
    place = bisect_right(knots, score, key=lambda knot: knot[0])
    if place == 0:
        return knots[0][1]
    if place == len(knots):
        return knots[-1][1]
    (left, low), (right, high) = knots[place - 1 : place + 1]
    return min(high, low + (high - low) * (score - left) / (right - left))


def _fitted(points: Sequence[tuple[float, float]]) -> Knots:
    """Least squares among the maps that never fall; equal scores get one value."""
    by_score: defaultdict[float, list[float]] = defaultdict(list)
    for score, human in points:
        by_score[score].append(human)
    scores = sorted(by_score)
    means = [sum(by_score[score]) / len(by_score[score]) for score in scores]
    numbers = [len(by_score[score]) for score in scores]
    found = scipy_part("optimize").isotonic_regression(means, weights=numbers).x
    # Rounding may carry a mean past what was averaged.
    values = [min(1.0, max(0.0, float(each))) for each in found]
    last = len(scores) - 1
    # Within a level part only its ends are needed.
    kept = [at for at in range(last + 1) if at in (0, last) or not values[at - 1] == values[at] == values[at + 1]]
    return tuple((scores[at], values[at]) for at in kept)
