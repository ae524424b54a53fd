"""What an evaluation goes by, with its defaults; frozen.

Above: evaluating.py. Below: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """Of one evaluation.

    Raises:
        ConfigurationError: A number cannot be meant.
    """

    folds: int = 5
    """Tests that are held out in turn, at most, each asked of an adapter that was trained without it, as long as
    nothing is in force; 1 is the run's own alone. Each costs a training."""
    most_tasks: int = 1_000
    """Held-out tasks that are measured, of all folds together."""
    most_fitted: int = 150
    """Validation rankings that temperatures are fitted on."""
    agent_share: float = 0.2
    """Of the measured tasks, that any one agent may have; with fewer than five agents, an equal part."""
    margin: float = 0.5
    """As in training: rankings whose advantage is above minus this count as rewarded well."""
    examples: int = 20
    """Queries with changed answers in the report."""
    agents: int = 5
    """Agents with a slice of their own, those with the most tasks."""
    examination: tuple[float, ...] | None = None
    """Of each place, the probability that an agent reads as far, relative to the first; None estimates it of swaps."""
    least_rankings: int = 200
    """With propensities, below which there are no off-policy estimates."""
    least_effective: float = 100.0
    """Effective sample size that they ask for."""
    least_swaps: int = 30
    """Of each pair of neighbours, for an examination that is estimated."""

    def __post_init__(self) -> None:
        if not 0 < self.agent_share <= 1:
            raise ConfigurationError(f"agent_share is above 0 and at most 1, not {self.agent_share:g}")
        if (
            min(self.folds, self.most_tasks, self.least_rankings, self.least_swaps, self.agents) < 1
            or self.least_effective <= 0
        ):
            raise ConfigurationError("numbers of folds, tasks, rankings, swaps and agents are at least 1")
        if self.examination is not None and not all(0 < each <= 1 for each in self.examination):
            raise ConfigurationError("an examination is above 0 and at most 1")
