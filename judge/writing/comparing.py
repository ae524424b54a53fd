"""What two rubrics have in common, and whether they say the same of the same episodes, whoever wrote them.

Above: `toolatlas rubric diff`. Below: rapidfuzz for texts, scipy for ranks, which is imported where it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from rapidfuzz.fuzz import token_sort_ratio

from judge.rubric import Category, Criterion, Kind, Rubric
from proxy.errors import ConfigurationError

PAPER: Mapping[Category, int] = {
    Category.TASK_FULFILMENT: 5,
    Category.TOOL_APPROPRIATENESS: 3,
    Category.TOOL_GROUNDING: 2,
    Category.PARAMETER_ACCURACY: 2,
}
"""Criteria per category of a rubric of ATLAS (arXiv 2603.06713, section 3.2)."""
_NEAR = 80.0
"""The least `token_sort_ratio` (0 to 100) of two texts that say nearly the same; one number changed leaves more."""
_LEAST_RANKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A rubric in figures."""

    criteria: int
    weights: Mapping[Category, float]
    """Share of the criteria's weights that each category has, pitfalls included; they add up to 1."""
    counts: Mapping[Category, int]
    checks: float
    """Share of the criteria that code decides."""
    off_paper: float
    """Share of the criteria that would have to be in another category to have the paper's distribution, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One criterion that both have, put otherwise."""

    before: Criterion
    after: Criterion
    members: tuple[str, ...]
    """Which members differ, in the order in which a criterion has them; `parameters` as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two rubrics beside each other."""

    same: tuple[Criterion, ...]
    changed: tuple[Change, ...]
    only_first: tuple[Criterion, ...]
    only_second: tuple[Criterion, ...]
    first: Shape
    second: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardAgreement:
    """What two rubrics say of the same episodes."""

    episodes: int
    """Those that both gave a reward to."""
    rank_correlation: float | None
    """Spearman's, -1 to 1."""
    why: str
    """Why there is no rank correlation; empty where there is one."""
    mean_difference: float | None
    """Of the second's rewards from the first's; above 0 the second is the milder one. None without episodes."""


def compare(first: Rubric, second: Rubric) -> Comparison:
    """Pairs the criteria: equal ones, then those of one id, then those that say nearly the same or ask the same."""
    left, right = list(first.criteria), list(second.criteria)
    same = [each for each in left if each in right]
    left, right = [each for each in left if each not in same], [each for each in right if each not in same]
    changed: list[Change] = []
    for near in (_same_id, _same_question, _near_text):
        for before in list(left):
            after = next((each for each in right if near(before, each)), None)
            if after is not None:
                changed.append(Change(before=before, after=after, members=_differing(before, after)))
                left.remove(before)
                right.remove(after)
    return Comparison(
        same=tuple(same),
        changed=tuple(changed),
        only_first=tuple(left),
        only_second=tuple(right),
        first=shape(first),
        second=shape(second),
    )


def shape(rubric: Rubric) -> Shape:
    """The figures of one rubric."""
    criteria = rubric.criteria
    whole = sum(each.weight for each in criteria)
    counted = Counter(each.category for each in criteria)
    wanted = sum(PAPER.values())
    off = sum(abs(counted[each] / len(criteria) - PAPER[each] / wanted) for each in Category) / 2
    return Shape(
        criteria=len(criteria),
        weights={each: sum(one.weight for one in criteria if one.category is each) / whole for each in Category},
        counts={each: counted[each] for each in Category},
        checks=sum(each.kind is Kind.CHECK for each in criteria) / len(criteria),
        off_paper=off,
    )


def agreement_of(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> RewardAgreement:
    """How far two rubrics agree on episodes, by their rewards; an episode that one gave none to is left out.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    both = sorted(each for each in first.keys() & second.keys() if first[each] is not None and second[each] is not None)
    pairs = [(one, other) for each in both if (one := first[each]) is not None and (other := second[each]) is not None]
    why = _unranked(pairs)
    return RewardAgreement(
        episodes=len(pairs),
        rank_correlation=None if why else _spearman(pairs),
        why=why,
        mean_difference=sum(other - one for one, other in pairs) / len(pairs) if pairs else None,
    )


def _same_id(before: Criterion, after: Criterion) -> bool:
    return before.id == after.id


def _same_question(before: Criterion, after: Criterion) -> bool:
    """The same check with the same parameters, or the same text."""
    if before.check is not None and before.check == after.check and before.parameters == after.parameters:
        return True
    return before.text == after.text


def _near_text(before: Criterion, after: Criterion) -> bool:
    if before.category is not after.category or before.check != after.check:
        return False
    return token_sort_ratio(before.text, after.text) >= _NEAR


def _differing(before: Criterion, after: Criterion) -> tuple[str, ...]:
    names = (each.name for each in fields(Criterion))
    return tuple(name for name in names if getattr(before, name) != getattr(after, name))


def _unranked(pairs: Sequence[tuple[float, float]]) -> str:
    if len(pairs) < _LEAST_RANKED:
        return f"only {len(pairs)} episodes have a reward of both; ranks need {_LEAST_RANKED}"
    for place, which in enumerate(("first", "second")):
        if len({pair[place] for pair in pairs}) == 1:
            return f"the {which} rubric gives all of them the same reward"
    return ""


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    try:
        from scipy.stats import spearmanr  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
    except ModuleNotFoundError:
        raise ConfigurationError("comparing rewards needs scipy: pip install 'toolatlas[judge]'") from None
    found = spearmanr([one for one, _ in pairs], [other for _, other in pairs])
    return float(found.statistic)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportAttributeAccessIssue]
