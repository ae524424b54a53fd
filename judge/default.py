"""The rubric that judges where no other is attached: it needs nothing to compare with, for it is about any task.

Above: running.py, trust/. Below: data/default.yaml, which is the rubric.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from judge.rubric import Rubric
from judge.rubric_files import parse

FILE = "data/default.yaml"


@cache
def default_rubric() -> Rubric:
    """The rubric of this version of the package."""
    return parse(files("judge").joinpath(FILE).read_text("utf-8"), f"judge/{FILE}")
