"""The rubric judge: reads trajectories, writes judgements. Imports proxy.store only."""
