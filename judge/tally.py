"""What came of a run: how many episodes were judged, rewarded or not and why, in which scope, by which rubric, at what
cost. Adds up over batches and over processes.

Above: running.py, processes.py, commands/run.py. Below: judging.py's `Judged`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from judge.model.endpoint import Cost

if TYPE_CHECKING:
    from judge.judging import Judged

_SHARE = re.compile(r"\d+%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Sums over judgements that were written."""

    judged: int = 0
    rewarded: int = 0
    rewards: float = 0.0
    """Sum of the rewards there are."""
    unrewarded: Counter[str] = field(default_factory=Counter[str])
    """By reason, shares left out of it: `…% of the weight could not be decided`."""
    scopes: Counter[str] = field(default_factory=Counter[str])
    rubrics: Counter[str] = field(default_factory=Counter[str])
    """By hash."""
    broken: int = 0
    """Episodes whose judging failed by a mistake of ours; they are among the unrewarded."""
    cost: Cost = field(default_factory=Cost)

    @classmethod
    def of(cls, judged: Iterable[tuple[str, Judged]], *, broken: int = 0) -> Tally:
        """Of pairs of a rubric's hash and what was judged by it."""
        pairs = list(judged)
        rewards = [each.reward.value for _, each in pairs if each.reward.value is not None]
        return cls(
            judged=len(pairs),
            rewarded=len(rewards),
            rewards=sum(rewards),
            unrewarded=Counter(_SHARE.sub("…%", each.reward.unrewarded) for _, each in pairs if each.reward.unrewarded),
            scopes=Counter(str(each.reward.scope) for _, each in pairs),
            rubrics=Counter(rubric for rubric, _ in pairs),
            broken=broken,
            cost=sum((each.cost for _, each in pairs), Cost()),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            judged=self.judged + other.judged,
            rewarded=self.rewarded + other.rewarded,
            rewards=self.rewards + other.rewards,
            unrewarded=self.unrewarded + other.unrewarded,
            scopes=self.scopes + other.scopes,
            rubrics=self.rubrics + other.rubrics,
            broken=self.broken + other.broken,
            cost=self.cost + other.cost,
        )

    @property
    def mean_reward(self) -> float | None:
        return self.rewards / self.rewarded if self.rewarded else None

    def content(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "judged": self.judged,
            "rewarded": self.rewarded,
            "mean_reward": self.mean_reward,
            "unrewarded": dict(self.unrewarded.most_common()),
            "scopes": dict(self.scopes.most_common()),
            "rubrics": dict(self.rubrics.most_common()),
            "broken": self.broken,
            "cost": self.cost.content(),
        }
