"""Writers of rubrics: a model, and code that learns from good trajectories of the same family."""
