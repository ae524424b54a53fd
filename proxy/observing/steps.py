"""Tells the span of a request what the request came to, once its step is finished.

Above: app.py, which has every step told to it. Below: requests.py, whose span is current where a step is recorded.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Tracer

from proxy.observing import spans
from proxy.store.recorder import Ending, Level, Outcome, Step

REFUSED = frozenset({Outcome.DENIED, Outcome.INVALID_ARGUMENTS})
"""What never reached a server, and so has no span of servers.py."""
NANOSECONDS = 1_000_000_000


class StepSpans:
    """An observer of steps (proxy/metatools/steps.py). Of a step at level `off` it is told neither tool nor name."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def record(self, step: Step) -> None:
        if step.parent is not None:
            if step.outcome in REFUSED:
                self._refused(step)
            return
        span = trace.get_current_span()
        # A call that was given up ends after its request.
        if span.is_recording():
            # A meta-tool is named from the start, and another name is nothing's unless something was called.
            if step.mode != "search" and step.call is not None and step.level is not Level.OFF:
                span.update_name(f"{spans.CALL} {step.name}")
                span.set_attribute(spans.TOOL, step.name)
            _tell(span, step)

    def end(self, ending: Ending) -> None:
        pass

    def _refused(self, step: Step) -> None:
        """A call of code that its run's span would otherwise not show."""
        tool = step.call.written if step.call is not None else ""
        begin = int(step.started_at.timestamp() * NANOSECONDS)
        span = self._tracer.start_span(
            f"{spans.EXECUTE_TOOL} {tool}" if tool else spans.EXECUTE_TOOL,
            kind=SpanKind.INTERNAL,
            attributes={spans.OPERATION: spans.EXECUTE_TOOL} | ({spans.TOOL: tool} if tool else {}),
            start_time=begin,
        )
        _tell(span, step)
        spans.fail(span, step.outcome.value)
        span.end(begin + int(step.duration_ms / 1000 * NANOSECONDS))


def _tell(span: Span, step: Step) -> None:
    span.set_attributes(
        {spans.OUTCOME: step.outcome.value, spans.MODE: step.mode, spans.AGENT: step.episode.agent}
        | ({spans.SERVER: step.server} if step.server is not None else {})
    )
    if step.level is not Level.OFF:
        # What is not in the log cannot be found there.
        span.set_attributes({spans.EPISODE: step.episode.id, spans.STEP: step.id})
