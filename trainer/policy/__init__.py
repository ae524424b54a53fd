"""A small model as a policy, tuned from the log: LoRA on what it would have read and written."""
