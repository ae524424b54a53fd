"""Which episodes a worker judges next: claims, so that several workers judge each episode once.

Above: running.py. Below: proxy.store. A claim is a lease: it is renewed while its worker works, given back when it
stops in order, and taken over by another one when it has run out, since its worker then was killed. Whether it has run
out is decided by the database's clock: those of workers need not agree.

What is to be judged is found without a lock and without anybody waiting for it; only taking it is a transaction that
writes, of a few rows. Two workers that found the same do not wait for each other: one of them takes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    String,
    Text,
    cast,
    delete,
    func,
    literal,
    select,
    tuple_,
    type_coerce,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.filters import Filters, conditions
from proxy.store.judgements import pieces
from proxy.store.judging_tables import AttachmentRow, ClaimRow, FilingRow, JudgementRow, RubricSourceRow
from proxy.store.rubrics import Attached, attachments_of
from proxy.store.tables import EndingRow, EpisodeRow, Utc

MOST = 500
"""Claimed at once: databases have limits for the values of one statement."""
PAGE = 2_000
"""Episodes that are looked at in one transaction, at most."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An episode to judge, and the rubric to judge it by."""

    episode_id: str
    rubric_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be judged: whatever has ended, is filed, and has no judgement by this judge, this time, by the rubric
    that counts for it."""

    judge: str
    repeat: int = 0
    filters: Filters = field(default_factory=Filters)
    default: str
    """Hash of the rubric that counts where nothing is attached."""
    rubric: str | None = None
    """Judge by this one whatever is attached; an episode that it was made from is left out."""


@dataclass(frozen=True, slots=True)
class _Found:
    """An episode that is to be judged."""

    began_at: datetime
    id: str
    rubric_hash: str

    @property
    def place(self) -> tuple[datetime, str]:
        return self.began_at, self.id


class Claims:
    """The claims of one worker. It goes through the log once, the oldest episodes first, and then begins anew until a
    whole round finds nothing: episodes that ended meanwhile, or that another worker gave back, are found then."""

    def __init__(self, database: Database, wanted: Wanted, *, worker: str, lease_s: float) -> None:
        self._database = database
        self._wanted = wanted
        self._worker = worker
        self._lease_s = lease_s
        self._after: tuple[datetime, str] | None = None
        self._attachments = _Attachments()

    async def take(self, limit: int) -> list[Claim]:
        """Claim up to `limit` episodes; none where there is nothing left that nobody else has claimed."""
        from_the_start = self._after is None
        while True:
            found = await self._find(min(limit, MOST))
            if found:
                self._after = found[-1].place
                if taken := await self._take([each.id for each in found]):
                    return taken
            elif from_the_start:
                return []
            else:
                self._after, from_the_start = None, True

    async def waiting(self) -> int:
        """How many episodes are to be judged now, whoever has claimed them."""
        return sum([len(page) async for page in self._to_judge(None, PAGE, unclaimed=False)])

    async def left(self) -> bool:
        """Whether anything is to be judged still: whoever has claimed it may give it back, or be dead."""
        async for page in self._to_judge(None, PAGE, unclaimed=False):
            if page:
                return True
        return False

    async def renew(self, episode_ids: Collection[str]) -> None:
        """Let the leases on these begin anew, as far as they are still this worker's."""
        async with self._database.writing() as connection:
            await connection.execute(
                update(ClaimRow).where(*self._mine(episode_ids)).values(until=self._now(self._lease_s))
            )

    async def release(self, episode_ids: Collection[str]) -> None:
        """Give these back, so that others need not wait for the leases to run out."""
        async with self._database.writing() as connection:
            await self.release_within(connection, episode_ids)

    async def release_within(self, connection: AsyncConnection, episode_ids: Collection[str]) -> None:
        """The same in a transaction that is open: what is judged and its claims change together."""
        await connection.execute(delete(ClaimRow).where(*self._mine(episode_ids)))

    async def _find(self, limit: int) -> list[_Found]:
        """What comes next and nobody has claimed; found without a lock, so that others may be quicker."""
        found: list[_Found] = []
        async for page in self._to_judge(self._after, limit, unclaimed=True):
            found += page
            if len(found) >= limit:
                break
        return found[:limit]

    async def _to_judge(
        self, after: tuple[datetime, str] | None, size: int, *, unclaimed: bool
    ) -> AsyncIterator[list[_Found]]:
        """What is to be judged, page by page of the log; pages become larger where nothing is found."""
        while True:
            async with self._database.reading() as connection:
                statement = self._episodes().order_by(EpisodeRow.began_at, EpisodeRow.id).limit(size)
                if after is not None:
                    behind = tuple_(literal(after[0], Utc), literal(after[1]))
                    statement = statement.where(tuple_(EpisodeRow.began_at, EpisodeRow.id) > behind)
                if unclaimed:
                    claimed = select(ClaimRow.episode_id).where(ClaimRow.episode_id == EpisodeRow.id)
                    statement = statement.where(~claimed.where(*self._same(), self._live()).exists())
                rows = (await connection.execute(statement)).all()
                yield await self._resolved(connection, rows)
            if len(rows) < size:
                return
            after = (rows[-1].began_at, rows[-1].id)
            size = min(2 * size, PAGE)

    def _episodes(self) -> Select[*tuple[Any, ...]]:
        """All that has ended and is filed, with what is needed to say whether it is to be judged, and by what."""
        wanted = self._wanted
        judged = select(func.aggregate_strings(JudgementRow.rubric_hash, " ")).where(
            JudgementRow.episode_id == EpisodeRow.id,
            JudgementRow.judge == wanted.judge,
            JudgementRow.repeat == wanted.repeat,
        )
        source = select(RubricSourceRow.rubric_hash).where(RubricSourceRow.episode_id == EpisodeRow.id)
        return (
            select(
                EpisodeRow.id,
                EpisodeRow.began_at,
                FilingRow.task_key,
                FilingRow.family,
                judged.correlate(EpisodeRow).scalar_subquery().label("judged"),
                source.correlate(EpisodeRow).exists().label("source"),
            )
            .select_from(EpisodeRow)
            .join(EndingRow, EndingRow.episode_id == EpisodeRow.id)
            .join(FilingRow, FilingRow.episode_id == EpisodeRow.id)
            .where(*conditions(wanted.filters))
        )

    async def _resolved(self, connection: AsyncConnection, rows: Sequence[Any]) -> list[_Found]:
        """Those of these episodes that are to be judged, each with its rubric."""
        attached: Mapping[tuple[str, str | None], str] = {}
        if self._wanted.rubric is None:
            attached = await self._attachments.read(connection)
        made_of: defaultdict[str, set[str]] = defaultdict(set)
        for some in pieces([row.id for row in rows if row.source]):
            statement = select(RubricSourceRow.episode_id, RubricSourceRow.rubric_hash)
            for row in await connection.execute(statement.where(RubricSourceRow.episode_id.in_(some))):
                made_of[row.episode_id].add(row.rubric_hash)
        found: list[_Found] = []
        for row in rows:
            rubric = self._rubric(row, attached, made_of.get(row.id, frozenset()))
            if rubric is not None and rubric not in (row.judged or "").split():
                found.append(_Found(row.began_at, row.id, rubric))
        return found

    def _rubric(self, row: Any, attached: Mapping[tuple[str, str | None], str], not_by: Set[str]) -> str | None:
        """The rubric that counts for an episode: the most specific attached one that was not made from it."""
        if self._wanted.rubric is not None:
            return None if self._wanted.rubric in not_by else self._wanted.rubric
        for key in ((Attached.TASK, row.task_key), (Attached.FAMILY, row.family), (Attached.DEFAULT, None)):
            rubric = attached.get(key)
            if rubric is not None and rubric not in not_by:
                return rubric
        return self._wanted.default

    async def _take(self, episode_ids: list[str]) -> list[Claim]:
        async with self._database.writing() as connection:
            # An episode that another worker is taking, or that is being deleted, is passed over. SQLite has no such
            # locks: there, one transaction at a time writes.
            free = select(EpisodeRow.id).where(EpisodeRow.id.in_(episode_ids))
            free = free.with_for_update(key_share=True, skip_locked=True)
            ids = list((await connection.execute(free)).scalars())
            taken = list((await connection.execute(self._claim(ids))).scalars())
            # Asked again now that they are claimed: somebody may have judged them since they were found.
            again = self._episodes().where(EpisodeRow.id.in_(taken)).order_by(EpisodeRow.began_at, EpisodeRow.id)
            rows = (await connection.execute(again)).all()
            claims = [Claim(each.id, each.rubric_hash) for each in await self._resolved(connection, rows)]
            await self.release_within(connection, set(taken) - {claim.episode_id for claim in claims})
        return claims

    def _claim(self, episode_ids: list[str]) -> Any:
        insert = sqlite.insert if self._database.sqlite else postgresql.insert
        wanted, worker = self._wanted, cast(literal(self._worker), String)
        mine = select(
            EpisodeRow.id,
            cast(literal(wanted.judge), Text),
            cast(literal(wanted.repeat), Integer),
            worker,
            self._now(self._lease_s),
        ).where(EpisodeRow.id.in_(episode_ids))
        key = ["episode_id", "judge", "repeat"]
        statement = insert(ClaimRow).from_select([*key, "worker", "until"], mine)
        new = {"worker": statement.excluded.worker, "until": statement.excluded.until}
        # Evaluated on the row as it is then, not as it was when it was found.
        return statement.on_conflict_do_update(index_elements=key, set_=new, where=~self._live()).returning(
            ClaimRow.episode_id
        )

    def _same(self) -> tuple[ColumnElement[bool], ...]:
        return (ClaimRow.judge == self._wanted.judge, ClaimRow.repeat == self._wanted.repeat)

    def _mine(self, episode_ids: Collection[str]) -> tuple[ColumnElement[bool], ...]:
        return (ClaimRow.episode_id.in_(episode_ids), *self._same(), ClaimRow.worker == self._worker)

    def _live(self) -> ColumnElement[bool]:
        return ClaimRow.until > self._now(0.0)

    def _now(self, plus_s: float) -> ColumnElement[datetime]:
        if self._database.sqlite:
            # Written as SQLAlchemy writes times, so that they compare as texts.
            said = func.strftime("%Y-%m-%d %H:%M:%f000", "now", f"{plus_s:+.3f} seconds")
            return type_coerce(said, Utc())
        return type_coerce(func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, plus_s), Utc())


class _Attachments:
    """What is attached now; read again only when it has changed."""

    def __init__(self) -> None:
        self._version: tuple[int | None, int] | None = None
        self._by_target: dict[tuple[str, str | None], str] = {}

    async def read(self, connection: AsyncConnection) -> Mapping[tuple[str, str | None], str]:
        """The hash of the rubric that is attached, by scope and target."""
        # Rows are only added, and removed together with their rubric.
        row = (await connection.execute(select(func.max(AttachmentRow.id), func.count(AttachmentRow.id)))).one()
        version = (row[0], row[1])
        if version != self._version:
            now = await attachments_of(connection, None)
            self._by_target = {(each.scope, each.target): each.rubric_hash for each in now}
            self._version = version
        return self._by_target
