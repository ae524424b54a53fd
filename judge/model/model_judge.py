"""The judge that is a model: asks about a few criteria at once, several times over, and believes what is borne out.

Above: judging.py of the package. Below: transcript.py, questions.py, answers.py, evidence.py, an `Endpoint`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from judge.case import Case
from judge.model.answers import Answer, read
from judge.model.endpoint import Cost, Endpoint, Reply
from judge.model.evidence import weigh
from judge.model.permission import servers_of, withheld
from judge.model.questions import NAME, again, prompt_hash, question, schema
from judge.model.transcript import Pieces, Redact, Transcript, transcript
from judge.rubric import Criterion, Kind, Need, Rubric
from judge.scope import Scope
from judge.settings import ModelSettings
from judge.verdict import Verdict, Why
from proxy.store.rendering import visible

TOLD_CHARS = 4_000
"""Of an answer that could not be read, so much is shown to the model again."""


class ModelJudge:
    """Decides the criteria of kind judge.

    Args:
        endpoint: The model.
        settings: How it is asked.
        permitted: Configured names of servers whose episodes a remote endpoint may see; `*` means all.
        redact: Takes what is secret out of a text of an episode; every text passes it before it is sent.
    """

    def __init__(self, endpoint: Endpoint, settings: ModelSettings, permitted: frozenset[str], redact: Redact) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._permitted = permitted
        self._redact = redact

    @property
    def name(self) -> str:
        """Of the model."""
        return self._endpoint.model

    @property
    def prompt_hash(self) -> str:
        return prompt_hash()

    @property
    def settings(self) -> ModelSettings:
        return self._settings

    def permits(self, case: Case) -> bool:
        """Whether the model may be asked about `case`: it was logged whole, and may be sent to where the model is."""
        return case.full and not withheld(self._endpoint, servers_of(case), self._permitted)

    async def close(self) -> None:
        await self._endpoint.close()

    async def decide(self, rubric: Rubric, case: Case, scope: Scope) -> tuple[tuple[Verdict, ...], Cost]:
        """One verdict for each criterion of kind judge, in the rubric's order, and what they took.

        Nothing is asked of an episode that the model may not see, nor of a criterion outside `scope`.
        """
        criteria = [each for each in rubric.criteria if each.kind is Kind.JUDGE]
        closed = self._closed(case, scope)
        unasked = {
            each.id: verdict for each in criteria if (verdict := _unasked(each, case, scope, closed)) is not None
        }
        asked = [each for each in criteria if each.id not in unasked]
        given: dict[str, list[Verdict]] = {each.id: [] for each in asked}
        cost = Cost()
        if asked:
            pieces = Pieces.of(case, self._redact)
            repeats = [self._repeat(rubric, asked, case, pieces, each) for each in range(self._settings.repeats)]
            for verdicts, took in await asyncio.gather(*repeats):
                cost += took
                for verdict in verdicts:
                    given[verdict.criterion].append(verdict)
        return tuple(unasked.get(each.id) or _together(each.id, given[each.id]) for each in criteria), cost

    def _closed(self, case: Case, scope: Scope) -> tuple[Why, str] | None:
        """Why nothing is asked about the episode; None where it may be."""
        if hidden := withheld(self._endpoint, servers_of(case), self._permitted):
            return Why.NOT_PERMITTED, f"a remote model may not see {', '.join(sorted(hidden))}"
        if not case.full:
            return Why.NOT_LOGGED, "contents of this episode were not to be written"
        return None if scope.model else (Why.NO_MODEL, "")

    async def _repeat(
        self, rubric: Rubric, criteria: Sequence[Criterion], case: Case, pieces: Pieces, repeat: int
    ) -> tuple[list[Verdict], Cost]:
        """All criteria once, in an order of this repeat's own. The marker of the fences is new each time."""
        # The same episode, rubric and repeat are asked about in the same order wherever that happens.
        chance = random.Random(f"{case.trajectory.id}:{rubric.hash}:{repeat}")
        order = chance.sample(criteria, len(criteria))
        shown = transcript(pieces, self._settings)
        at_once = self._settings.criteria_at_once
        questions = [
            self._ask(order[start : start + at_once], case, shown, chance.getrandbits(31))
            for start in range(0, len(order), at_once)
        ]
        verdicts: list[Verdict] = []
        cost = Cost()
        for answered, took in await asyncio.gather(*questions):
            verdicts += answered
            cost += took
        return verdicts, cost

    async def _ask(
        self, criteria: Sequence[Criterion], case: Case, shown: Transcript, seed: int
    ) -> tuple[list[Verdict], Cost]:
        messages = question(shown, criteria, lambda text: self._redact(case.trajectory.id, text))
        reply = await self._put(messages, criteria, seed)
        if reply.text is None:
            return _all_missing(criteria, reply), reply.cost
        answer, cost = read(reply.text, criteria), reply.cost
        if answer.problems:
            problem = "; ".join(sorted(set(answer.problems.values())))
            second = await self._put(again(messages, reply.text[:TOLD_CHARS], problem), criteria, seed)
            cost += second.cost
            if second.text is not None:
                answer = _completed(answer, read(second.text, criteria))
        return [_verdict(each, answer, shown) for each in criteria], cost

    async def _put(self, messages: Sequence[Mapping[str, str]], criteria: Sequence[Criterion], seed: int) -> Reply:
        form = schema([each.id for each in criteria])
        return await self._endpoint.ask(messages, form, name=NAME, seed=seed, temperature=self._settings.temperature)


def _unasked(criterion: Criterion, case: Case, scope: Scope, closed: tuple[Why, str] | None) -> Verdict | None:
    """Why a criterion is not asked about; None where it is."""
    seen = {Need.TASK: scope.task and case.task is not None, Need.ANSWER: scope.answer and case.answer is not None}
    if not all(seen[need] for need in criterion.needs):
        return Verdict(criterion=criterion.id, score=None, why=Why.OUT_OF_SCOPE)
    return None if closed is None else Verdict(criterion=criterion.id, score=None, why=closed[0], note=closed[1])


def _all_missing(criteria: Sequence[Criterion], reply: Reply) -> list[Verdict]:
    return [Verdict(criterion=each.id, score=None, why=reply.why, note=reply.note) for each in criteria]


def _completed(first: Answer, second: Answer) -> Answer:
    """What could be read at first stays; the second answer is for the rest."""
    claims = {**second.claims, **first.claims}
    return Answer(claims=claims, problems={id: why for id, why in second.problems.items() if id not in claims})


def _verdict(criterion: Criterion, answer: Answer, shown: Transcript) -> Verdict:
    claim = answer.claims.get(criterion.id)
    if claim is None:
        note = visible(answer.problems[criterion.id])
        return Verdict(criterion=criterion.id, score=None, why=Why.UNREADABLE, note=note)
    return weigh(claim, criterion, shown)


def _together(id: str, given: Sequence[Verdict]) -> Verdict:
    """The mean of the repeats that gave a score; missing where fewer than half did, for the most frequent reason."""
    repeats = tuple(each.score for each in given)
    scored = [each for each in given if each.score is not None]
    if 2 * len(scored) < len(given):
        why, _ = Counter(each.why for each in given if each.why is not None).most_common(1)[0]
        note = next(each.note for each in given if each.why is why)
        return Verdict(criterion=id, score=None, why=why, note=note, repeats=repeats)
    return Verdict(
        criterion=id,
        score=sum(each.score or 0.0 for each in scored) / len(scored),
        note=scored[0].note,
        steps=tuple(dict.fromkeys(step for each in scored for step in each.steps)),
        quotes=tuple(dict.fromkeys(quote for each in scored for quote in each.quotes)),
        repeats=repeats,
    )
