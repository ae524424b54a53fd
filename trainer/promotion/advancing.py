"""One look at every adapter of the registry: forward where the evidence is there, back where it speaks against it.

Above: watching.py, which looks again and again; `toolatlas adapters promote`, which asks for one; `toolatlas learn`,
which proposes a new one. Below: gates.py, canary.py, active.py, and
proxy/store/registry.py. A look depends on the registry and the
log alone, so that any number of processes may look, anywhere: a change that another one made first is not made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from proxy.store.database import Database
from proxy.store.registry import POLICY, SHORT, Entry, InForce, State, entries, in_force, roll_back, set_state
from proxy.store.rewards import Batch, batches
from proxy.store.tables import DecisionRow, ShadowRow
from trainer.promotion.active import active_gates
from trainer.promotion.canary import Tasks, Watched, first_answer, watched
from trainer.promotion.evidence import Evidence
from trainer.promotion.gates import Gate, Result, approval_gate, offline_gates, verdict
from trainer.promotion.sequential import Found, SequentialSettings
from trainer.promotion.settings import PromotionSettings

MOST_SHADOWED = 1_000
"""Searches of a shadow that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at one adapter found."""

    hash: str
    before: State
    after: State
    gates: tuple[Gate, ...]

    @property
    def reason(self) -> str:
        """What decided, for the registry."""
        result = verdict(self.gates)
        return "; ".join(f"{gate.name}: {gate.said}" for gate in self.gates if gate.result is result)


async def advance(
    database: Database,
    settings: PromotionSettings,
    *,
    by: str,
    only: str | None = None,
    usable: Callable[[str], bool] = lambda _: True,
    tasks: Tasks | None = None,
) -> list[Look]:
    """Look at the active adapter, the canary, the shadow and the candidates, in this order, each at most one step.

    Args:
        by: Whom the registry names for what is changed.
        only: Hash of the one to look at.
        usable: Whether an adapter, by its hash, can be loaded: one that cannot is not gone back to.
        tasks: The same for every look of one process, so that no task is read twice.
    """
    read = tasks or Tasks(database)
    looks: list[Look] = []
    order = (State.ACTIVE, State.CANARY, State.SHADOW, State.CANDIDATE)
    found = [each for each in await entries(database) if each.adapter.kind != POLICY]
    for state in order:
        for entry in found:
            if entry.state is state and only in (None, entry.adapter.hash):
                looks.append(await _look(database, entry, settings, read, by=by, usable=usable))
    return looks


async def _look(
    database: Database,
    entry: Entry,
    settings: PromotionSettings,
    tasks: Tasks,
    *,
    by: str,
    usable: Callable[[str], bool],
) -> Look:
    hashed, force = entry.adapter.hash, await in_force(database)
    gates, following = await _gates(database, entry, force, settings, tasks)
    result = verdict(gates)
    after = {Result.REFUSED: State.RETIRED, Result.PASSED: following, Result.HELD: entry.state}[result]
    look = Look(hash=hashed, before=entry.state, after=after, gates=gates)
    if after is entry.state:
        return look
    if entry.state is State.ACTIVE:
        done = await roll_back(database, look.reason, by=by, hashed=hashed, usable=usable) is not None
    else:
        share = settings.share if after is State.CANARY else None
        done = await set_state(database, hashed, after, look.reason, by=by, share=share, expected=entry.state)
    # Somebody else was quicker; what became of it is for the next look.
    return look if done else Look(hash=hashed, before=entry.state, after=entry.state, gates=gates)


async def _gates(
    database: Database, entry: Entry, force: InForce, settings: PromotionSettings, tasks: Tasks
) -> tuple[tuple[Gate, ...], State]:
    """What stands between it and the state that comes next."""
    match entry.state:
        case State.CANDIDATE:
            return await _of_candidate(database, entry, force, settings), State.SHADOW
        case State.SHADOW:
            return await _of_shadow(database, entry, force, settings), State.CANARY
        case State.CANARY:
            return await _of_canary(database, entry, settings.sequential, tasks), State.ACTIVE
        case State.ACTIVE:
            return await active_gates(database, entry, settings, tasks), State.ACTIVE
        case State.RETIRED:
            return (), State.RETIRED


async def _of_candidate(
    database: Database, entry: Entry, force: InForce, settings: PromotionSettings
) -> tuple[Gate, ...]:
    evidence = Evidence.of(entry.adapter.metrics)
    judges = () if evidence is None else evidence.judges
    latest: dict[str, Batch | None] = {}
    for judge in judges:
        latest[judge] = next(iter(await batches(database, judge=judge, limit=1)), None)
    gates = offline_gates(evidence, settings.gates, active=force.active, batches=latest)
    ahead = force.canary or force.shadow
    if ahead is None:
        return gates
    return *gates, Gate("place", Result.HELD, f"{ahead[:SHORT]} is before it")


async def _of_shadow(database: Database, entry: Entry, force: InForce, settings: PromotionSettings) -> tuple[Gate, ...]:
    shadowed = await _shadowed(database, entry)
    same = [_overlap(served, shadow) for served, shadow in shadowed if served]
    overlap = f", of their first five tools {sum(same) / len(same):.0%} the same" if same else ""
    ranked, needed = len(shadowed), settings.shadowed
    text = f"{ranked if ranked < MOST_SHADOWED else f'{ranked} or more'} of {needed} searches ranked{overlap}"
    gates = [
        Gate("shadow", Result.PASSED if ranked >= needed else Result.HELD, text),
        approval_gate(entry.adapter.hash, entry.approvals, settings.gates),
    ]
    if force.canary is not None:
        gates.append(Gate("place", Result.HELD, f"{force.canary[:SHORT]} is the canary"))
    return tuple(gates)


async def _shadowed(database: Database, entry: Entry) -> list[tuple[list[tuple[str, float]], list[tuple[str, float]]]]:
    """What was ranked of the first searches that it shadowed, and what it ranked itself."""
    statement = (
        select(DecisionRow.candidates, ShadowRow.candidates)
        .join(DecisionRow, DecisionRow.step_id == ShadowRow.step_id)
        .where(ShadowRow.adapter == entry.adapter.hash, ShadowRow.decided_at >= entry.since)
        .order_by(ShadowRow.decided_at)
        .limit(MOST_SHADOWED)
    )
    async with database.reading() as connection:
        return [(row[0] or [], row[1]) for row in await connection.execute(statement)]


def _overlap(one: Sequence[tuple[str, float]], other: Sequence[tuple[str, float]], first: int = 5) -> float:
    of_one, of_other = ({tool for tool, _ in ranked[:first]} for ranked in (one, other))
    return len(of_one & of_other) / max(1, min(len(of_one), len(of_other)))


async def _of_canary(database: Database, entry: Entry, settings: SequentialSettings, tasks: Tasks) -> tuple[Gate, ...]:
    share = entry.history[-1].share or 0.0
    began = await first_answer(database, entry.adapter.hash, entry.since)
    if began is None:
        return (Gate("canary", Result.HELD, "no search was answered by it yet"),)
    found = watched(await tasks.ended(began), entry.adapter.hash, share, settings)
    return _said(found, settings)


def _said(found: Watched, settings: SequentialSettings) -> tuple[Gate, ...]:
    safe = found.safe(settings)
    gates: list[Gate] = []
    for outcome, test in found.tests.items():
        difference = "nothing to compare yet" if test.difference is None else f"{test.difference:+.3f} to the others"
        text = f"{difference}, {test.searches} searches of {found.tasks} tasks, {found.others} others"
        match test.found:
            case Found.WORSE:
                gates.append(Gate(outcome, Result.REFUSED, f"{text}: it is worse"))
            case Found.SAFE:
                gates.append(Gate(outcome, Result.PASSED, f"{text}: not worse by {settings.amount}"))
            case Found.OPEN:
                gates.append(Gate(outcome, Result.PASSED if safe else Result.HELD, f"{text}: not decided"))
    return tuple(gates)
