"""Which of two things that the task offers good answers took.

Above: of_task.py. Below: sources.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judge.checks.reading import Reading
from judge.checks.words import clean, fold
from judge.writing.sources import Source

MAX_PAIRS = 8
_THING = r"(?:'[^'\n]{2,60}'|\"[^\"\n]{2,60}\"|[^\W\d_]{2,30})"
_OFFERED = re.compile(rf"({_THING}),? or ({_THING})")


def common_choices(sources: Sequence[Source]) -> list[list[str]]:
    """Pairs that the task offers with "or", the one first that all answers have, while none has the other."""
    answers = [Reading(source.case.answer or "") for source in sources]
    found: list[list[str]] = []
    for match in _OFFERED.finditer(clean(sources[0].case.task or "")):
        one, other = (each.strip("'\"") for each in match.groups())
        for right, wrong in ((one, other), (other, one)):
            if all(each.has_text(fold(right)) and not each.has_text(fold(wrong)) for each in answers):
                found.append([right, wrong])
    return found[:MAX_PAIRS]
