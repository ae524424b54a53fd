"""What is read from the gateway at the time of a scrape: its servers, its tasks, how far its log is.

Above: app.py says where it is read. Below: the registry that exposition.py serves.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.store.recording import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterReading:
    """Of the router's process."""

    ready: bool
    """It can answer searches of the catalogue of the moment."""
    starts: int
    shadows: int
    """Rankings of the shadow adapter."""
    shadows_lost: int
    """Those that did not come about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Where a gateway is read. Each is called on the event loop at every scrape, and is quick."""

    version: str
    replica: str
    phases: Callable[[], Mapping[str, int]]
    """Servers by phase, phases without any included: an alert has to see the zero."""
    tools: Callable[[], int]
    tasks: Callable[[], int]
    log: Callable[[], Counts] | None
    """None where nothing is logged; there is then no metric of the log."""
    router: Callable[[], RouterReading] | None
    """None where tools are ranked by words alone; there is then no metric of the router's process."""


class Gauges(Collector):
    """Collects anew for each scrape, so that nothing has to be kept up to date in between."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        now = self._readings
        told = {"version": now.version, "replica": now.replica, "python": platform.python_version()}
        yield InfoMetricFamily("toolatlas_build", "What is running.", told)
        servers = GaugeMetricFamily("toolatlas_servers", "Configured servers by phase.", labels=("phase",))
        for phase, count in now.phases().items():
            servers.add_metric((phase,), count)
        yield servers
        yield GaugeMetricFamily("toolatlas_tools", "Tools in the catalogue.", now.tools())
        yield GaugeMetricFamily("toolatlas_tasks", "Tasks of agents that run.", now.tasks())
        if now.log is not None:
            yield from _of_log(now.log())
        if now.router is not None:
            yield from _of_router(now.router())


def _of_log(counts: Counts) -> Iterator[Metric]:
    yield CounterMetricFamily("toolatlas_log_assigned", "Steps that were given a number.", counts.assigned)
    yield CounterMetricFamily(
        "toolatlas_log_acknowledged", "Steps that are durable or known to be missing.", counts.acknowledged
    )
    yield CounterMetricFamily("toolatlas_log_shipped", "Steps that are in the tables.", counts.shipped)
    yield CounterMetricFamily("toolatlas_log_dropped", "Steps that there was no room for.", counts.dropped)
    yield GaugeMetricFamily(
        "toolatlas_log_waiting_bytes", "On their way into the tables, in memory and on disk.", counts.waiting_bytes
    )
    yield GaugeMetricFamily(
        "toolatlas_log_problem",
        "1 while the log cannot be written; the gateway's log says why.",
        counts.problem is not None,
    )


def _of_router(reading: RouterReading) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "toolatlas_router_ready", "1 while the router's process can answer searches.", reading.ready
    )
    yield CounterMetricFamily("toolatlas_router_starts", "Starts of the router's process.", reading.starts)
    yield CounterMetricFamily(
        "toolatlas_router_shadows", "Searches that the shadow adapter ranked, too.", reading.shadows
    )
    yield CounterMetricFamily(
        "toolatlas_router_shadows_lost", "Searches that the shadow adapter could not rank.", reading.shadows_lost
    )
