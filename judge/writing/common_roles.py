"""In which places good answers of one task tell the facts that they agree on.

Above: of_task.py. Below: sources.py, checks' surroundings.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge.checks.surroundings import Surroundings
from judge.checks.values import Value, values_in
from judge.checks.words import fold
from judge.writing.common_pairs import common_words
from judge.writing.sources import Source

MAX_FACTS = 16
MAX_KNOWN = 50


def common_roles(sources: Sequence[Source], agreed: Sequence[Value]) -> dict[str, Any]:
    """The parameters of `told_in_place`; none where there are no two facts."""
    words = [word for word in common_words(sources) if not any(word.written in fold(fact.written) for fact in agreed)]
    facts = [*agreed, *words][:MAX_FACTS]
    told = [Surroundings(source.case.answer or "", source.case.task or "", facts) for source in sources]
    around = [each.around for each in told]
    listed = frozenset[tuple[int, int]]().union(*(each.listed for each in told))
    written = [fact.written for fact in facts]
    if len(facts) < 2:
        return {}
    found: dict[str, Any] = {"facts": written, "around": [[each and dict(each) for each in one] for one in around]}
    told = dict.fromkeys(value.written for source in sources for value in values_in(source.case.answer or ""))
    found["known"] = [each for each in told if each not in written][:MAX_KNOWN]
    if listed:
        found["listed_together"] = [[written[one], written[other]] for one, other in sorted(listed)]
    return found
