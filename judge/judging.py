"""The judge as a whole: code decides what it can, a model the rest, and both make one reward.

Above: running.py, trust/. Below: deciding.py, reward.py, scope.py; model/model_judge.py behind `Model`. Free of state:
any number of episodes may be judged at once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Protocol

import anyio.lowlevel

from judge.case import Case
from judge.checks.library import REVISION, Library
from judge.deciding import decide
from judge.model.endpoint import Cost
from judge.reward import Reward, reward
from judge.rubric import Kind, Rubric
from judge.scope import Scope
from judge.settings import FINGERPRINT_CHARS, ModelSettings, RewardSettings, fingerprint
from judge.verdict import Verdict, Why

NAME_CHARS = 150
"""Of a model's name in the judge's, which a column of 200 has to hold; the fingerprint tells longer ones apart."""
_NOTES = {
    Why.OUT_OF_SCOPE: "The episode does not show it.",
    Why.NOT_PERMITTED: "The owner has not allowed the model's endpoint to see all servers of this episode.",
    Why.NOT_LOGGED: "The contents of this episode were not to be written, so the model has nothing to read.",
}


class Model(Protocol):
    """Decides what code cannot; `ModelJudge` is one."""

    @property
    def name(self) -> str:
        """Of the model, for the judge's name."""
        ...

    @property
    def prompt_hash(self) -> str:
        """Changes with every text that the model is asked by."""
        ...

    @property
    def settings(self) -> ModelSettings: ...

    def permits(self, case: Case) -> bool:
        """Whether the model may see this episode. Always so where nothing leaves this machine, and for `Scripted`."""
        ...

    async def decide(self, rubric: Rubric, case: Case, scope: Scope) -> tuple[tuple[Verdict, ...], Cost]:
        """One verdict for each criterion of kind judge, in order. What an endpoint does raises nothing."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One rubric applied to one trajectory."""

    verdicts: tuple[Verdict, ...]
    """One a criterion, in the rubric's order."""
    reward: Reward
    cost: Cost


class Judge:
    """Checks, and a model where there is one. It owns the model and closes it."""

    def __init__(self, library: Library, reward: RewardSettings, model: Model | None = None) -> None:
        self._library = library
        self._settings = reward
        self._model = model

    @property
    def name(self) -> str:
        """`checks-1/ab12cd34`, or with a model `MODEL+checks-1/ab12cd34`: another name wherever verdicts or rewards may
        differ. At most 180 characters."""
        model = self._model
        checks = f"checks-{REVISION}"
        if model is None:
            return f"{checks}/{fingerprint(self._settings, None)}"
        said = "\0".join((fingerprint(self._settings, model.settings), model.prompt_hash, model.name))
        digest = hashlib.sha256(said.encode()).hexdigest()[:FINGERPRINT_CHARS]
        return f"{model.name[:NAME_CHARS]}+{checks}/{digest}"

    @property
    def prompt_hash(self) -> str | None:
        """None without a model."""
        return None if self._model is None else self._model.prompt_hash

    @property
    def settings(self) -> RewardSettings:
        """By which verdicts become rewards."""
        return self._settings

    async def judge(self, rubric: Rubric, case: Case) -> Judged:
        """Decide every criterion of `rubric` for the trajectory of `case`."""
        # Checks never wait: without this, many judgements in a row would let nothing else run.
        await anyio.lowlevel.checkpoint()
        closed = self._closed(case)
        scope = Scope.of(case, model=self._model is not None and closed is None)
        verdicts = {verdict.criterion: verdict for verdict in decide(rubric, case, self._library, scope)}
        cost = Cost()
        if self._model is not None:
            asked = [each for each in rubric.criteria if each.kind is Kind.JUDGE]
            seen = replace(scope, model=True)
            shown = [each.id for each in asked if seen.shows(each, self._library)]
            verdicts |= {each.id: _missing(each.id, Why.OUT_OF_SCOPE) for each in asked}
            if closed is not None:
                verdicts |= {each: _missing(each, closed) for each in shown}
            elif shown:
                decided, cost = await self._model.decide(rubric, case, scope)
                verdicts |= {verdict.criterion: verdict for verdict in decided if verdict.criterion in shown}
        ordered = tuple(verdicts[criterion.id] for criterion in rubric.criteria)
        return Judged(verdicts=ordered, reward=reward(rubric, ordered, scope, self._settings), cost=cost)

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()

    def _closed(self, case: Case) -> Why | None:
        """Why the model may not see the episode; None where it may, or there is none."""
        if self._model is None:
            return None
        if not case.full:
            return Why.NOT_LOGGED
        return None if self._model.permits(case) else Why.NOT_PERMITTED


def _missing(criterion: str, why: Why) -> Verdict:
    return Verdict(criterion=criterion, score=None, why=why, note=_NOTES[why])
