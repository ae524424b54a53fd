"""Has rubrics written for tasks and families of the log: finds good episodes, lets a writer work, keeps what it made.

Above: commands/writing.py. Below: queries.py, labelled.py, loading.py, writing/. An episode without a judgement by the
default rubric is judged here by checks, for the choice alone: nothing is written of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select

from judge.case import Case
from judge.checks.library import Library
from judge.default import default_rubric
from judge.judging import Judge
from judge.keeping import attach, keep_rubric
from judge.labelled import mean_labels
from judge.loading import Loader
from judge.model.endpoint import Endpoint
from judge.model.permission import servers_of
from judge.model.transcript import Redact
from judge.queries import members
from judge.rubric import Rubric
from judge.settings import RewardSettings
from judge.writing.by_model import MOST_EXAMPLES, lines_of, write_by_model, writer_of
from judge.writing.choosing import Candidate, choose_sources
from judge.writing.derived import WRITER, WritingError, derive
from proxy.store.catalogues import Catalogue, catalogue
from proxy.store.database import Database
from proxy.store.judgements import judgements, labels
from proxy.store.rubrics import Attached
from proxy.store.tables import FilingRow

MOST_MEMBERS = 200
"""Of a family, the newest: more are not looked at for sources."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a rubric is to be written for: the key of a task, or the id of a family."""

    kind: Attached
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A rubric that was made and kept."""

    target: Target
    hash: str
    rubric: Rubric
    writer: str
    sources: tuple[str, ...]


async def narrowed(database: Database, target: Target) -> Target:
    """A family of which only one task is known becomes that task: what its runs have in common is true of it alone."""
    if target.kind is not Attached.FAMILY:
        return target
    statement = select(FilingRow.task_key).where(FilingRow.family == target.id).distinct().limit(2)
    async with database.reading() as connection:
        keys = list((await connection.execute(statement)).scalars())
    only = keys[0] if len(keys) == 1 else None
    return target if only is None else Target(Attached.TASK, only)


async def group(database: Database, target: Target) -> list[str]:
    """Ids of the newest episodes that a rubric for `target` would judge."""
    key = target.id if target.kind is Attached.TASK else None
    family = target.id if target.kind is Attached.FAMILY else None
    return (await members(database, task_key=key, family=family))[-MOST_MEMBERS:]


async def write_derived(database: Database, target: Target, library: Library) -> Written:
    """A rubric of checks, made of good episodes.

    Raises:
        WritingError: There are too few, or they have nothing in common that could be asked of others.
    """
    cases = await _cases(database, await group(database, target))
    sources = await _sources(database, cases, library)
    tasks = list(dict.fromkeys(case.task for case in cases.values() if case.task is not None))
    rubric = derive([cases[each] for each in sources], tasks=tasks, library=library)
    hash_ = await keep_rubric(database, rubric, writer=WRITER, sources=sources)
    return Written(target=target, hash=hash_, rubric=rubric, writer=WRITER, sources=tuple(sources))


async def write_modelled(
    database: Database,
    target: Target,
    endpoint: Endpoint,
    library: Library,
    *,
    permitted: frozenset[str],
    redact: Redact,
) -> Written:
    """A rubric that a model writes for a task; of a family, for its most frequent one. Good episodes are examples.

    Raises:
        ConfigurationError: A remote endpoint may not be told of a server, it failed, or no usable rubric came.
    """
    if target.kind is Attached.FAMILY:
        target = Target(Attached.TASK, await _most_frequent(database, target.id))
    cases = await _cases(database, await group(database, target))
    chosen = (await _sources(database, cases, library))[:MOST_EXAMPLES]
    # The task's words are somebody's too: the rubric goes with the episode that they are from.
    sources = tuple(chosen) or tuple(list(cases)[:1])
    if not sources:
        raise WritingError(f"no episode of {target.kind} {target.id} can be read")
    first = cases[sources[0]]
    tools = await _tools(database, [cases[each] for each in sources])
    servers = {each.server for each in tools.definitions.values()} if tools is not None else set[str]()
    rubric = await write_by_model(
        endpoint,
        first.task or "",
        () if tools is None else lines_of(tools),
        [cases[each] for each in chosen],
        library,
        servers=servers | servers_of(first),
        permitted=permitted,
        redact=redact,
    )
    writer = writer_of(endpoint.model)
    hash_ = await keep_rubric(database, rubric, writer=writer, sources=sources)
    return Written(target=target, hash=hash_, rubric=rubric, writer=writer, sources=sources)


async def attach_written(database: Database, written: Written) -> None:
    """Let it judge what it was written for."""
    await attach(database, written.hash, written.target.kind, written.target.id)


async def _most_frequent(database: Database, family: str) -> str:
    statement = (
        select(FilingRow.task_key)
        .where(FilingRow.family == family, FilingRow.task_key.is_not(None))
        .group_by(FilingRow.task_key)
        .order_by(func.count().desc(), FilingRow.task_key)
        .limit(1)
    )
    async with database.reading() as connection:
        found = (await connection.execute(statement)).scalar_one_or_none()
    if found is None:
        raise WritingError(f"family {family} has no episode")
    return found


async def _tools(database: Database, cases: Sequence[Case]) -> Catalogue | None:
    """The catalogue that the first of them saw, with the definitions of the servers that any of them called."""
    servers = {act.server for case in cases for act in case.acts}
    found = await catalogue(database, cases[0].trajectory.catalog)
    if found is None:
        return None
    kept = {written: each for written, each in found.definitions.items() if each.server in servers or not servers}
    return replace(found, definitions=kept)


async def _cases(database: Database, episode_ids: Sequence[str]) -> dict[str, Case]:
    loader = Loader(database)
    return {id_: case async for id_, case in loader.some(episode_ids) if isinstance(case, Case)}


async def _sources(database: Database, cases: dict[str, Case], library: Library) -> Sequence[str]:
    rewards = await _rewards(database, cases, library)
    said = await labels(database, list(cases))
    candidates: list[Candidate] = []
    for episode_id, case in cases.items():
        ending = case.trajectory.ending
        candidates.append(
            Candidate(
                episode_id=episode_id,
                agent=case.trajectory.agent,
                label=mean_labels(said.get(episode_id, ()), None).get(None),
                reward=rewards.get(episode_id),
                outcome=None if ending is None else ending.outcome,
            )
        )
    return choose_sources(candidates)


async def _rewards(database: Database, cases: dict[str, Case], library: Library) -> dict[str, float | None]:
    default = default_rubric()
    judge, hash_ = Judge(library, RewardSettings()), default.hash
    stored = await judgements(database, list(cases))
    found: dict[str, float | None] = {}
    for episode_id, case in cases.items():
        by_default = [each.reward for each in stored.get(episode_id, ()) if each.rubric_hash == hash_]
        found[episode_id] = by_default[-1] if by_default else (await judge.judge(default, case)).reward.value
    return found
