"""What a run trains: made of its frozen parts alone, so that it is the same after a kill and on another machine.

Above: running.py. Below: ranking/.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
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

    split = run.split
    rows = [row for row in run.rows if isinstance(row, RankingRow)]
    training = _of(rows, split.training)
    return RankingProblem(
        training,
        {newest_catalog(training): run.servers},
        encoder,
        cache,
        run.settings.ranking,
        validation=_of(rows, split.validation),
    )


def _of(rows: list[RankingRow], episodes: Sequence[str]) -> list[RankingRow]:
    wanted = frozenset(episodes)
    return [row for row in rows if row.origin.episode_id in wanted]
