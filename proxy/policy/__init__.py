"""A small model as an agent: its actions are the gateway's meta-tools, and it works whole tasks by them."""
