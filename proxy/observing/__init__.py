"""What a running gateway tells of itself to monitoring: Prometheus metrics and OpenTelemetry spans, never contents."""
