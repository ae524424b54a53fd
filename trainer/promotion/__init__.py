"""From candidate to active: what has to be shown at each step, and the way back where it is not."""
