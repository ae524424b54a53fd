"""What a run trains: made of its frozen parts alone, so that it is the same after a kill and on another machine.

Above: running.py. Below: ranking/ and policy/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from proxy.errors import ConfigurationError
from proxy.router.adapters import Kind
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.language_model import load_language_model
from trainer.loop.preparing import newest_catalog
from trainer.loop.runs import Run
from trainer.loop.trainable import Trainable
from trainer.rows import PolicyRow, RankingRow, Split

T = TypeVar("T", RankingRow, PolicyRow)


def trainable_of(run: Run, encoder: Encoder, cache: EmbeddingCache, split: Split | None = None) -> Trainable:
    """At its beginning; the loop brings it to where the run was left. `split`: another one than the run's own.

    Raises:
        ConfigurationError: The rows teach nothing, or a package is missing.
    """
    settings, split, rows = run.settings, split or run.split, run.rows
    name, kind = settings.language_model, settings.kind
    if kind in (Kind.SCORER, Kind.POLICY) and name is None:
        raise ConfigurationError(f"a {kind} is trained on a language model, and none is named: --model NAME")
    if settings.policy is not None:
        from trainer.policy.tuning import PolicyProblem

        own = [row for row in rows if isinstance(row, PolicyRow)]
        return PolicyProblem(
            _of(own, split.training),
            load_language_model(name or ""),
            settings.policy,
            validation=_of(own, split.validation),
        )
    from trainer.ranking.training import RankingProblem

    training = _of([row for row in rows if isinstance(row, RankingRow)], split.training)
    return RankingProblem(
        training,
        {newest_catalog(training): run.servers},
        encoder,
        cache,
        settings.ranking,
        validation=_of([row for row in rows if isinstance(row, RankingRow)], split.validation),
        language=load_language_model(name or "") if kind is Kind.SCORER else None,
    )


def _of(rows: Sequence[T], episodes: Sequence[str]) -> list[T]:
    wanted = frozenset(episodes)
    return [row for row in rows if row.origin.episode_id in wanted]
