"""The registry of adapters: which there are, which state each is in, and which ones the gateway serves with.

Above: router/following.py of the gateway, dashboard/adapters.py, and the trainer, which registers and promotes. Below:
database.py and registry_tables.py.

    candidate ─▶ shadow ─▶ canary ─▶ active      one step at a time: nothing is active that no canary was
        └───────────┴─────────┴────────┴──▶ retired ─▶ candidate (to be tried again)

At most one adapter is in shadow, one is the canary and one is active. A change is one transaction in which no other one
changes states, so that there is no moment with two. Rows are only added: the latest of an adapter counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.errors import GatewayError, UnknownName
from proxy.store.database import Database
from proxy.store.registry_tables import AdapterApprovalRow, AdapterRow, AdapterStateRow

SHORT = 12
"""Characters of a hash that people are shown; any beginning that fits one adapter names it."""
POLICY = "policy"
"""The kind of adapters that no gateway serves: `toolatlas agent` loads them by name."""


class State(StrEnum):
    CANDIDATE = "candidate"
    """Trained, and no more."""
    SHADOW = "shadow"
    """Ranks after every answer; nobody sees it."""
    CANARY = "canary"
    """Answers a share of tasks."""
    ACTIVE = "active"
    """Answers all others."""
    RETIRED = "retired"


NEXT: Mapping[State, frozenset[State]] = {
    State.CANDIDATE: frozenset({State.SHADOW, State.RETIRED}),
    State.SHADOW: frozenset({State.CANARY, State.RETIRED}),
    State.CANARY: frozenset({State.ACTIVE, State.RETIRED}),
    State.ACTIVE: frozenset({State.RETIRED}),
    State.RETIRED: frozenset({State.CANDIDATE}),
}
"""What may follow; the way back to an earlier active one is `roll_back`."""


class WrongState(GatewayError):
    """The adapter, or another one, is in a state that does not allow the change; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One adapter, as it was registered."""

    hash: str
    kind: str
    base_hash: str
    data_hash: str
    config: Mapping[str, Any]
    """What it was trained with."""
    metrics: Mapping[str, Any] | None
    """What its evaluation found; the trainer's promotion/evidence.py reads its part of it."""
    run: str | None
    """Of the training that made it."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of state."""

    hash: str
    state: State
    share: float | None
    """Of tasks, for a canary."""
    reason: str | None
    by: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's word that an adapter may serve."""

    hash: str
    by: str
    note: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One adapter with all that became of it."""

    adapter: Registered
    history: tuple[Change, ...]
    """Oldest first, at least one."""
    approvals: tuple[Approval, ...]

    @property
    def state(self) -> State:
        return self.history[-1].state

    @property
    def since(self) -> datetime:
        return self.history[-1].at


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """Hashes of the adapters that gateways serve with; None is the router without one."""

    active: str | None = None
    shadow: str | None = None
    canary: str | None = None
    share: float = 0.0
    """Of tasks that the canary answers, 0 to 1."""
    former: tuple[str, ...] = ()
    """Who was active before and was replaced, not rolled back; the latest last."""

    def without(self, hashes: Collection[str]) -> InForce:
        """The same, where none of these plays a part."""

        def kept(hashed: str | None) -> str | None:
            return None if hashed in hashes else hashed

        canary = kept(self.canary)
        return InForce(
            active=kept(self.active),
            shadow=kept(self.shadow),
            canary=canary,
            share=0.0 if canary is None else self.share,
            former=tuple(each for each in self.former if each not in hashes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a gateway makes of the registry."""

    wanted: InForce = field(default_factory=InForce)
    """What the registry said last."""
    serving: InForce = field(default_factory=InForce)
    """What searches are answered with."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Hash of an adapter that cannot be loaded -> why."""
    problem: str | None = None
    """Why the registry cannot be read; what was in force stays."""


async def register(database: Database, adapter: Registered, *, by: str, reason: str | None = None) -> bool:
    """Add an adapter as a candidate; False where it is known already, which changes nothing."""
    row = {name: getattr(adapter, name) for name in Registered.__slots__}
    async with database.writing() as connection:
        await _alone(database, connection)
        if not await database.add(connection, AdapterRow, [row]):
            return False
        await _write(connection, adapter.hash, State.CANDIDATE, reason, by)
    return True


async def entries(database: Database) -> list[Entry]:
    """All adapters, the newest first."""
    async with database.reading() as connection:
        found = (
            await connection.execute(
                select(AdapterRow.__table__).order_by(AdapterRow.created_at.desc(), AdapterRow.hash)
            )
        ).mappings()
        adapters = [Registered(**row) for row in found]
        history = await _changes(connection)
        statement = select(AdapterApprovalRow.__table__).order_by(AdapterApprovalRow.id)
        approvals = [
            Approval(hash=row["adapter_hash"], by=row["approved_by"], note=row["note"], at=row["approved_at"])
            for row in (await connection.execute(statement)).mappings()
        ]
    return [
        Entry(
            adapter=each,
            history=tuple(change for change in history if change.hash == each.hash),
            approvals=tuple(approval for approval in approvals if approval.hash == each.hash),
        )
        for each in adapters
    ]


async def entry(database: Database, name: str) -> Entry:
    """The adapter whose hash begins with `name`.

    Raises:
        UnknownName: There is none, or there are several.
    """
    found = [each for each in await entries(database) if name and each.adapter.hash.startswith(name)]
    if len(found) != 1:
        what = "no adapter has a hash that begins" if not found else f"{len(found)} adapters have hashes that begin"
        raise UnknownName(f"{what} with {name[:80]!r}; `toolatlas adapters list` shows them")
    return found[0]


async def in_force(database: Database) -> InForce:
    """What gateways serve with now."""
    async with database.reading() as connection:
        return _in_force(await _changes(connection))


async def set_state(
    database: Database,
    hashed: str,
    state: State,
    reason: str,
    *,
    by: str,
    share: float | None = None,
    expected: State | None = None,
) -> bool:
    """Change the state of an adapter. Whoever was active or in shadow retires where this one takes the place.

    Args:
        share: Of tasks, for a canary, above 0 and at most 1.
        expected: Change nothing, and return False, where it is in another state by now.

    Raises:
        UnknownName: There is no such adapter.
        WrongState: Its state does not allow that, another canary is being tried, or it is no adapter of the router.
        ValueError: A canary without a share, or a share without a canary.
    """
    if (share is not None) != (state is State.CANARY) or (share is not None and not 0.0 < share <= 1.0):
        raise ValueError("a canary has a share above 0 and at most 1, and no other state has one")
    async with database.writing() as connection:
        await _alone(database, connection)
        history = await _changes(connection)
        now = _latest(history).get(hashed)
        if now is None:
            raise UnknownName(f"there is no adapter {hashed[:80]!r}; `toolatlas adapters list` shows them")
        if expected is not None and now.state is not expected:
            return False
        if state not in NEXT[now.state]:
            may = ", ".join(sorted(NEXT[now.state]))
            raise WrongState(
                f"the adapter {hashed[:SHORT]} is {now.state}; from there it can become {may}, not {state}"
            )
        await _allowed(connection, hashed, state)
        force = _in_force(history)
        if state is State.CANARY and force.canary is not None:
            raise WrongState(f"{force.canary[:SHORT]} is the canary; wait until it is decided, or roll it back")
        displaced = {State.ACTIVE: force.active, State.SHADOW: force.shadow}.get(state)
        await _write(connection, hashed, state, reason, by, share)
        if displaced is not None:
            await _write(connection, displaced, State.RETIRED, f"{hashed[:SHORT]} took its place", by)
    return True


async def roll_back(
    database: Database,
    reason: str,
    *,
    by: str,
    hashed: str | None = None,
    usable: Callable[[str], bool] = lambda _: True,
) -> tuple[str, str | None] | None:
    """Retire an adapter that answers agents: `hashed`, else the canary if there is one, else the active one. In the
    place of an active one comes the one that was active before it and was not itself rolled back, or none.

    Args:
        usable: Whether an earlier adapter, by its hash, can be loaded still.

    Returns:
        Which one is retired and which one is active now; None where that one answers nobody.
    """
    async with database.writing() as connection:
        await _alone(database, connection)
        force = _in_force(await _changes(connection))
        retired = hashed or force.canary or force.active
        if retired is None or retired not in (force.canary, force.active):
            return None
        await _write(connection, retired, State.RETIRED, reason, by)
        if retired != force.active:
            return retired, force.active
        before = next((each for each in reversed(force.former) if usable(each)), None)
        if before is not None:
            await _write(connection, before, State.ACTIVE, f"{retired[:SHORT]} was rolled back", by)
        return retired, before


async def approve(database: Database, hashed: str, *, by: str, note: str | None = None) -> None:
    """Write down that a person agrees that this adapter serves."""
    values = {"adapter_hash": hashed, "approved_by": by, "note": note, "approved_at": datetime.now(UTC)}
    async with database.writing() as connection:
        await connection.execute(insert(AdapterApprovalRow), [values])


def _line(history: Sequence[Change]) -> list[str]:
    """Who was active one after the other and may come back, up to who is active now. Of one that was rolled back the
    change to `retired` comes while it is the last; of one that was replaced, after the next one was written."""
    line: list[str] = []
    for change in history:
        if change.state is State.ACTIVE:
            if change.hash in line:
                del line[line.index(change.hash) :]
            line.append(change.hash)
        elif line and change.hash == line[-1]:
            line.pop()
    return line


def _in_force(history: Sequence[Change]) -> InForce:
    latest = _latest(history).values()
    held = {change.state: change for change in latest}
    active, shadow, canary = (held.get(state) for state in (State.ACTIVE, State.SHADOW, State.CANARY))
    return InForce(
        active=active and active.hash,
        shadow=shadow and shadow.hash,
        canary=canary and canary.hash,
        share=(canary and canary.share) or 0.0,
        former=tuple(each for each in _line(history) if active is None or each != active.hash),
    )


def _latest(history: Iterable[Change]) -> dict[str, Change]:
    return {change.hash: change for change in history}


async def _changes(connection: AsyncConnection) -> list[Change]:
    found = (await connection.execute(select(AdapterStateRow.__table__).order_by(AdapterStateRow.id))).mappings()
    return [
        Change(
            hash=row["adapter_hash"],
            state=State(row["state"]),
            share=row["share"],
            reason=row["reason"],
            by=row["changed_by"],
            at=row["changed_at"],
        )
        for row in found
    ]


async def _allowed(connection: AsyncConnection, hashed: str, state: State) -> None:
    kind = (await connection.execute(select(AdapterRow.kind).where(AdapterRow.hash == hashed))).scalar_one()
    if kind == POLICY and state not in (State.CANDIDATE, State.RETIRED):
        raise WrongState(
            f"the adapter {hashed[:SHORT]} works tasks and ranks nothing: no gateway serves with it; "
            "name it with `toolatlas agent --adapter`"
        )


async def _write(
    connection: AsyncConnection, hashed: str, state: State, reason: str | None, by: str, share: float | None = None
) -> None:
    values = {
        "adapter_hash": hashed,
        "state": state.value,
        "reason": reason,
        "changed_at": datetime.now(UTC),
        "share": share,
        "changed_by": by,
    }
    await connection.execute(insert(AdapterStateRow), [values])


async def _alone(database: Database, connection: AsyncConnection) -> None:
    """Until the end of the transaction nobody else changes states; SQLite has one writer anyway."""
    if not database.sqlite:
        await connection.execute(text("LOCK TABLE adapter_states IN SHARE ROW EXCLUSIVE MODE"))
