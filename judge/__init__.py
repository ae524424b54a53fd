"""The rubric judge: reads trajectories, writes judgements. Imports proxy.store and proxy.errors only."""
