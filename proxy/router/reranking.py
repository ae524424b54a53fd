"""What may reorder the best that the fusion finds, in the router's process: nothing, a language model, or one behind
a URL.

Above: worker.py. Below: fusion.py; language.py and language_endpoint.py, each imported only where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind
from proxy.router.base import Query, Ranking
from proxy.router.fusion import FusedRouter

if TYPE_CHECKING:
    import asyncio

    from proxy.router.language_endpoint import EndpointRanker
    from proxy.router.language_model import LanguageModel
    from proxy.router.logprob_endpoint import LogprobEndpoint


class Answering(Protocol):
    """Ranks the tools of one catalogue."""

    @property
    def base(self) -> FusedRouter:
        """What finds the candidates, and ranks servers."""
        ...

    def answer(self, query: Query, limit: int) -> Ranking:
        """At most `limit` tools, and who ranked them. Without the adapter's hash, which the gateway knows."""
        ...


class Second(Protocol):
    """The second stage of ranking; one in a process, for all catalogues."""

    def over(self, base: FusedRouter, servers: Sequence[ServerRecord], adapter: Adapter | None) -> Answering:
        """`adapter`: one that is attached."""
        ...

    def attach(self, adapter: Adapter) -> None:
        """Make a scorer ready. Raises ConfigurationError where it is not for this stage."""
        ...

    def detach(self, adapter: Adapter) -> None:
        """Forget one that is attached; nothing is ranked with it any more."""
        ...


class FusedAlone:
    """Implements `Answering`."""

    def __init__(self, base: FusedRouter) -> None:
        self.base = base

    def answer(self, query: Query, limit: int) -> Ranking:
        return Ranking(tuple(self.base.rank(query, limit)), self.base.policy)


class NoSecond:
    """Implements `Second`."""

    def over(self, base: FusedRouter, servers: Sequence[ServerRecord], adapter: Adapter | None) -> Answering:
        return FusedAlone(base)

    def attach(self, adapter: Adapter) -> None:
        raise ConfigurationError(
            f"the adapter {adapter.folder} is a {Kind.SCORER}: it needs the language model that it was trained on, "
            "--router slm:MODEL"
        )

    def detach(self, adapter: Adapter) -> None:
        """None was attached."""


class _ByModel:
    """Implements `Answering`."""

    def __init__(
        self, base: FusedRouter, servers: Sequence[ServerRecord], model: LanguageModel, adapter: Adapter | None
    ) -> None:
        from proxy.router.language import LanguageRouter

        self.base = base
        self._router = LanguageRouter(base, servers, model, adapter=adapter)

    def answer(self, query: Query, limit: int) -> Ranking:
        return Ranking(tuple(self._router.rank(query, limit)), self._router.policy)


class ByModel:
    """Implements `Second`: a causal model in this process, with any number of scorers beside each other."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def over(self, base: FusedRouter, servers: Sequence[ServerRecord], adapter: Adapter | None) -> Answering:
        return _ByModel(base, servers, self._model, adapter)

    def attach(self, adapter: Adapter) -> None:
        self._model.attach(adapter)

    def detach(self, adapter: Adapter) -> None:
        self._model.detach(adapter.hash)


class _ByEndpoint:
    """Implements `Answering`."""

    def __init__(self, base: FusedRouter, ranker: EndpointRanker, loop: asyncio.Runner) -> None:
        self.base = base
        self._ranker = ranker
        self._loop = loop

    def answer(self, query: Query, limit: int) -> Ranking:
        return self._loop.run(self._ranker.rank(query, limit))


class ByEndpoint:
    """Implements `Second`: a model behind a URL. What it does not answer in time stays in the order of the fusion."""

    def __init__(self, endpoint: LogprobEndpoint) -> None:
        import asyncio

        self._endpoint = endpoint
        # One for all questions, since the endpoint's connections belong to it.
        self._loop = asyncio.Runner()

    def over(self, base: FusedRouter, servers: Sequence[ServerRecord], adapter: Adapter | None) -> Answering:
        from proxy.router.current import InProcess
        from proxy.router.language_endpoint import EndpointRanker

        return _ByEndpoint(base, EndpointRanker(InProcess(base), servers, self._endpoint), self._loop)

    def attach(self, adapter: Adapter) -> None:
        raise ConfigurationError(
            f"the adapter {adapter.folder} is a {Kind.SCORER}: behind a URL, its server has to load it, and --router "
            "endpoint:URL#NAME names it"
        )

    def detach(self, adapter: Adapter) -> None:
        """None was attached."""


def second_of(spec: str, api_key: str | None, within_s: float) -> Second:
    """`slm:MODEL` or `endpoint:URL#MODEL`, as proxy/settings.py lets it pass; `within_s`: for one answer of a URL.

    Raises:
        ConfigurationError: A package or the model is not there, or the URL or the key cannot be used.
    """
    kind, _, argument = spec.partition(":")
    if kind == "slm":
        from proxy.router.language_model import load_language_model

        return ByModel(load_language_model(argument))
    from proxy.router.logprob_endpoint import LogprobEndpoint

    url, _, model = argument.partition("#")
    return ByEndpoint(LogprobEndpoint(url, model, api_key=api_key, timeout_s=within_s))
