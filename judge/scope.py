"""What of an episode could be seen, and so which criteria count in its reward: rewards of different scopes never mix.

Above: judging.py, deciding.py, model/, reward.py, the store's column `scope`. Below: case.py, checks/library.py. A
reward without the user's words or the agent's answer rests on other criteria than one with them; each judgement
therefore says its scope, and nothing compares or averages rewards over two.
"""

from __future__ import annotations

from dataclasses import dataclass

from judge.case import Case
from judge.checks.library import Library
from judge.rubric import Criterion, Kind, Need, RubricError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What could be seen of an episode beside its calls, which are always there."""

    task: bool
    """The task in the user's own words."""
    answer: bool
    """What the agent told its user, be it nothing."""
    model: bool
    """A model judges too."""

    def __str__(self) -> str:
        """`calls`, then `+task`, `+answer`, `+model` as far as each is so."""
        said = {"task": self.task, "answer": self.answer, "model": self.model}
        return "+".join(["calls", *(name for name, seen in said.items() if seen)])

    @classmethod
    def of(cls, case: Case, *, model: bool) -> Scope:
        """Of `case`. `model` says whether there is one that may see it; an episode that was not logged whole shows it
        nothing to quote."""
        return cls(task=case.task is not None, answer=case.answer is not None, model=model and case.full)

    @classmethod
    def read(cls, text: str) -> Scope:
        """Back from its text. Raises ValueError for what is none."""
        _, *parts = text.split("+")
        scope = cls(task="task" in parts, answer="answer" in parts, model="model" in parts)
        if str(scope) != text:
            raise ValueError(f"{text!r} is no scope: it is `calls`, then +task, +answer, +model in this order")
        return scope

    def shows(self, criterion: Criterion, library: Library) -> bool:
        """Whether `criterion` can be decided from what was seen. So can one whose check `library` lacks: it is broken,
        which counts as missing, where out of scope would let it vanish."""
        if criterion.kind is Kind.JUDGE:
            return self.model and self._has(criterion.needs)
        try:
            return self._has(library.of(criterion).needs)
        except RubricError:
            return True

    def _has(self, needs: frozenset[Need]) -> bool:
        seen = {Need.TASK: self.task, Need.ANSWER: self.answer}
        return all(seen[need] for need in needs)
