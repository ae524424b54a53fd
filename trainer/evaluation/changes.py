"""Queries that are answered otherwise than before, for people to read: those that gained most, and those that lost.

Above: evaluating.py. Below: comparing.py.
"""

from __future__ import annotations

from proxy.router.metrics import reciprocal_rank
from proxy.store.training_report import Changed
from trainer.evaluation.comparing import Comparison

SHOWN = 5
"""Tools of each answer."""


def changes(comparison: Comparison, after: str, before: str, most: int) -> tuple[Changed, ...]:
    """At most `most`, as many losses as gains where there are enough of both; where the first tools stayed as they were
    there is nothing to read."""
    found: list[Changed] = []
    for task, new, old in zip(comparison.tasks, comparison.answers[after], comparison.answers[before], strict=True):
        if new.tools[:SHOWN] == old.tools[:SHOWN]:
            continue
        found.append(
            Changed(
                episode_id=task.episode_id,
                query=task.query.text,
                before=old.tools[:SHOWN],
                after=new.tools[:SHOWN],
                right=tuple(sorted(task.right)),
                gain=reciprocal_rank(new.tools, task.tools) - reciprocal_rank(old.tools, task.tools),
            )
        )
    ordered = sorted(found, key=lambda each: (-each.gain, each.query))
    lost = [each for each in reversed(ordered) if each.gain < 0][: most // 2]
    gained = [each for each in ordered if each.gain >= 0][: most - len(lost)]
    return (*gained, *lost)
