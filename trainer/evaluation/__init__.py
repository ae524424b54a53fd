"""Whether what was trained is better, and how that is known."""
