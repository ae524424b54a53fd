"""What a run trains: made of its frozen parts alone, so that it is the same after a kill and on another machine.

Above: running.py. Below: ranking/.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.router.adapters import Kind
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.language_model import load_language_model
from trainer.loop.preparing import newest_catalog
from trainer.loop.runs import Run
from trainer.loop.trainable import Trainable
from trainer.rows import RankingRow


def trainable_of(run: Run, encoder: Encoder, cache: EmbeddingCache) -> Trainable:
    """At its beginning; the loop brings it to where the run was left.

    Raises:
        ConfigurationError: The rows teach nothing, or a package is missing.
    """
    from trainer.ranking.training import RankingProblem

    settings, split = run.settings, run.split
    rows = [row for row in run.rows if isinstance(row, RankingRow)]
    training = _of(rows, split.training)
    return RankingProblem(
        training,
        {newest_catalog(training): run.servers},
        encoder,
        cache,
        settings.ranking,
        validation=_of(rows, split.validation),
        language=load_language_model(settings.language_model)
        if settings.ranking.kind is Kind.SCORER and settings.language_model is not None
        else None,
    )


def _of(rows: list[RankingRow], episodes: Sequence[str]) -> list[RankingRow]:
    wanted = frozenset(episodes)
    return [row for row in rows if row.origin.episode_id in wanted]
