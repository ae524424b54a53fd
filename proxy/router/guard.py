"""Takes an adapter back at once that fails or is late, from what this process sees, before any log is read.

Above: app.py. Below: serving.py, which tells of every query. Whether agents were served well it cannot see: that is
read from the log (trainer/promotion/watching.py), by a test whose errors are bounded. This one is a fuse.

The canary is compared with what answers the other tasks at the same time on the same machine, so that a machine that is
busy fails neither. Wald's sequential probability ratio test of Bernoulli trials (A. Wald, "Sequential tests of
statistical hypotheses", Annals of Mathematical Statistics 16, 1945): of n queries x failed,

    log-likelihood ratio = x log(p1 / p0) + (n - x) log((1 - p1) / (1 - p0)),    taken back at log(1 / alpha),

where p0 is the share of the others that failed, at least `floor`, and p1 = p0 + `worse`. With p0 estimated, alpha is
not exact. The active adapter has nothing to be compared with here: a busy machine, or one agent whose query no encoder
takes, would take back whatever serves well. It is watched in the log, over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proxy.router.serving import Serving
from proxy.router.unanswered import Why

CRASHES = 3
"""Ends of the router's process while the same canary is in force: after so many it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When it is enough."""

    floor: float = 0.05
    """Share of failures that is not worth noticing."""
    worse: float = 0.2
    """How much larger a share is."""
    alpha: float = 0.001
    """How often, at most, one that is no worse is taken back."""


@dataclass(slots=True)
class _Count:
    queries: int = 0
    failed: int = 0

    def add(self, failed: bool) -> None:
        self.queries += 1
        self.failed += failed


class CanaryGuard:
    """Watches a gateway's canaries for as long as it runs."""

    def __init__(self, serving: Serving, withdraw: Callable[[str, str], None], limits: Limits | None = None) -> None:
        """`withdraw`: told the hash (the name of its folder) of a canary that has to go, and why."""
        self._serving = serving
        self._withdraw = withdraw
        self._limits = limits or Limits()
        self._of: Path | None = None
        self._canary, self._others, self._starts = _Count(), _Count(), 0
        serving.watchers.append(self.note)

    def note(self, adapter: Path | None, why: Why | None) -> None:
        """A query that `adapter` was to answer, and why it did not."""
        canary = self._serving.roles.canary
        if canary is None:
            return
        starts = self._serving.process.health.starts
        if canary != self._of:
            self._of, self._canary, self._others, self._starts = canary, _Count(), _Count(), starts
        (self._canary if adapter == canary else self._others).add(why in (Why.LATE, Why.FAILING))
        if starts - self._starts >= CRASHES:
            ended = f"the router's process ended {starts - self._starts} times while it was the canary"
            self._withdraw(canary.name, ended)
        elif self._fails():
            count, others = self._canary, self._others
            self._withdraw(
                canary.name,
                f"{count.failed} of its {count.queries} queries failed or were late, and {others.failed} of "
                f"{others.queries} of the others",
            )

    def _fails(self) -> bool:
        count, others, limits = self._canary, self._others, self._limits
        # One failure more than there were: of few queries little is known.
        usual = max(limits.floor, (others.failed + 1) / (others.queries + 1))
        bad = usual + limits.worse
        if bad >= 1.0:
            return False
        ratio = count.failed * math.log(bad / usual)
        ratio += (count.queries - count.failed) * math.log((1 - bad) / (1 - usual))
        return ratio >= math.log(1 / limits.alpha)
