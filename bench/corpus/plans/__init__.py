"""One module for each family: its parameters, its plan, and the tasks that are not set aside."""
