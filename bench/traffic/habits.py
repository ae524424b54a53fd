"""How well simulated agents do their work: all rates by which they err, in one place.

Above: agents.py. Below: nothing. The model of an agent: it reads what a search shows from the top and reads on with
probability `READS_ON` at each place; a tool that does what it needs it recognises when it reads of it, unless it slips.
Some episodes are worked carelessly: most slips are theirs, and it is those that are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

READS_ON = 0.93
CARELESS_SLIPS = 0.8
"""Share of wrong decisions in an episode that is worked carelessly."""
CAREFUL_SHARE = 0.2
"""Slips of careful work, as a share of those of all decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Of one episode; shares and probabilities from 0 to 1."""

    slips: float
    """Decisions for a wrong tool among those shown: its server is wrong, or the tool beside it."""
    repairs: float
    """Of wrong decisions that came to nothing, those that are tried again."""
    vague: float
    """Searches that begin with a few words that could mean much."""
    whole: float
    """Episodes that begin with a search for the user's own words as they are."""
    describes: float
    """Tools whose definition is read before they are called."""
    reveals: float
    """Decisions before which something is looked at that is not needed."""
    lists: float
    """Tools not found by two searches that are looked for in the list of a server."""
    gives_up: float
    """Failures after which the task is given up."""
    claims: float
    """Episodes that claim to have done what they left undone."""
    passes_task: float
    """Agents that pass on the user's words with their searches."""
    limits: float
    """Searches that say how many tools they want to see."""


CAREFUL = Habits(
    slips=0.0,
    repairs=0.9,
    vague=0.12,
    whole=0.3,
    describes=0.4,
    reveals=0.05,
    lists=0.85,
    gives_up=0.0,
    claims=0.1,
    passes_task=0.85,
    limits=0.4,
)
CARELESS = Habits(
    slips=CARELESS_SLIPS,
    repairs=0.1,
    vague=0.3,
    whole=0.4,
    describes=0.2,
    reveals=0.1,
    lists=0.3,
    gives_up=0.04,
    claims=0.8,
    passes_task=0.85,
    limits=0.4,
)


def careless_share(bad: float) -> float:
    """Share of episodes that have to be worked carelessly so that `bad` of all decisions are slips."""
    careful = CAREFUL_SHARE * bad
    return min(1.0, max(0.0, (bad - careful) / (CARELESS_SLIPS - careful)))


def habits_of(bad: float, chance: Random) -> tuple[Habits, bool]:
    """Of one episode, and whether it is worked carelessly."""
    careless = chance.random() < careless_share(bad)
    if careless:
        return CARELESS, True
    return replace(CAREFUL, slips=CAREFUL_SHARE * bad), False
