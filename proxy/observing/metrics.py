"""Counts steps, the calls in them and the router's decisions, for Prometheus.

Above: app.py makes it and has every step told to it. Below: the registry that exposition.py serves. All labels have few
values: names come from the configuration, the catalogue or the gateway itself, and never from what an agent wrote.
"""

from __future__ import annotations

from collections.abc import Set

from prometheus_client import CollectorRegistry, Counter, Histogram

from proxy.store.recorder import Call, Decision, Ending, Step

MAX_TOOLS = 200
"""Tools that are counted by name, the first that are called. A catalogue may have thousands, each would be a dozen time
series for good, and a scrape would hold up calls; `toolatlas stats` has them all."""
OTHER = "other"
UNKNOWN = "unknown"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""From what is answered at once to the usual limit of a call."""
RANKING_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class MetricsRecorder:
    """An observer of steps (proxy/metatools/steps.py). Of a step at level `off` it is told neither tool nor name."""

    def __init__(self, registry: CollectorRegistry, metatools: Set[str], *, max_tools: int = MAX_TOOLS) -> None:
        """`metatools`: their names; others that an agent calls in search mode are counted as one."""
        self._metatools = metatools
        self._max_tools = max_tools
        self._tools: set[tuple[str, str]] = set()
        self._steps = Counter(
            "toolatlas_steps",
            "Calls of agents that are over, and calls of their code (mode code), by meta-tool and outcome.",
            ("mode", "metatool", "outcome"),
            registry=registry,
        )
        self._step_s = Histogram(
            "toolatlas_step_duration_seconds",
            "From the agent's call to its answer; in mode code, from the code's call.",
            ("mode", "metatool"),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._calls = Counter(
            "toolatlas_calls",
            "Calls of servers' tools that are over. Those that came to no tool, of unknown names say, are steps only.",
            ("server", "tool", "mode", "outcome"),
            registry=registry,
        )
        self._call_s = Histogram(
            "toolatlas_call_duration_seconds",
            "From the check of the arguments to the server's answer, the start of the server and questions included.",
            ("server",),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._decisions = Counter(
            "toolatlas_decisions",
            "Rankings of tools for a search, by what ranked, and why a lesser one did.",
            ("policy", "degraded"),
            registry=registry,
        )
        self._decision_s = Histogram(
            "toolatlas_decision_duration_seconds",
            "Time that a ranking took.",
            ("policy",),
            buckets=RANKING_BUCKETS_S,
            registry=registry,
        )
        self._degraded = Counter(
            "toolatlas_router_degraded",
            "Searches that a lesser ranking answered than the one that was set up, by why.",
            ("reason",),
            registry=registry,
        )
        self._episodes = Counter("toolatlas_episodes", "Episodes that ended, and why.", ("reason",), registry=registry)

    def record(self, step: Step) -> None:
        metatool = self._metatool(step)
        self._steps.labels(step.mode, metatool, step.outcome.value).inc()
        self._step_s.labels(step.mode, metatool).observe(step.duration_ms / 1000)
        if step.call is not None:
            self._count_call(step, step.call)
        if step.decision is not None:
            self._count_decision(step.decision)

    def end(self, ending: Ending) -> None:
        self._episodes.labels(ending.reason.value).inc()

    def _count_call(self, step: Step, call: Call) -> None:
        self._calls.labels(call.server, self._tool(call), step.mode, step.outcome.value).inc()
        self._call_s.labels(call.server).observe(call.duration_ms / 1000)

    def _count_decision(self, decision: Decision) -> None:
        self._decisions.labels(decision.policy, decision.degraded or "").inc()
        self._decision_s.labels(decision.policy).observe(decision.duration_ms / 1000)
        if decision.degraded is not None:
            self._degraded.labels(decision.degraded).inc()

    def _metatool(self, step: Step) -> str:
        if step.mode != "search":
            return ""
        return step.name if step.name in self._metatools else UNKNOWN

    def _tool(self, call: Call) -> str:
        known = (call.server, call.tool)
        if not call.tool or known in self._tools:
            return call.tool
        if len(self._tools) >= self._max_tools:
            return OTHER
        self._tools.add(known)
        return call.tool
