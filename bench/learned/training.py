"""One adapter from some episodes of a log, by the trainer's own parts.

Above: the parts. Below: trainer/. Each training is kept in a folder under the hash of all that it depends on, so that a
bench that is run again, or was killed, trains nothing twice.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import anyio.to_thread

import trainer
from bench.learned.logs import Log
from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind, load_adapter
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.language_model import load_language_model
from proxy.store.database import Database
from proxy.store.filters import Filters
from trainer.data.collecting import collect
from trainer.data.settings import DataSettings, SplitSettings
from trainer.data.splits import split
from trainer.loop.preparing import newest_catalog
from trainer.loop.training import CHECKPOINTS, LoopSettings, train
from trainer.ranking.settings import RankingSettings

VALIDATION = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all trainings of one catalogue share."""

    folder: Path
    """For adapters."""
    servers: tuple[ServerRecord, ...]
    encoder: Encoder
    cache: EmbeddingCache
    language_model: str | None = None
    data: DataSettings = field(default_factory=DataSettings)
    near: float = SplitSettings().near
    """The least cosine of near duplicates."""


@cache
def _code() -> str:
    """Hash of the trainer's modules: another trainer makes another adapter of the same rows."""
    found = sha256()
    for path in sorted(Path(trainer.__path__[0]).rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


async def adapter_of(
    bench: Bench, log: Log, episodes: Sequence[str], settings: RankingSettings, *, agents: frozenset[str] | None = None
) -> Adapter | None:
    """Trained on these episodes alone, or of them on those by `agents`; None where they teach nothing."""
    chosen = [each for each in episodes if agents is None or log.agents[each] in agents]
    said = [log.path.name, sorted(chosen), asdict(settings), asdict(bench.data), bench.encoder.hash, _code()]
    folder = bench.folder / sha256(json.dumps(said, default=str).encode()).hexdigest()[:24]
    if (folder / "nothing").is_file():
        return None
    if (folder / "adapter").is_dir():
        return load_adapter(folder / "adapter")
    shutil.rmtree(folder, ignore_errors=True)
    database = Database(log.url, statement_s=None)
    try:
        collected = await collect(database, bench.data, filters=Filters(ids=tuple(chosen)))
    finally:
        await database.close()
    sides = split(
        [*collected.episodes.values(), *collected.rows],
        SplitSettings(validation=VALIDATION, test=0.0, seed=settings.seed, near=bench.near),
        encoder=bench.encoder,
    )
    training, validation = frozenset(sides.training), frozenset(sides.validation)
    rows = [row for row in collected.rows if row.origin.episode_id in training]
    others = [row for row in collected.rows if row.origin.episode_id in validation]

    def work() -> Adapter | None:
        from trainer.ranking.training import RankingProblem

        language = load_language_model(bench.language_model or "") if settings.kind is Kind.SCORER else None
        try:
            problem = RankingProblem(
                rows,
                {newest_catalog(rows): bench.servers} if rows else {},
                bench.encoder,
                bench.cache,
                settings,
                validation=others,
                language=language,
            )
        except ConfigurationError as error:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "nothing").write_text(f"{error}\n", "utf-8")
            return None
        train(problem, folder, LoopSettings())
        problem.save(folder / "adapter", {"data_hash": collected.data_hash})
        shutil.rmtree(folder / CHECKPOINTS)
        return load_adapter(folder / "adapter")

    return await anyio.to_thread.run_sync(partial(work))
