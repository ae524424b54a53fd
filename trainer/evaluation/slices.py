"""What tasks have in common: by these, an adapter must lose nowhere.

Above: comparing.py. Below: tasks.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from proxy.store.training_report import ALL
from trainer.evaluation.tasks import HeldOut

SHORT_WORDS, LONG_WORDS = 5, 15
MANY_SERVERS = 3
NEARLY_ALL = 0.9
"""Of the tasks: a slice of more says what all of them say."""


def slices(
    tasks: Sequence[HeldOut], *, seen: Sequence[Collection[str]], scopes: Mapping[str, str], agents: int
) -> dict[str, list[int]]:
    """Name -> indices of its tasks; all of them first. A slice that is nearly all of them again is left out.

    Args:
        seen: Of each task, written names of servers that were used in the training that it was held out from.
        scopes: Episode -> scope of its reward.
        agents: How many of them have a slice, those with the most tasks.
    """
    counts = Counter(task.agent for task in tasks if task.agent is not None)
    most = {agent for agent, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:agents]}
    named: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        for name in _names(task, seen[index], scopes, most):
            named.setdefault(name, []).append(index)
    made = {name: its for name, its in sorted(named.items()) if len(its) <= NEARLY_ALL * len(tasks)}
    return {ALL: list(range(len(tasks))), **made}


def _names(task: HeldOut, seen: Collection[str], scopes: Mapping[str, str], agents: Collection[str]) -> list[str]:
    words = len(task.query.text.split())
    length = "short" if words <= SHORT_WORDS else "long" if words > LONG_WORDS else "middle"
    names = [f"query: {length}"]
    if task.servers:
        count = len(task.servers)
        names.append(f"servers: {count if count < MANY_SERVERS else f'{MANY_SERVERS} or more'}")
        # With one that training never saw, the task is what an unseen server is like.
        known = all(not need.isdisjoint(seen) for need in task.servers)
        names.append(f"servers: {'all seen in training' if known else 'some not seen in training'}")
    if task.agent in agents:
        names.append(f"agent: {task.agent}")
    if task.episode_id is not None and task.episode_id in scopes:
        names.append(f"scope: {scopes[task.episode_id]}")
    return names
