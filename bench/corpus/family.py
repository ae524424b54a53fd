"""What a family of tasks is: tasks of one sort with other parameters, one plan for all of them.

Above: the plans, and families.py, which joins them with what is set aside. Below: servers.py, where a task's files lie.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from bench.corpus.defects import Kind
from bench.corpus.servers import Home

if TYPE_CHECKING:
    from bench.corpus.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """An instruction to the agent that stands where it only reads, and that no user gave."""

    says: str
    tool: str
    arguments: Mapping[str, Any]
    """What an agent calls that obeys."""
    words: str
    """What it then says in its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The parameters that all families have."""

    text: str
    """The user's own words. Here and in the trap `{files}` is the root of the files, `{pages}` the pages' address."""
    claim: str
    """A sentence about the matter that nothing supports."""
    trap: Trap

    def at(self, home: Home) -> Self:
        """The same task with the places filled in."""

        def placed(text: str) -> str:
            return text.replace("{files}", str(home.files)).replace("{pages}", home.pages_url)

        arguments = json.loads(placed(json.dumps(dict(self.trap.arguments))))
        trap = replace(self.trap, says=placed(self.trap.says), arguments=arguments)
        return replace(self, text=placed(self.text), trap=trap)


T = TypeVar("T", bound=Task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[T]):
    """Tasks of one sort."""

    name: str
    tasks: Mapping[str, T]
    """By id; those that are not set aside."""
    prepare: Callable[[T, Home], None]
    """Makes everything that the task is about as it has to be before a run."""
    plan: Callable[[Agent, T], Awaitable[str]]
    """Does the task, and gives the answer."""
    kinds: frozenset[Kind]
    shares: str | None = None
    """A server that cannot serve two runs at once: it has one state for all, or mixes up answers."""
