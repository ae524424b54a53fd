"""One worker: claims episodes, judges them, tries the canaries, writes judgements, batch by batch.

Above: commands/run.py, processes.py. Below: claims.py, loading.py, judging.py, trust/canaries.py, keeping.py. Any
number of workers, in any number of processes and on any number of machines, share a log. All of a batch is written in
one transaction with the end of its claims, so that a worker that is killed leaves nothing half done: its claims run
out, and others take them over.

A batch in which a canary got a reward that it does not deserve is refused: none of its judgements is kept, and the run
ends, since the judge that gave it cannot be trusted with the rest.
"""

from __future__ import annotations

import gc
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import anyio

from judge.case import Case
from judge.claims import Claim, Claims, Wanted
from judge.judging import Judge, Judged
from judge.keeping import Batch, keep_batch
from judge.loading import Loader
from judge.rows import failed, row_of
from judge.rubric import Rubric
from judge.tally import Tally
from judge.trust.canaries import CanaryResult, try_canaries
from proxy.errors import ConfigurationError, GatewayError
from proxy.store.database import Database, is_outage
from proxy.store.rubrics import rubrics

log = logging.getLogger(__name__)

RENEWALS = 3
"""Of a lease, within its time."""
RELEASE_S = 5.0
"""How long giving back claims may take when a run is broken off; later they run out."""
LOOK_S = 5.0
"""At most this long until a worker looks again, where all that is left is claimed by others."""
PAUSES_S = (0.2, 1.0, 5.0, 20.0)
"""Between attempts, where the database cannot be used for a while."""

T = TypeVar("T")


class Refused(GatewayError):
    """Canaries got what they do not deserve; the text names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much is done at once.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    batch: int = 100
    """Episodes that are written together."""
    at_once: int = 1
    """Episodes that are judged side by side; more than one only helps where a model is waited for."""
    lease_s: float = 300.0
    """How long a claim holds unless it is renewed: as long, a killed worker's episodes wait for others."""
    limit: int | None = None
    """Episodes to judge at most."""

    def __post_init__(self) -> None:
        if self.batch < 1 or self.at_once < 1 or self.lease_s <= 0 or (self.limit is not None and self.limit < 1):
            raise ConfigurationError("batch, limit and episodes at once are at least 1, and a lease is longer than 0 s")


@dataclass(frozen=True, slots=True)
class _Done:
    """One episode of a batch."""

    claim: Claim
    judged: Judged
    broken: bool


class Worker:
    """Judges what `wanted` says until there is nothing left, and nothing that other workers may leave.

    Args:
        canaries: The rubric that canaries are judged by.
        told: Called with what came of each batch when it is written.
    """

    def __init__(
        self,
        database: Database,
        judge: Judge,
        wanted: Wanted,
        pace: Pace,
        *,
        canaries: Rubric,
        told: Callable[[Tally], None] = lambda _: None,
    ) -> None:
        self.name = f"w_{secrets.token_hex(12)}"
        self._database = database
        self._judge = judge
        self._wanted = wanted
        self._pace = pace
        self._canary_rubric = canaries
        self._told = told
        self._claims = Claims(database, wanted, worker=self.name, lease_s=pace.lease_s)
        self._loader = Loader(database)
        self._rubrics: dict[str, Rubric] = {}
        self._canaries: tuple[CanaryResult, ...] | None = None

    async def run(self, stop: anyio.Event) -> Tally:
        """Work until there is nothing left, the limit is reached or `stop` is set, then with the batch that was begun.
        Cancelled, it gives its claims back.

        Raises:
            Refused: A canary got too much.
            ConfigurationError: A rubric cannot be used.
        """
        # Modules and all else that is there by now stays: looking through it for garbage takes a tenth of the time.
        gc.freeze()
        sums = Tally()
        while not stop.is_set():
            most = self._most(sums.judged)
            if not most:
                break
            if claims := await lasting(lambda most=most: self._claims.take(most)):
                done = await self._batch(claims)
                sums += done
                self._told(done)
            elif await lasting(self._claims.left):
                with anyio.move_on_after(min(LOOK_S, self._pace.lease_s / RENEWALS)):
                    await stop.wait()
            else:
                break
        return sums

    def _most(self, judged: int) -> int:
        """How many to claim next; 0 at the limit."""
        limit = self._pace.limit
        return self._pace.batch if limit is None else min(self._pace.batch, limit - judged)

    async def _batch(self, claims: Sequence[Claim]) -> Tally:
        batch_id, began_at = f"b_{secrets.token_hex(12)}", datetime.now(UTC)
        ids = [claim.episode_id for claim in claims]
        try:
            done, canaries = await self._while_renewing(ids, lambda: self._judge_and_try(claims))
            caught = [canary for canary in canaries if not canary.passed]
            batch = Batch(
                id=batch_id,
                judge=self._judge.name,
                worker=self.name,
                began_at=began_at,
                accepted=not caught,
                episodes=0 if caught else len(done),
                canaries=[canary.content() for canary in canaries],
                note=_refusal(caught) if caught else None,
            )
            rows = [] if caught else [self._row(each, batch_id) for each in done]

            def release(connection: Any) -> Awaitable[None]:
                return self._claims.release_within(connection, ids)

            await lasting(lambda: keep_batch(self._database, batch, rows, within=release))
        except BaseException:
            await self._give_back(ids)
            raise
        if caught:
            raise Refused(f"{_refusal(caught)} None of the {len(done)} judgements of this batch was kept.")
        judged = [(each.claim.rubric_hash, each.judged) for each in done]
        return Tally.of(judged, broken=sum(each.broken for each in done))

    async def _judge_and_try(self, claims: Sequence[Claim]) -> tuple[list[_Done], tuple[CanaryResult, ...]]:
        await self._read_rubrics({claim.rubric_hash for claim in claims})
        by_id = {claim.episode_id: claim for claim in claims}
        cases = [each async for each in self._loader.some(list(by_id))]
        done: list[_Done] = []
        limiter = anyio.CapacityLimiter(self._pace.at_once)

        async def judge(episode_id: str, case: Case | Exception) -> None:
            async with limiter:
                done.append(await self._judge_one(by_id[episode_id], case))

        async with anyio.create_task_group() as tasks:
            for episode_id, case in cases:
                tasks.start_soon(judge, episode_id, case)
        return done, await self._try_canaries()

    async def _judge_one(self, claim: Claim, case: Case | Exception) -> _Done:
        rubric = self._rubrics[claim.rubric_hash]
        if isinstance(case, Exception):
            log.error("episode %s cannot be read, and has no reward", claim.episode_id, exc_info=case)
            return _Done(claim, failed(rubric, None, case), broken=True)
        try:
            return _Done(claim, await self._judge.judge(rubric, case), broken=False)
        except Exception as error:
            # Kept as a judgement without a reward: left out, it would be tried again for ever.
            log.exception("judging episode %s by rubric %s failed", claim.episode_id, claim.rubric_hash[:12])
            return _Done(claim, failed(rubric, case, error), broken=True)

    async def _try_canaries(self) -> tuple[CanaryResult, ...]:
        if self._canaries is None or self._judge.prompt_hash is not None:
            # Checks alone decide the same every time: for them, once a run is enough.
            self._canaries = await try_canaries(self._judge, self._canary_rubric)
        return self._canaries

    async def _read_rubrics(self, hashes: set[str]) -> None:
        new = hashes - self._rubrics.keys()
        if not new:
            return
        found = await lasting(lambda: rubrics(self._database, new))
        for hash_ in sorted(new):
            if hash_ not in found:
                raise ConfigurationError(f"rubric {hash_[:12]} was deleted while it was to be used; judge again")
            try:
                self._rubrics[hash_] = Rubric.of_content(found[hash_].content)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"rubric {hash_[:12]} cannot be used: {error}; `toolatlas rubric detach` takes it out of use"
                ) from error

    async def _while_renewing(self, ids: Sequence[str], work: Callable[[], Awaitable[T]]) -> T:
        failure: Exception | None = None
        answer: list[T] = []

        async def renew() -> None:
            while True:
                await anyio.sleep(self._pace.lease_s / RENEWALS)
                try:
                    await self._claims.renew(ids)
                except Exception as error:
                    # The next time may do; if none does, others judge these too, and what is written first stays.
                    log.warning("claims could not be renewed: %s", type(error).__name__)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(renew)
            try:
                answer.append(await work())
            except Exception as error:
                # Raised outside, for a task group would wrap it.
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return answer[0]

    async def _give_back(self, ids: Sequence[str]) -> None:
        with anyio.move_on_after(RELEASE_S, shield=True):
            try:
                await self._claims.release(ids)
            except Exception as error:
                log.warning("claims could not be given back, and run out: %s", type(error).__name__)

    def _row(self, done: _Done, batch: str) -> dict[str, Any]:
        row = row_of(done.claim, done.judged, judge=self._judge.name, repeat=self._wanted.repeat)
        return row | {"prompt_hash": self._judge.prompt_hash, "batch": batch}


async def lasting(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` gives, which is a transaction; tried again where the database cannot be used just now."""
    for pause_s in PAUSES_S:
        try:
            return await work()
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("the log cannot be used just now, again in %s s: %s", pause_s, type(error).__name__)
            await anyio.sleep(pause_s)
    return await work()


def _refusal(caught: Sequence[CanaryResult]) -> str:
    got = " ".join(f"{canary.name}: {canary.note}" for canary in caught)
    return (
        f"This judge cannot be trusted: {len(caught)} canaries, which deserve next to nothing, passed for more. {got}"
    )
