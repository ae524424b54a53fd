"""What an adapter is compared with, by the names that the report uses.

Above: the loop; evaluating.py for the names. Below: the router's own code, so that what is measured is what serves.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from proxy.catalog.records import ServerRecord
from proxy.router.adapters import Adapter
from proxy.router.base import Router
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.fusion import FusedRouter
from proxy.router.lexical import LexicalRouter
from trainer.evaluation.alone import EncoderRouter

LEXICAL, ENCODER, FUSED, PREVIOUS, ADAPTER = "lexical", "encoder", "fused", "previous", "adapter"


def routers(
    servers: Sequence[ServerRecord],
    encoder: Encoder,
    cache: EmbeddingCache,
    adapter: Adapter,
    previous: Adapter | None = None,
) -> dict[str, Router]:
    """Words alone, meaning alone, both, and both with each adapter; all over `servers`. Embeds what the cache lacks.

    A scorer has a router of its own: put a `LanguageRouter` with it under `ADAPTER`, and one without, or with the
    adapter in force, under `PREVIOUS`.

    Raises:
        ConfigurationError: An adapter does not fit the encoder.
    """
    made: dict[str, Router] = {
        LEXICAL: LexicalRouter(servers),
        ENCODER: EncoderRouter(servers, encoder, cache),
        FUSED: FusedRouter(servers, encoder, cache),
    }
    if previous is not None:
        made[PREVIOUS] = FusedRouter(servers, encoder, cache, previous)
    return {**made, ADAPTER: FusedRouter(servers, encoder, cache, adapter)}


def compared_with(names: Container[str]) -> str:
    """Which of them the adapter is compared with: what is in force, else the router without an adapter."""
    return PREVIOUS if PREVIOUS in names else FUSED


def hash_of(router: Router) -> str | None:
    """Of the adapter that takes part in it; None where none does."""
    hashed = getattr(router, "adapter", None)
    return hashed if isinstance(hashed, str) else None
