"""The trainer: reads judged trajectories, writes router adapters."""
