"""Trajectories of real runs over real servers, good ones and ones with one planted defect of a known kind.

`python -m bench.corpus --out FOLDER` makes it: `running.py` starts published MCP servers behind one gateway and lets a
scripted agent do every task of `families.py` in every variant; `made.py` reads the result. Which tasks and kinds are
set aside, and which were added after that was looked at, is in `split.py`. Writers of checks do not open the files
named `set_aside_*.py`, `fresh_*.py` and `unseen_*.py`.
"""
