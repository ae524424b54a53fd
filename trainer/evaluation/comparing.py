"""Routers on the same tasks: figures of each, and paired differences of one against another, slice by slice.

Above: evaluating.py, and the bench of learning. Below: answers.py, slices.py. Intervals are percentile bootstraps over
clusters: tasks that need the same servers are drawn together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from proxy.router.base import Router
from proxy.router.metrics import Estimate, bootstrap
from proxy.store.training_report import Estimated, Slice
from trainer.evaluation.answers import Answer, answered, worth
from trainer.evaluation.tasks import HeldOut


@dataclass(frozen=True)
class Comparison:
    """What routers said to the same tasks."""

    tasks: tuple[HeldOut, ...]
    answers: Mapping[str, Sequence[Answer]]
    """Router -> its answer to each task."""

    @cached_property
    def worths(self) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Router -> figures of each task."""
        return {
            router: [worth(task, answer) for task, answer in zip(self.tasks, its, strict=True)]
            for router, its in self.answers.items()
        }

    def figures(self, router: str) -> dict[str, Estimated]:
        """Means over all tasks that have the figure."""
        found: dict[str, Estimated] = {}
        for name in self._names(router):
            its = [(each[name], task.cluster) for each, task in self._pairs(router) if name in each]
            found[name] = estimated(bootstrap([value for value, _ in its], clusters=[cluster for _, cluster in its]))
        return found

    def differences(self, after: str, before: str, slices: Mapping[str, Sequence[int]]) -> list[Slice]:
        """`after` minus `before`: of each slice and figure, those of the first slice first."""
        made: list[Slice] = []
        for name, members in slices.items():
            for figure in self._names(after):
                its = [index for index in members if figure in self.worths[after][index]]
                if its:
                    made.append(self._slice(name, figure, its, after, before))
        return made

    def _slice(self, name: str, figure: str, members: Sequence[int], after: str, before: str) -> Slice:
        now = [self.worths[after][index][figure] for index in members]
        was = [self.worths[before][index][figure] for index in members]
        clusters = tuple(self.tasks[index].cluster for index in members)
        differences = tuple(new - old for new, old in zip(now, was, strict=True))
        return Slice(
            name=name,
            figure=figure,
            tasks=len(members),
            before=fmean(was),
            after=fmean(now),
            difference=estimated(bootstrap(differences, clusters=clusters)),
            differences=differences,
            clusters=clusters,
        )

    def _names(self, router: str) -> list[str]:
        return list(dict.fromkeys(name for each in self.worths[router] for name in each))

    def _pairs(self, router: str) -> list[tuple[Mapping[str, float], HeldOut]]:
        return list(zip(self.worths[router], self.tasks, strict=True))


def joined(comparisons: Sequence[Comparison]) -> Comparison:
    """The tasks of all, with the answers that each router gave in its own. At least one; all of the same routers."""
    return Comparison(
        tuple(task for each in comparisons for task in each.tasks),
        {name: [answer for each in comparisons for answer in each.answers[name]] for name in comparisons[0].answers},
    )


def compare(routers: Mapping[str, Router], tasks: Sequence[HeldOut]) -> Comparison:
    """Ask every router every task."""
    return Comparison(tuple(tasks), {name: answered(router, tasks) for name, router in routers.items()})


def estimated(estimate: Estimate) -> Estimated:
    """For the report."""
    return Estimated(value=estimate.value, low=estimate.low, high=estimate.high)
