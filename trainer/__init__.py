"""The trainer: from judged trajectories to adapters of the router, and through gates into the gateway."""
