"""What came of each ranking: which of the tools that it showed were read and called afterwards, and which were not.

Above: trainers, and estimates of what another ranking would have brought. Below: trajectory.py. Pure functions; what
propensities are good for is in docs/decisions/0027.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from proxy.store.recorder import Outcome
from proxy.store.trajectory import Trajectory, TrajectoryDecision, TrajectoryStep

DEFINITION = "definition"
"""How a tool was revealed that an agent went on to read about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTool:
    """One tool that a ranking showed.

    A tool that several rankings showed is counted for the last one before it was read, or called: that is where the
    agent has it from.
    """

    tool: str
    """The written name."""
    place: int
    """From 0."""
    propensity: float | None
    """Probability of this tool at this place, whatever stood above: what an estimate for single tools divides by. None
    where nothing was left to chance; it is 1 then."""
    revealed: bool
    """Its definition was read later."""
    called: Outcome | None
    """It was called later, with this outcome: `ok` if any call was, else that of the last one."""
    elsewhere: bool
    """It was called before this ranking showed it, or after another one had shown it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One ranking with what came of it."""

    episode_id: str
    step_id: str
    decision: TrajectoryDecision
    shown: tuple[ShownTool, ...]
    missed: Mapping[str, Outcome]
    """Tools that no ranking had shown until then, and that were called between this ranking and the next one: the agent
    knew them from lists, or from before. By written name, with the outcome as in `ShownTool`."""

    @property
    def propensity(self) -> float | None:
        """Probability of the whole order, given how many were shown: what an estimate for orders divides by. None
        where nothing was left to chance; it is 1 then."""
        propensities = self.decision.propensities
        return None if propensities is None else math.prod(propensities)


def decided(trajectory: Trajectory) -> list[Decided]:
    """The rankings of an episode whose contents were logged, in order."""
    steps = list(trajectory.every_step())
    made: list[tuple[int, TrajectoryDecision]] = []
    for at, step in enumerate(steps):
        if step.decision is not None and step.decision.shown is not None:
            made.append((at, step.decision))
    uses = _Uses(steps, made)
    nexts = [*(at for at, _ in made), len(steps)][1:]
    return [
        Decided(
            episode_id=trajectory.id,
            step_id=steps[at].id,
            decision=decision,
            shown=tuple(uses.shown(at, decision)),
            missed=uses.missed(at, end),
        )
        for (at, decision), end in zip(made, nexts, strict=True)
    ]


class _Uses:
    """Where in an episode each tool was shown by rankings, read and called; places are those of its steps."""

    def __init__(self, steps: Sequence[TrajectoryStep], made: Iterable[tuple[int, TrajectoryDecision]]) -> None:
        self._shown: defaultdict[str, list[int]] = defaultdict(list)
        self._read: defaultdict[str, list[int]] = defaultdict(list)
        self._called: defaultdict[str, list[tuple[int, Outcome]]] = defaultdict(list)
        for at, decision in made:
            for tool in decision.shown or ():
                self._shown[tool].append(at)
        for at, step in enumerate(steps):
            for revealed in step.revealed:
                if revealed.how == DEFINITION:
                    self._read[revealed.tool].append(at)
            if step.call is not None:
                self._called[step.call.written].append((at, step.call.outcome))

    def shown(self, at: int, decision: TrajectoryDecision) -> Iterator[ShownTool]:
        """What became of the tools that the ranking at that step showed."""
        propensities = _placed(decision)
        for place, tool in enumerate(decision.shown or ()):
            again = next((later for later in self._shown[tool] if later > at), math.inf)
            called = self._called.get(tool, ())
            yield ShownTool(
                tool=tool,
                place=place,
                propensity=None if propensities is None else propensities[place],
                revealed=any(at < read < again for read in self._read.get(tool, ())),
                called=_outcome(outcome for when, outcome in called if at < when < again),
                elsewhere=any(not at < when < again for when, _ in called),
            )

    def missed(self, at: int, end: int) -> dict[str, Outcome]:
        """What was called between these steps without a ranking that had shown it."""
        found: dict[str, Outcome] = {}
        for tool, calls in self._called.items():
            first = min(self._shown.get(tool, ()), default=math.inf)
            outcome = _outcome(outcome for when, outcome in calls if at < when < min(end, first))
            if outcome is not None:
                found[tool] = outcome
        return found


def _outcome(outcomes: Iterable[Outcome]) -> Outcome | None:
    last = None
    for last in outcomes:
        if last is Outcome.OK:
            break
    return last


def _placed(decision: TrajectoryDecision) -> list[float] | None:
    """For each place the probability that its tool stands there, whatever stands above. Orders are the ranked one and,
    alike in probability, those with one pair of neighbours swapped (proxy/router/exploring.py)."""
    shown, propensities = decision.shown or (), decision.propensities
    if propensities is None or len(propensities) != len(shown):
        return None
    pairs = len(shown) - 1
    if pairs < 1:
        return [1.0] * len(shown)
    ranks = {tool: rank for rank, (tool, _) in enumerate(decision.candidates or ())}
    ranked = [ranks.get(tool, len(ranks)) for tool in shown]
    swapped = next((pair for pair in range(pairs) if ranked[pair] > ranked[pair + 1]), None)
    order = math.prod(propensities)
    of_pair = order if swapped is not None else (1 - order) / pairs

    def unmoved(place: int) -> float:
        """The tool that is ranked there has a neighbour on one side, or on both."""
        return 1 - of_pair * (1 if place in (0, pairs) else 2)

    return [
        of_pair if swapped is not None and place in (swapped, swapped + 1) else unmoved(place)
        for place in range(pairs + 1)
    ]
