"""Rows as they fit into memory: windows of tokens with what each token counts. No token is ever made again.

Above: tuning.py, evaluating.py. Below: rows. A row that fits is one window. Of a longer one each window teaches
the actions that end in it and reads at least what stands just before the first of them; it does not read what
stands before that, nor the task where that is far away. Each action is taught by one window.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.rows import PolicyRow, SegmentKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Tokens, and for each of them what it counts and how well its action came out."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]
    """0 where it is only read: context, calls that failed."""
    advantages: tuple[float, ...]
    """Of the action that a token belongs to; where it is only read, the episode's."""
    weight: float
    """The row's: what all of it counts beside other rows."""

    @property
    def learned(self) -> list[int]:
        """Places of tokens that count."""
        return [place for place, weight in enumerate(self.weights) if weight > 0]


@dataclass(frozen=True, slots=True)
class Act:
    """Where an action stands in its row."""

    start: int
    end: int
    """The first place after it."""
    taught: bool
    advantage: float


def acts(row: PolicyRow) -> list[Act]:
    """All actions of a row, those that failed included, with the reasons that lead to them."""
    found: list[Act] = []
    place = 0
    start: int | None = None
    for segment in row.segments:
        end = place + len(segment.tokens)
        if segment.kind is SegmentKind.CONTEXT:
            start = None
        else:
            start = place if start is None else start
            if segment.kind is SegmentKind.ACT:
                found.append(Act(start, end, any(segment.weights), _advantage(row, segment.step_id)))
                start = None
        place = end
    return found


def tokens(row: PolicyRow) -> tuple[int, ...]:
    return tuple(token for segment in row.segments for token in segment.tokens)


def windows(row: PolicyRow, *, most: int, before: int, reason: float = 1.0) -> list[Window]:
    """All windows of a row, of at most `most` tokens each; see TuningSettings for `before` and `reason`.

    An action that is longer than what is left for it is taught as far as it fits.
    """
    whole, counts, taught = tokens(row), _weights(row, reason), [act for act in acts(row) if act.taught]
    advantages = [row.origin.advantage] * len(whole)
    for act in taught:
        advantages[act.start : act.end] = [act.advantage] * (act.end - act.start)
    made: list[Window] = []
    while taught:
        start = 0 if len(whole) <= most else max(0, taught[0].start - before)
        end = min(taught[0].end, start + most)
        count = 1
        while count < len(taught) and taught[count].end <= start + most:
            end = taught[count].end
            count += 1
        weights = [0.0] * (end - start)
        for act in taught[:count]:
            weights[act.start - start : act.end - start] = counts[act.start : min(act.end, end)]
        # Of the first token a model says nothing.
        weights[0] = 0.0
        made.append(
            Window(
                tokens=whole[start:end],
                weights=tuple(weights),
                advantages=tuple(advantages[start:end]),
                weight=row.weight,
            )
        )
        taught = taught[count:]
    return made


def _weights(row: PolicyRow, reason: float) -> list[float]:
    found: list[float] = []
    for segment in row.segments:
        own = segment.weights or (0.0,) * len(segment.tokens)
        found += [weight * reason for weight in own] if segment.kind is SegmentKind.REASON else own
    return found


def _advantage(row: PolicyRow, step: str | None) -> float:
    return row.origin.advantage if step is None else row.advantages.get(step, row.origin.advantage)
