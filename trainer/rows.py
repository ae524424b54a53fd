"""What training reads: one row per ranking of the router, and one per stretch of an episode that a policy read as one.

Above: ranking/, policy/, online/ and evaluation/, which train and measure. Below: proxy/router/base.py for queries.
data/ makes rows from the store; nothing here is guessed, and nothing that has no reward has a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from proxy.router.base import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a row is from: by this rows are split, capped and grouped."""

    episode_id: str
    agent: str
    """As the log names it; callers without credentials are one agent."""
    family: str | None
    """Of tasks that differ only in their values; what advantages are relative to."""
    task: str | None
    """The user's own words, where the agent passed them on."""
    began_at: datetime
    catalog: str
    """Hash of the catalogue of that time."""
    servers: frozenset[str]
    """Configured names of servers that the episode called."""
    reward: float
    """Of the episode, 0 to 1."""
    advantage: float
    """Of the episode: its reward against those of its group, in standard deviations (data/advantages.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A tool that an agent called after a ranking and before the next one that showed it again."""

    tool: str
    """The written name."""
    ok: bool
    """Whether a call of it had the outcome `ok`."""
    credit: float | None
    """Mean of the judge's credits of its calls, -1 to 1; None where no verdict speaks of them."""
    shown: bool
    """Whether this ranking showed it; the agent knew it from elsewhere where not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingRow:
    """One ranking, and what came of it."""

    id: str
    """Of the step."""
    origin: Origin
    query: Query
    """With the history that its task had then. `query.task` as it was asked; `query.episode` is the episode's id: the
    task's own, by which the gateway asked, is a secret."""
    policy: str
    adapter: str | None
    """Hash of the adapter that ranked."""
    candidates: tuple[tuple[str, float], ...]
    """Tools with scores as they were ranked, best first; reaches below what was shown."""
    shown: tuple[str, ...]
    propensities: tuple[float, ...] | None
    """Of the tool at each place of `shown`, whatever stands above (`ShownTool.propensity`); None: no chance."""
    order_propensity: float | None
    """Of the whole order; None: no chance."""
    used: tuple[Used, ...]
    advantage: float
    """Of this turn: the episode's, and where the judge's credits speak of it, theirs (data/advantages.py)."""
    weight: float = 1.0
    """How much it counts beside other rows: what is left of it after the caps (data/caps.py). Whoever makes a weight of
    the advantage multiplies it with this one."""

    @property
    def right(self) -> tuple[Used, ...]:
        """What was right by reward: used, ok, and of no negative credit."""
        return tuple(each for each in self.used if each.ok and (each.credit is None or each.credit >= 0))


class SegmentKind(StrEnum):
    CONTEXT = "context"
    """What was read: instructions, task, observations. Never learned."""
    REASON = "reason"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class Segment:
    """Some tokens of a policy row, made once: whoever trains never makes tokens of its text again."""

    kind: SegmentKind
    tokens: tuple[int, ...]
    weights: tuple[float, ...] = ()
    """Of each token in the loss, 0 where it is not learned: context, calls that failed. Empty means all 0."""
    step_id: str | None = None
    """Of an act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """What a policy read and wrote in one context; an episode that was folded has several, which share its
    advantage."""

    id: str
    """Of the episode, a stroke and the number of the context."""
    origin: Origin
    rendering: int
    """Revision of proxy/store/rendering.py."""
    tokenizer: str
    """Hash of the tokenizer that made the tokens."""
    segments: tuple[Segment, ...]
    advantages: Mapping[str, float] = field(default_factory=dict[str, float])
    """By step id where the turn's advantage is not the episode's."""
    weight: float = 1.0
    """As a ranking row's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows that are trained on, those that say when to stop, and those that nothing has looked at."""

    training: Sequence[str]
    """Ids of episodes."""
    validation: Sequence[str]
    test: Sequence[str]
    dropped: Mapping[str, str] = field(default_factory=dict[str, str])
    """Episode id -> why it is in none: a near duplicate of one on the other side, over a cap."""
