"""What a router's order of the tools that were shown would have brought, estimated from the log of another one.

Above: evaluating.py. Below: shown_log.py, position.py. With e the examination of places (position.py), k the place
where a tool stood, P where it might have stood, t the place where the router puts it, and c whether it was used
rightly, its weight under the position-based model is

    w = e_t / E_{k ~ P}[e_k]

(S. Li, Y. Abbasi-Yadkori, B. Kveton, S. Muthukrishnan, V. Vinay, Z. Wen, "Offline Evaluation of Ranking Policies with
Click Models", KDD 2018). Over N rankings, right uses per ranking are

    SNIPS          (Σ w c / Σ w e_k) · Σ e_t / N
    doubly robust  (Σ e_t r + Σ w (c - e_k r)) / N

SNIPS divides by what the weights add up to, whose expectation is known: Σ e_t (A. Swaminathan and T. Joachims, "The
Self-Normalized Estimator for Counterfactual Learning", NeurIPS 2015). r is how relevant a tool is expected to be from
the place at which it was ranked, Σ c / Σ e_k there, fitted on the other half of the episodes: a wrong r costs
precision, and no truth (M. Dudík, J. Langford, L. Li, "Doubly Robust Policy Evaluation and Learning", ICML 2011;
H. Oosterhuis, "Doubly Robust Estimation for Correcting Position Bias in Click Feedback for Unbiased Learning to Rank",
TOIS 2023). A wrong e spoils both.

Only tools that were shown change places: nothing is said of what was not shown, nor of how many are shown. Intervals
are percentile bootstraps over episodes; where e is estimated, each resample estimates it anew. The effective sample
size is (Σ w)² / Σ w² over tools (L. Kish, 1965), in rankings of the mean size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from proxy.store.training_report import Estimated, FromLog, NoEstimate, OffPolicy
from trainer.evaluation.position import examination, swaps_of_pairs
from trainer.evaluation.settings import EvaluationSettings
from trainer.evaluation.shown_log import Real, ShownLog

SNIPS, DOUBLY_ROBUST = "snips", "doubly robust"
DRAWS = 400
_SEED = 11


@dataclass(frozen=True, slots=True)
class _Values:
    """Of one resample."""

    logged: float
    snips: float
    doubly_robust: float


def from_log(log: ShownLog, settings: EvaluationSettings, *, draws: int = DRAWS) -> FromLog:
    """Both estimates, or why there are none."""
    swaps = swaps_of_pairs(log)
    given = settings.examination
    if given is None:
        model = f"examination estimated from {sum(swaps)} swapped neighbours"
    else:
        model = "examination as given: " + ", ".join(f"{each:g}" for each in given)
    reason = too_little(log, settings)
    whole = np.ones(len(log.used))
    examined = _examination(log, given)(whole) if reason is None else np.zeros(0)
    effective = 0.0 if reason is not None else effective_size(log, examined)
    if reason is None and effective < settings.least_effective:
        reason = (
            f"no estimate: the rankings are worth {effective:.0f} of equal weight, since the adapter orders otherwise "
            f"than was shown, and {settings.least_effective:g} are needed; promotion relies on the canary"
        )
    return FromLog(
        rankings=log.rankings,
        swaps=log.swaps,
        examination=tuple(map(float, examined)),
        position_model=model,
        results=() if reason is not None else _results(log, _examination(log, given), effective, draws),
        none=None if reason is None else NoEstimate(reason=reason),
    )


def effective_size(log: ShownLog, examined: Real) -> float:
    """In rankings."""
    weights = _weights(log, examined)
    return float(weights.sum() ** 2 / (weights**2).sum() / (len(weights) / log.rankings))


def _results(log: ShownLog, examined: Callable[[Real], Real], effective: float, draws: int) -> tuple[OffPolicy, ...]:
    random = np.random.default_rng(_SEED)
    drawn: list[_Values] = []
    for _ in range(draws):
        often = np.bincount(random.integers(log.episodes, size=log.episodes), minlength=log.episodes)
        weights = often[log.episode].astype(np.float64)
        drawn.append(_values(log, examined(weights), weights))
    whole = np.ones(len(log.used))
    value = _values(log, examined(whole), whole)
    return tuple(
        OffPolicy(
            name=name,
            logged=value.logged,
            estimate=_interval(_of(value, name), [_of(each, name) for each in drawn]),
            difference=_interval(_of(value, name) - value.logged, [_of(each, name) - each.logged for each in drawn]),
            effective=effective,
        )
        for name in (SNIPS, DOUBLY_ROBUST)
    )


def _of(values: _Values, name: str) -> float:
    return values.snips if name == SNIPS else values.doubly_robust


def _values(log: ShownLog, examined: Real, often: Real) -> _Values:
    """Per ranking; `often`: how many times each entry counts."""
    weights = _weights(log, examined)
    at_shown, at_target = examined[log.shown], examined[log.target]
    rankings = float((often / log.size).sum())
    used = often * log.used
    expected = float((often * at_target).sum())
    relevance = _relevance(log, at_shown, often)
    corrected = often * (at_target * relevance + weights * (log.used - at_shown * relevance))
    return _Values(
        logged=float(used.sum()) / rankings,
        snips=float((weights * used).sum() / (often * weights * at_shown).sum()) * expected / rankings,
        doubly_robust=float(corrected.sum()) / rankings,
    )


def _weights(log: ShownLog, examined: Real) -> Real:
    last = len(examined) - 1
    expected = sum(
        log.stood(place) * examined[np.clip(place, 0, last)] for place in (log.ranked - 1, log.ranked, log.ranked + 1)
    )
    return examined[log.target] / expected


def _relevance(log: ShownLog, at_shown: Real, often: Real) -> Real:
    """Of each entry, from the other half of the episodes; 0 where that says nothing."""
    half = log.episode % 2
    made = np.zeros(len(log.used))
    for side in (0, 1):
        others, own = half != side, half == side
        uses = np.bincount(log.ranked[others], (often * log.used)[others], log.places)
        examined = np.bincount(log.ranked[others], (often * at_shown)[others], log.places)
        made[own] = np.divide(uses, examined, out=np.zeros(log.places), where=examined > 0)[log.ranked[own]]
    return made


def _examination(log: ShownLog, given: Sequence[float] | None) -> Callable[[Real], Real]:
    if given is None:
        return lambda weights: examination(log, weights)
    fixed = np.array(given[: log.places])
    return lambda _: fixed


def too_little(log: ShownLog, settings: EvaluationSettings) -> str | None:
    """Why the log allows no estimate of any order; None where it may."""
    if log.rankings < settings.least_rankings:
        return (
            f"no estimate: {log.rankings} of the {settings.least_rankings} rankings needed showed two tools or more; "
            "promotion relies on the canary"
        )
    if settings.examination is not None:
        if len(settings.examination) >= log.places:
            return None
        return (
            f"no estimate: rankings showed up to {log.places} tools, and an examination is given for "
            f"{len(settings.examination)} places"
        )
    swaps = swaps_of_pairs(log)
    fewest = min(swaps)
    if fewest < settings.least_swaps:
        place = swaps.index(fewest) + 1
        return (
            f"no estimate: places {place} and {place + 1} were swapped {fewest} times, and {settings.least_swaps} are "
            "needed to know how far agents read; promotion relies on the canary"
        )
    return None


def _interval(value: float, drawn: Sequence[float]) -> Estimated:
    low, high = np.quantile(np.array(drawn), (0.025, 0.975))
    return Estimated(value=value, low=float(low), high=float(high))
