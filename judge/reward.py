"""From verdicts to one number: a weighted mean per category, then a weighted sum over categories (ATLAS, section 3.2).

Above: judging.py, trust/calibration.py, trainer. Below: rubric.py, verdict.py, scope.py, settings.py. Pure, and
exact until the end, so that neither the order of criteria nor rounding ever decides.

A criterion *counts* unless it was left out (`Why.left_out`), or is a model's in a scope without one; what counts is
*decided* or *missing*. For category k with weight W(k), criteria c of weight w(c) and score s(c):

    subtotal(k) = max(0, (sum of w·s over credit - pitfall_share · sum of w·s over pitfalls) / sum of w over credit)

where credit are the decided criteria that are no pitfalls, and pitfalls the decided ones that are. Where no criterion
of credit counts at all, the category has only pitfalls: it starts from 1 and shares them among themselves,

    subtotal(k) = max(0, 1 - pitfall_share · sum of w·s over pitfalls / sum of w over pitfalls)

Where criteria of credit count but all are missing, the category has no subtotal, whatever its pitfalls say: nothing was
earned from which they could take. The value is the mean of the subtotals that there are, weighted by W(k): a category
without one leaves its weight to the others. What it hides is felt in the share that is missing, over the categories of
which anything counts:

    missing share = sum of W(k) · (missing w / counting w) of k, over the sum of W(k)

There is no value where that share is more than `most_missing`, an essential criterion is missing, or nothing of any
weight was decided. Otherwise, with an essential criterion below 0.5, the value is at most `essential_cap`.

Credits say which steps earned it. A decided verdict gives g = 2s - 1 (of a pitfall 1 - 2s) to every step that it names;
its share of the reward is a(c) = W(k) · w / (the divisor of its category above), of a pitfall times `pitfall_share`:

    credit(step) = sum of a·g / sum of a, over the verdicts that name it

which is within -1 and 1. Steps that no verdict with a share names are absent, and all are where there is no value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from judge.rubric import Category, Criterion, Kind, Rubric
from judge.scope import Scope
from judge.settings import RewardSettings
from judge.verdict import Verdict, Why

HALF = 0.5
"""An essential criterion below it has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """What a trajectory is worth under one rubric, in one scope."""

    scope: Scope
    value: float | None
    """0 to 1; None where it cannot be told."""
    unrewarded: str
    """Why there is no value, at most 200 characters; empty where there is one."""
    subtotals: Mapping[Category, float | None]
    """All four categories; None for those with nothing decided that could earn."""
    missing_share: float
    """0 to 1, of the weight in scope."""
    capped_by: tuple[str, ...]
    """Ids of the essential criteria that failed, in the rubric's order."""
    credits: Mapping[str, float]
    """By step id, -1 to 1."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One category: its criteria that count, each with its verdict."""

    weight: Fraction
    counting: tuple[tuple[Criterion, Verdict], ...]

    @property
    def missing_share(self) -> Fraction:
        missing = sum(criterion.weight for criterion, verdict in self.counting if verdict.score is None)
        return Fraction(missing, sum(criterion.weight for criterion, _ in self.counting))

    @property
    def only_pitfalls(self) -> bool:
        return all(criterion.pitfall for criterion, _ in self.counting)

    @property
    def divisor(self) -> int:
        """Weight over which its decided criteria are shared; 0 where nothing could earn."""
        sharing = [each for each in self.counting if self.only_pitfalls or not each[0].pitfall]
        return sum(criterion.weight for criterion, verdict in sharing if verdict.score is not None)

    def subtotal(self, pitfall_share: Fraction) -> Fraction | None:
        if not self.divisor:
            return None
        earned = Fraction(self.divisor if self.only_pitfalls else 0)
        for criterion, verdict in self.counting:
            if verdict.score is not None:
                got = criterion.weight * Fraction(verdict.score)
                earned += -pitfall_share * got if criterion.pitfall else got
        return max(Fraction(0), earned / self.divisor)


def reward(rubric: Rubric, verdicts: Sequence[Verdict], scope: Scope, settings: RewardSettings) -> Reward:
    """The reward that `verdicts`, one on each criterion of `rubric` in any order, give.

    Raises:
        ValueError: A criterion has no verdict or two, or a verdict is on none of them.
    """
    by_criterion = {verdict.criterion: verdict for verdict in verdicts}
    criteria = {criterion.id: criterion for criterion in rubric.criteria}
    if len(by_criterion) != len(verdicts) or by_criterion.keys() != criteria.keys():
        raise ValueError(f"there is one verdict on each of {', '.join(criteria)}, and none on anything else")
    counting = {id_: each for id_, each in by_criterion.items() if _counts(criteria[id_], each, scope)}
    parts = _parts(rubric, counting, settings)
    pitfall_share = Fraction(settings.pitfall_share)
    subtotals = {category: part.subtotal(pitfall_share) for category, part in parts.items()}
    share = _mean([(part.weight, part.missing_share) for part in parts.values()]) or 0.0
    value = _mean([(parts[category].weight, total) for category, total in subtotals.items() if total is not None])
    essential = [(id_, counting[id_]) for id_, each in criteria.items() if each.essential and id_ in counting]
    failed = tuple(id_ for id_, verdict in essential if verdict.score is not None and verdict.score < HALF)
    unknown = [id_ for id_, verdict in essential if verdict.score is None]
    unrewarded = ""
    if unknown:
        unrewarded = f"the essential criterion {unknown[0]} could not be decided"
    elif share > settings.most_missing:
        unrewarded = (
            f"{share:.0%} of the weight in scope could not be decided, mostly {_commonest(counting.values())}; "
            f"at most {settings.most_missing:.0%} may be"
        )
    elif value is None:
        unrewarded = "nothing that has a weight was decided"
    if unrewarded:
        value = None
    elif value is not None and failed:
        value = min(value, settings.essential_cap)
    return Reward(
        scope=scope,
        value=value,
        unrewarded=unrewarded,
        subtotals={
            category: None if (total := subtotals.get(category)) is None else float(total) for category in Category
        },
        missing_share=share,
        capped_by=failed,
        credits={} if value is None else _credits(parts, pitfall_share),
    )


def _counts(criterion: Criterion, verdict: Verdict, scope: Scope) -> bool:
    if criterion.kind is Kind.JUDGE and not scope.model:
        return False
    return verdict.why is None or not verdict.why.left_out


def _parts(rubric: Rubric, counting: Mapping[str, Verdict], settings: RewardSettings) -> dict[Category, _Part]:
    """The categories of which anything counts."""
    found: defaultdict[Category, list[tuple[Criterion, Verdict]]] = defaultdict(list)
    for criterion in rubric.criteria:
        if criterion.id in counting:
            found[criterion.category].append((criterion, counting[criterion.id]))
    return {category: _Part(Fraction(settings.weights[category]), tuple(each)) for category, each in found.items()}


def _mean(weighted: Sequence[tuple[Fraction, Fraction]]) -> float | None:
    """None where nothing has a weight."""
    whole = sum(weight for weight, _ in weighted)
    return float(sum(weight * value for weight, value in weighted) / whole) if whole else None


def _commonest(verdicts: Iterable[Verdict]) -> Why:
    reasons = Counter(verdict.why for verdict in verdicts if verdict.why is not None)
    return min(reasons, key=lambda why: (-reasons[why], why))


def _credits(parts: Mapping[Category, _Part], pitfall_share: Fraction) -> dict[str, float]:
    given: defaultdict[str, list[tuple[Fraction, Fraction]]] = defaultdict(list)
    for part in parts.values():
        divisor = part.divisor
        for criterion, verdict in part.counting:
            if not divisor or verdict.score is None or not verdict.steps:
                continue
            gain = 2 * Fraction(verdict.score) - 1
            share = part.weight * criterion.weight / divisor
            if criterion.pitfall:
                gain, share = -gain, share * pitfall_share
            for step in dict.fromkeys(verdict.steps):
                given[step].append((share, gain))
    means = {step: _mean(each) for step, each in given.items()}
    return {step: mean for step, mean in means.items() if mean is not None}
