"""From a frozen run to a registered candidate: train, evaluate, save, register; what is done is not done again.

Above: learning.py and the command `train run`. Below: training.py, making.py, folding.py, evaluating.py,
and the store's registry.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from proxy.errors import ConfigurationError
from proxy.router.adapters import load_adapter
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.store import training_runs
from proxy.store.database import Database
from proxy.store.registry import Registered, in_force, register
from trainer.evaluation.gating import evidence
from trainer.loop.evaluating import evaluated
from trainer.loop.folding import other_folds
from trainer.loop.making import trainable_of
from trainer.loop.metrics import read
from trainer.loop.runs import FAILED, Run
from trainer.loop.trainable import Trainable
from trainer.loop.training import Ended, Tell, train
from trainer.promotion.evidence import EVIDENCE
from trainer.settings import to_json

DRAFT = ".draft-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where things are kept, and what reads texts."""

    adapters: Path
    """Folder of adapters, each under its hash: the gateway's."""
    encoder: Encoder
    cache: EmbeddingCache
    by: str = "learn"
    """Whom the registry names."""


async def run_through(
    database: Database,
    run: Run,
    place: Place,
    *,
    tell: Tell = lambda _position, _loss: None,
    wanted: Callable[[], bool] = lambda: True,
    say: Callable[[str], None] = lambda _: None,
    steps: Callable[[int], None] = lambda _: None,
) -> Mapping[str, Any]:
    """Whatever of the run is not done yet; its result. `steps` is told how many updates there are at most.

    Raises:
        Interrupted: `wanted` said no; the checkpoint is written.
        ConfigurationError: The rows teach nothing, a checkpoint is damaged, or the adapter in force cannot be loaded.
    """
    if (done := run.result) is not None:
        if FAILED in done:
            raise ConfigurationError(done[FAILED])
        return done
    say("reading what is learned from")
    try:
        trainable = await anyio.to_thread.run_sync(trainable_of, run, place.encoder, place.cache)
    except ConfigurationError as error:
        # Its rows are frozen: the next time they would teach as little.
        run.end({FAILED: str(error)})
        raise
    steps(trainable.steps)
    ended = await anyio.to_thread.run_sync(
        partial(train, trainable, run.folder, run.settings.loop, tell=tell, wanted=wanted)
    )
    hashed = await anyio.to_thread.run_sync(save, run, trainable, ended, place.adapters)
    result: dict[str, Any] = {"adapter": hashed, "training": asdict(ended)}
    if run.settings.policy is None:
        say("comparing it with what is in force, on what was held out")
        result |= await _compared(database, run, place, hashed, wanted, say)
    else:
        lines = [line for line in read(run.folder) if line["kind"] == "validation"]
        result["figures"] = {
            "before": next(line for line in lines if line["step"] == 0),
            "policy": next(line for line in lines if line["step"] == ended.best_step),
        }
    await enter(database, run, place, hashed, result)
    run.end(result)
    return result


async def _compared(
    database: Database, run: Run, place: Place, hashed: str, wanted: Callable[[], bool], say: Callable[[str], None]
) -> dict[str, Any]:
    active = (await in_force(database)).active
    before = None if active is None else load_adapter(place.adapters / active)
    # What is in force was trained on all folds but the first, so that only there it is compared fairly.
    others = await other_folds(run, place.encoder, place.cache, wanted=wanted, say=say) if before is None else ()
    adapter = load_adapter(place.adapters / hashed)
    report = await evaluated(database, run, adapter, before, others, place.encoder, place.cache)
    await training_runs.save(database, report)
    figures = {each.router: {name: its.value for name, its in each.figures.items()} for each in report.routers}
    return {"figures": figures, EVIDENCE: evidence(report).to_json()}


def save(run: Run, trainable: Trainable, ended: Ended, adapters: Path) -> str:
    """Write the adapter to `<adapters>/<hash>`, which appears whole; the same weights of the same run are the same
    adapter. Its hash."""
    adapters.mkdir(parents=True, exist_ok=True)
    facts = run.facts
    said = {
        "run": run.id,
        "command": facts["command"],
        "version": facts["version"],
        "commit": facts["commit"],
        "data_hash": facts["data_hash"],
        "config": facts["settings"],
        "training": asdict(ended),
    }
    draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=adapters)) / "adapter"
    try:
        hashed = trainable.save(draft, said)
        # Whoever was there first is the same.
        with suppress(OSError):
            os.rename(draft, adapters / hashed)
        if load_adapter(adapters / hashed).hash != hashed:
            raise ConfigurationError(f"{adapters / hashed} is another adapter than its name says; remove it")
    finally:
        shutil.rmtree(draft.parent, ignore_errors=True)
    return hashed


async def enter(database: Database, run: Run, place: Place, hashed: str, result: Mapping[str, Any]) -> None:
    """Into the registry, as a candidate."""
    adapter = load_adapter(place.adapters / hashed)
    settings = run.settings
    row = Registered(
        hash=hashed,
        kind=adapter.kind.value,
        base_hash=adapter.base_hash,
        data_hash=run.facts["data_hash"],
        config=to_json(settings),
        metrics={name: value for name, value in result.items() if name != "adapter"},
        run=run.id,
        created_at=datetime.now(UTC),
    )
    await register(database, row, by=place.by, reason=f"trained in the run {run.id}")
