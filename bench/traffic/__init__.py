"""Simulated traffic: agents that work task files through the real gateway, before servers with canned results.

`python -m bench.traffic` makes it (running.py). Servers are real MCP servers in all but what they answer: each task has
a small made-up world (worlds.py) that only the tools it needs know of. Agents see what the gateway shows them and
nothing else; how well they choose is a model with stated rates (habits.py). What they did well and badly is written to
a file beside the log, for checking.py alone: it is never in the log, and no reward comes from it. Figures from such a
log are called simulated wherever they stand.
"""
