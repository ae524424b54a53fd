"""Whether a canary serves tasks worse than what it would replace: a test that may be looked at after every task.

Above: canary.py, which feeds it from the log, and simulating.py, which shows how often it is wrong. Below: nothing.

The unit is a task, not a search: searches of one task share its fate. Each task gives one value in [0, 1], such as the
share of its searches of which something was used. A block is one task of the canary, with value y, and the mean x of a
few tasks of the others that ended about then; tasks are assigned by a hash of their ids, so that where the canary is no
worse, the expectation of d = x - y given all before is at most 0, whatever the distribution and however it drifts. Then

    W_t = mean over bets b of  prod_{i <= t} (1 + b d_i),    b in {0.1, ..., 0.9},

is a non-negative supermartingale that begins at 1, and by Ville's inequality it ever reaches 1 / alpha with probability
at most alpha: `WORSE`. In the same way, with y - x + amount in place of d, "worse by `amount` or more" is given up at
1 / beta: `SAFE`, if enough was seen besides. The bets are those of I. Waudby-Smith and A. Ramdas, "Estimating means of
bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024), section 4; the mean over
bets stands in for the best one, and costs at most log 9 of the evidence.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

_BETS = tuple(step / 10 for step in range(1, 10))


class Found(StrEnum):
    """What a test has found so far."""

    OPEN = "open"
    WORSE = "worse"
    SAFE = "safe"
    """Not worse by the amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialSettings:
    """What a test is to tell apart.

    Raises:
        ValueError: A value cannot be meant.
    """

    amount: float = 0.2
    """The loss, in the mean of the tasks' values, that a canary must not have to become active."""
    alpha: float = 0.05
    """How often, at most, one that is no worse is found to be: shared by the outcomes that are watched (canary.py)."""
    beta: float = 0.05
    """How often, at most, one that is worse by `amount` is found not to be."""
    enough: int = 200
    """Searches of the canary's tasks that there have to be before it is found safe."""
    most_controls: int = 4
    """Tasks of the others in a block, where there are as many for each of the canary's."""

    def __post_init__(self) -> None:
        if not 0.0 < self.amount < 1.0 or not 0.0 < self.alpha < 1.0 or not 0.0 < self.beta < 1.0:
            raise ValueError("amount, alpha and beta are between 0 and 1")
        if self.enough < 1 or self.most_controls < 1:
            raise ValueError("there are at least one search and one task to compare with")


class Bet:
    """Evidence against "the mean is at most 0", given all before, of values that are at least -1."""

    def __init__(self) -> None:
        self._logs = [0.0] * len(_BETS)

    def add(self, value: float) -> None:
        self._logs = [log + math.log1p(bet * value) for log, bet in zip(self._logs, _BETS, strict=True)]

    def wins(self, error: float) -> bool:
        """Whether `W` has reached 1 / error."""
        largest = max(self._logs)
        evidence = largest + math.log(sum(math.exp(log - largest) for log in self._logs) / len(_BETS))
        return evidence >= -math.log(error)


class SequentialTest:
    """Blocks in, findings out. What was found first stays found."""

    def __init__(self, settings: SequentialSettings, outcomes: int = 1) -> None:
        """`outcomes`: that are watched beside each other, this one included; they share alpha (Bonferroni)."""
        self._settings = settings
        self._alpha = settings.alpha / outcomes
        self._worse, self._safe = Bet(), Bet()
        self._sum = 0.0
        self.blocks = 0
        self.searches = 0
        """Of the canary's tasks."""
        self.found = Found.OPEN

    def add(self, canary: float, others: float, searches: int = 1) -> Found:
        """One block: values in [0, 1], and how many searches the canary's task had."""
        if self.found is not Found.OPEN:
            return self.found
        self.blocks += 1
        self.searches += searches
        self._sum += canary - others
        self._worse.add(others - canary)
        self._safe.add(canary - others + self._settings.amount)
        if self._worse.wins(self._alpha):
            self.found = Found.WORSE
        elif self.searches >= self._settings.enough and self._safe.wins(self._settings.beta):
            self.found = Found.SAFE
        return self.found

    @property
    def difference(self) -> float | None:
        """Mean of canary minus others over the blocks; None before the first one."""
        return self._sum / self.blocks if self.blocks else None


@dataclass(frozen=True, slots=True)
class TaskValue:
    """What one task says of one outcome."""

    canary: bool
    """Whether the canary was to answer it."""
    value: float
    """Between 0 and 1."""
    searches: int = 1
    kind: str = ""
    """Only tasks of one kind are compared: rewards of one judge and scope."""


@dataclass(frozen=True, slots=True)
class Block:
    canary: float
    others: float
    """Mean."""
    searches: int


class Blocks:
    """Makes blocks of tasks as they come. Which of the others stand in a block depends on their order alone, never on
    their values; of more than are needed the latest count, so that both sides are of the same time."""

    def __init__(self, share: float, most_controls: int) -> None:
        """`share`: of tasks that the canary answers, above 0."""
        self._wanted = max(1, min(most_controls, math.floor((1.0 - share) / share)))
        self._canaries: deque[TaskValue] = deque()
        self._others: deque[TaskValue] = deque()

    def add(self, task: TaskValue) -> Iterator[Block]:
        """The blocks that this task completes."""
        (self._canaries if task.canary else self._others).append(task)
        while self._canaries and len(self._others) >= self._wanted:
            canary = self._canaries.popleft()
            taken = [self._others.pop() for _ in range(self._wanted)]
            if not self._canaries:
                # Older ones would be compared with tasks of another time.
                self._others.clear()
            yield Block(canary.value, sum(each.value for each in taken) / self._wanted, canary.searches)


def run_through(
    tasks: Iterable[TaskValue], share: float, settings: SequentialSettings, *, outcomes: int = 1
) -> SequentialTest:
    """The test after these tasks, in the order in which they ended.

    Args:
        share: Of tasks that are the canary's, above 0. At 1 there is nothing to compare with, and all stays open.
        outcomes: As `SequentialTest` takes it.
    """
    test = SequentialTest(settings, outcomes)
    blocks: defaultdict[str, Blocks] = defaultdict(lambda: Blocks(share, settings.most_controls))
    for task in tasks:
        for block in blocks[task.kind].add(task):
            test.add(block.canary, block.others, block.searches)
        if test.found is not Found.OPEN:
            break
    return test
