"""Which of two things that the task offers good answers took."""

from __future__ import annotations

import pytest

from judge.case import Case
from judge.scripted import scripted
from judge.writing.common_choices import common_choices
from judge.writing.sources import Source

TASK = "Note 'over the limit' or 'within the limit', and say whether the hall is open or closed."


@pytest.mark.parametrize(
    ("answers", "pairs"),
    [
        (
            ("Over the limit; closed.", "closed, over the limit"),
            [["over the limit", "within the limit"], ["closed", "open"]],
        ),
        (("Over the limit.", "It is over the limit."), [["over the limit", "within the limit"]]),
        (("Over the limit, not within the limit.", "Over the limit."), []),
        (("Over the limit.", "Within the limit."), []),
    ],
)
def test_what_all_answers_have_and_none_of_the_other_is_the_choice(answers: tuple[str, str], pairs: list[list[str]]):
    sources = [Source(Case(scripted({"task": TASK, "answer": each, "steps": []}))) for each in answers]
    assert common_choices(sources) == pairs
