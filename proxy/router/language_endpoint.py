"""A language model behind a URL as router: of the best that another ranker finds, those whose letters it would answer.

Above: reranking.py. Below: logprob_endpoint.py, and the texts of language.py. What is asked,
and names and descriptions of the candidates, go to the server of that URL.

One question holds at most 20 candidates, as many as there are log-probabilities in an answer; more are asked about in
several, all at once. The first candidate stands in each of them, so that the others can be compared with it, and
through it with each other. Each question is put once more without what is asked: what makes a letter likely for other
reasons, its place or a description that demands to be chosen, is likely then, too, and is taken off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import anyio

from proxy.catalog.records import ServerRecord
from proxy.router.base import Query, Ranked, Ranker, Ranking
from proxy.router.language import CANDIDATES, empty_question, question
from proxy.router.logprob_endpoint import LETTERS, Likely, LogprobEndpoint, Unscored
from proxy.router.unanswered import Why
from proxy.store.rendering import visible

logger = logging.getLogger("toolatlas.router")

PART_CHARS = 4_000
"""Of a query and of a task; the middle goes, and its place says so."""
DESCRIPTION_CHARS = 160
PAUSE_S = 10.0
"""After a failure, for which nobody is made to wait again."""
_ASKED = "An agent searches for the tool that it needs next. Which of these fits its search best?"
_ANSWER = "Answer with the letter of one tool, and nothing else."


class EndpointRanker:
    """Reorders what `base` finds in one catalogue; the endpoint may be shared with the rankers of others.

    Where the endpoint fails, the order is that of `base`, `degraded` says why, and for `pause_s` it is not asked again.
    """

    def __init__(
        self,
        base: Ranker,
        servers: Sequence[ServerRecord],
        endpoint: LogprobEndpoint,
        *,
        candidates: int = CANDIDATES,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._base = base
        self._endpoint = endpoint
        self._candidates = candidates
        self._pause_s = pause_s
        self._descriptions = {tool.written: tool.description for server in servers for tool in server.tools}
        self._failed: Why | None = None
        self._failed_until = 0.0

    @property
    def policy(self) -> str:
        return f"endpoint:{self._endpoint.model}"

    async def rank(self, query: Query, limit: int) -> Ranking:
        """As `Ranker` says. Those that the model was not asked about stand below all others, in the order of `base`."""
        found = await self._base.rank(query, max(limit, self._candidates) if limit > 0 else limit)
        best, rest = [each.tool for each in found.tools[: self._candidates]], found.tools[self._candidates :]
        if len(best) < 2:
            return Ranking(found.tools[:limit], found.policy, found.adapter, found.degraded)
        try:
            scores = await self._scores(query, best)
        except Unscored as error:
            return Ranking(found.tools[:limit], found.policy, found.adapter, degraded=error.why.value)
        order = sorted(best, key=lambda tool: -scores[tool])
        lowest = scores[order[-1]]
        ranked = [Ranked(tool, scores[tool]) for tool in order]
        below = [Ranked(each.tool, lowest - place) for place, each in enumerate(rest, 1)]
        return Ranking(tuple([*ranked, *below][:limit]), self.policy, found.adapter, found.degraded)

    async def _scores(self, query: Query, tools: Sequence[str]) -> dict[str, float]:
        if self._failed is not None and time.monotonic() < self._failed_until:
            raise Unscored(self._failed, "failed lately")
        try:
            scores = await self._asked(query, tools)
        except Unscored as error:
            logger.warning(
                "the router's model %s %s; for %g s searches go without it", self._endpoint.model, error, self._pause_s
            )
            self._failed, self._failed_until = error.why, time.monotonic() + self._pause_s
            raise
        self._failed = None
        return scores

    async def _asked(self, query: Query, tools: Sequence[str]) -> dict[str, float]:
        first, others = tools[0], tools[1:]
        rounds = [[first, *part] for part in _parts(others, len(LETTERS) - 1)]
        texts = [self._question(each, part) for part in rounds for each in (query, empty_question(query))]
        answers: list[Likely | Unscored | None] = [None] * len(texts)

        async def ask(place: int) -> None:
            try:
                answers[place] = await self._endpoint.letters(texts[place], len(rounds[place // 2]))
            except Unscored as error:
                answers[place] = error
                # The others' answers are of no use any more.
                asking.cancel_scope.cancel()

        async with anyio.create_task_group() as asking:
            for place in range(len(texts)):
                asking.start_soon(ask, place)
        if (failed := next((each for each in answers if isinstance(each, Unscored)), None)) is not None:
            raise failed
        told = [each for each in answers if isinstance(each, Likely)]
        scores = {first: 0.0}
        for part, asked, empty in zip(rounds, told[::2], told[1::2], strict=True):
            gained = _gained(asked, empty)
            scores |= {tool: gain - gained[0] for tool, gain in zip(part[1:], gained[1:], strict=True)}
        return scores

    def _question(self, query: Query, tools: Sequence[str]) -> str:
        lines = [f"{letter}. {tool}{self._description(tool)}" for letter, tool in zip(LETTERS, tools, strict=False)]
        return "\n".join([_ASKED, "", question(query, PART_CHARS), "", *lines, "", _ANSWER])

    def _description(self, tool: str) -> str:
        text = " ".join(visible(self._descriptions.get(tool, "")[:DESCRIPTION_CHARS]).split())
        return f": {text}" if text else ""


def _gained(asked: Likely, empty: Likely) -> list[float]:
    """By how much each letter is likelier for what is asked.

    For one that only the empty question leaves out, at least so much; those that the question itself leaves out come
    after all that it names.
    """
    known = [
        None if likely is None else likely - (empty.bound if prior is None else prior)
        for likely, prior in zip(asked.letters, empty.letters, strict=True)
    ]
    worst = min(gain for gain in known if gain is not None)
    return [worst - 1 if gain is None else gain for gain in known]


def _parts(tools: Sequence[str], most: int) -> list[Sequence[str]]:
    """As few as can be, of like length."""
    count = -(-len(tools) // most)
    size = -(-len(tools) // count)
    return [tools[start : start + size] for start in range(0, len(tools), size)]
