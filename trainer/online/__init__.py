"""Training on tasks that the policy works itself, through the live gateway; and rows for trainers of many machines."""
