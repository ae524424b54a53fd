"""A run's adapter against what is in force, on what the run held out.

Above: running.py. Below: evaluation/, and the router's own code. A scorer reorders what words and meaning find, so that
its router is another one; it is compared with the same model without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio.to_thread

from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind
from proxy.router.base import Router
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.fusion import FusedRouter
from proxy.router.language import LanguageRouter
from proxy.router.language_model import load_language_model
from proxy.router.lexical import LexicalRouter
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.rewards import rewards
from proxy.store.training_report import Report
from trainer.evaluation.evaluating import Fold, evaluate
from trainer.evaluation.routers import ADAPTER, FUSED, LEXICAL, PREVIOUS, routers
from trainer.loop.metrics import read
from trainer.loop.runs import Run
from trainer.rows import RankingRow, Split


async def evaluated(
    database: Database,
    run: Run,
    adapter: Adapter,
    before: Adapter | None,
    others: Sequence[tuple[Split, Adapter]],
    encoder: Encoder,
    cache: EmbeddingCache,
) -> Report:
    """The report, with differences for the gates. `others`: heads of the run's other folds, each with what it held out.

    Raises:
        ConfigurationError: One of the adapters does not fit what is here.
    """
    made = await anyio.to_thread.run_sync(_routers, run, adapter, before, encoder, cache)
    folds = [
        Fold(split=split, routers={**made, ADAPTER: FusedRouter(run.servers, encoder, cache, its)})
        for split, its in others
    ]
    tested = [episode for split in (run.split, *(each.split for each in folds)) for episode in split.test]
    scopes = {each.episode_id: each.scope async for each in rewards(database, Filters(ids=tuple(tested)))}
    return await evaluate(
        [row for row in run.rows if isinstance(row, RankingRow)],
        run.split,
        made,
        kind=adapter.kind.value,
        facts=run.facts,
        metrics=read(run.folder),
        others=folds,
        scopes=scopes,
        settings=run.settings.evaluation,
    )


def _routers(
    run: Run, adapter: Adapter, before: Adapter | None, encoder: Encoder, cache: EmbeddingCache
) -> Mapping[str, Router]:
    servers = run.servers
    if Kind.SCORER not in (adapter.kind, None if before is None else before.kind):
        return routers(servers, encoder, cache, adapter, before)
    name = run.settings.language_model
    if name is None:
        raise ConfigurationError("a scorer is in force, and nothing says on which model: name it with --model")
    fused, model = FusedRouter(servers, encoder, cache), load_language_model(name)

    def with_adapter(its: Adapter | None) -> Router:
        if its is None or its.kind is Kind.SCORER:
            return LanguageRouter(fused, servers, model, adapter=its)
        return LanguageRouter(FusedRouter(servers, encoder, cache, its), servers, model)

    return {
        LEXICAL: LexicalRouter(servers),
        FUSED: fused,
        PREVIOUS: with_adapter(before),
        ADAPTER: with_adapter(adapter),
    }
