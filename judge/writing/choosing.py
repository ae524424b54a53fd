"""Which episodes of a task or of a family may serve as good ones, that a rubric is made from.

Above: `toolatlas rubric write`. Below: nothing. An episode that a rubric was made from is never judged by it, so that
some are always left to be judged; and one alone is no source, since nobody can tell what was chance in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

GOOD = 0.8
"""The least that a person's label, or the default rubric's reward, says of a good one."""
LEAST = 2
MOST = 8
"""More than these teach nothing new, and would be lost to training's comparison within the group."""
_DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is known of one episode of the group."""

    episode_id: str
    agent: str
    """As the log names it; callers without credentials are one agent."""
    label: float | None
    """Mean of what people said of the whole episode, 0 to 1; None where nobody did."""
    reward: float | None
    """By the default rubric; None where there is none."""
    outcome: str | None
    """What the agent claimed: `done`, `failed`, `abandoned`."""


def choose_sources(group: Sequence[Candidate]) -> tuple[str, ...]:
    """Ids of at most half of the group's episodes, and at most `MOST`, the surest first; none where fewer than `LEAST`
    may serve.

    A person's word outweighs everything. Without one it takes the agent's claim to have done it and a reward of at
    least `GOOD`; and where several agents have such episodes none gives more than the others together, so that nobody
    alone says by what the others are judged.
    """
    good = sorted((each for each in group if _is_good(each)), key=_order)
    chosen = _shared(good)[: min(len(group) // 2, MOST)]
    return tuple(each.episode_id for each in chosen) if len(chosen) >= LEAST else ()


def _is_good(candidate: Candidate) -> bool:
    if candidate.label is not None:
        return candidate.label >= GOOD
    return candidate.reward is not None and candidate.reward >= GOOD and candidate.outcome == _DONE


def _shared(good: Sequence[Candidate]) -> list[Candidate]:
    """Those with a person's word, then the surest of each agent, the second of each, and so on."""
    said = [each for each in good if each.label is not None]
    counts = Counter(each.agent for each in good if each.label is None)
    taken: Counter[str] = Counter()
    rounds: list[tuple[int, Candidate]] = []
    for each in good:
        others = counts.total() - counts[each.agent]
        if each.label is None and (not others or taken[each.agent] < others):
            rounds.append((taken[each.agent], each))
            taken[each.agent] += 1
    # Stable: within a round the surest comes first.
    return [*said, *(each for _, each in sorted(rounds, key=lambda found: found[0]))]


def _order(candidate: Candidate) -> tuple[bool, float, str]:
    sure = candidate.reward if candidate.label is None else candidate.label
    return candidate.label is None, -(sure or 0.0), candidate.episode_id
