"""Adapters that nobody is served with: each is trained as the run's own was, with another part of the log held out.

Above: running.py. Below: making.py and training.py. With them every task of the log is asked of an adapter that has not
seen it (M. Stone, "Cross-validatory choice and assessment of statistical predictions", 1974), so that what is said of
the run's adapter does not hang on which fifth of the tasks was drawn. It is said of adapters that are made in this way,
of which the run's own is one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, load_adapter
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from trainer.loop.making import trainable_of
from trainer.loop.runs import Run
from trainer.loop.training import CHECKPOINTS, train
from trainer.rows import Split

FOLDS = "folds"
"""Of a run: a folder with one of each of its trainings."""
ADAPTER = "adapter"


async def other_folds(
    run: Run,
    encoder: Encoder,
    cache: EmbeddingCache,
    *,
    wanted: Callable[[], bool],
    say: Callable[[str], None],
) -> list[tuple[Split, Adapter]]:
    """What each held out, and what came of it; those that are there are not trained again. A fold whose rows teach
    nothing is left out: what it held out is not asked.

    Raises:
        Interrupted: `wanted` said no; the checkpoint is written.
    """
    splits = run.splits
    found: list[tuple[Split, Adapter]] = []
    for number, split in enumerate(splits[1:], 2):
        say(f"training without part {number} of {len(splits)}, to ask it of that")
        folder = run.folder / FOLDS / str(number)
        adapter = await anyio.to_thread.run_sync(partial(_trained, run, split, folder, encoder, cache, wanted))
        if adapter is not None:
            found.append((split, adapter))
    return found


def _trained(
    run: Run, split: Split, folder: Path, encoder: Encoder, cache: EmbeddingCache, wanted: Callable[[], bool]
) -> Adapter | None:
    if not (folder / ADAPTER).is_dir():
        try:
            trainable = trainable_of(run, encoder, cache, split)
        except ConfigurationError:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        train(trainable, folder, replace(run.settings.loop, tensorboard=None), wanted=wanted)
        trainable.save(folder / ADAPTER, {"run": run.id, "fold": folder.name})
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return load_adapter(folder / ADAPTER)
