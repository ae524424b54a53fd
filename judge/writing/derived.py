"""The rubric writer that needs no model: it derives a rubric from good episodes of a task, or of a family of tasks.

Above: `toolatlas rubric write --derived`. Below: of_task.py, of_family.py, the library of checks, deciding.py. Of one
task, what all sources agree on is expected: facts in the answer, values passed on, tools for each end with their
alternatives. Of a family, the same is expressed by what relates a task to its run. Whatever is drafted is tried on the
sources first, and left out where a good episode does not meet it: a criterion has to be right before it may be sharp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge.case import Case
from judge.checks.library import Library
from judge.deciding import decide
from judge.rubric import Category, Criterion, Rubric
from judge.scope import Scope
from judge.writing.choosing import LEAST
from judge.writing.common_values import common_facts, given_facts, own_values, sent_values, signed
from judge.writing.comparing import PAPER
from judge.writing.drafting import usual
from judge.writing.families import task_key
from judge.writing.of_family import of_family
from judge.writing.of_task import of_task
from judge.writing.sources import Source
from proxy.errors import ConfigurationError

WRITER = "derived-3"
"""Raised whenever the same sources would give another rubric."""
MET = 0.8
"""The least that every source has to get of a criterion for it to stay."""
MOST: Mapping[Category, int] = {
    Category.TASK_FULFILMENT: 5,
    Category.TOOL_APPROPRIATENESS: 6,
    Category.TOOL_GROUNDING: 8,
    Category.PARAMETER_ACCURACY: 4,
}
"""Criteria per category; those of less weight go first. The paper has 5, 3, 2 and 2. A check tells less than a person's
criterion, so that it takes more of them for servers, instructions in results, and what belongs together."""
FILLER = 5
"""Criteria of at most this weight only fill up a category that has fewer than the paper's."""
_MORE = {"answer_has": "answer_given"}
"""Checks that make another needless."""


class WritingError(ConfigurationError):
    """No rubric can be made of this; the text says what would be needed."""


def derive(sources: Sequence[Case], *, tasks: Sequence[str] = (), library: Library) -> Rubric:
    """A rubric of checks for the task that all `sources` did, or where their tasks differ for their family.

    Args:
        sources: Good episodes with their contents, at least two, and catalogues as far as they are known.
        tasks: Texts of other tasks that it is to judge; with one that is not the sources', it is made for the family.
        library: What decides its criteria.

    Raises:
        WritingError: There are too few sources, they were logged without contents, or nothing can be said of them.
    """
    if len(sources) < LEAST:
        raise WritingError(f"a rubric is made of at least {LEAST} good episodes, and there are {len(sources)}")
    told = [case.task for case in sources if case.full and case.task is not None]
    if len(told) < len(sources):
        raise WritingError(
            "episodes that a rubric is made of have to be logged at level full, with the user's own words"
        )
    read = [Source(case) for case in sources]
    one_task = len({task_key(each) for each in (*told, *tasks)}) == 1
    if one_task:
        agreed = ([signed(fact) for fact in facts(read)] for facts in (common_facts, given_facts, own_values))
        drafted = of_task(read) + usual(sent_values(read), *agreed)
    else:
        drafted = of_family(read) + usual()
    kept = _sound([each for each in drafted if each.check in library], sources, library)
    checks = {each.check for each in kept}
    # What knows the facts and subjects says more than what has to guess them.
    needless = {_MORE[check] for check in checks if check in _MORE}
    kept = [each for each in kept if each.check not in needless]
    if not any(each.category is Category.TASK_FULFILMENT for each in kept):
        raise WritingError("the good episodes have nothing in common that another could be measured by")
    return Rubric(tuple(_spread(kept)))


def _sound(drafted: Sequence[Criterion], sources: Sequence[Case], library: Library) -> list[Criterion]:
    """Those that every source meets, or to which they are not applicable; at least half a rubric's text is a claim
    about good episodes, and here it is tried."""
    if not drafted:
        return []
    rubric = Rubric(tuple(drafted))
    library.validate(rubric)
    refuted: set[str] = set()
    for case in sources:
        for verdict in decide(rubric, case, library, Scope.of(case, model=False)):
            unknown = verdict.why is not None and not verdict.why.left_out
            if unknown or (verdict.score is not None and verdict.score < MET):
                refuted.add(verdict.criterion)
    return [each for each in drafted if each.id not in refuted]


def _spread(kept: Sequence[Criterion]) -> list[Criterion]:
    """In the order of the categories, the weightiest first, no more of each than belong there."""
    found: list[Criterion] = []
    for category in Category:
        own = sorted((each for each in kept if each.category is category), key=lambda each: (-each.weight, each.id))
        strong = [each for each in own if each.weight > FILLER][: MOST[category]]
        found += strong or own[:1]
        found += [each for each in own if each not in found][: max(0, PAPER[category] - len(strong or own[:1]))]
    return found
