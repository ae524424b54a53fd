"""From the log to rows: what was judged, its advantages, its splits and its caps."""
