"""The contracts of the agent loop: what a model is told and answers, and the world that its actions are done in.

Above: loop.py, between the two; openai_model.py and local_model.py are models, client_world.py and the metatools' own
delegating.py are worlds. Below: nothing but values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

FINISH = "finish_task"
"""The action that ends a task, in every variant."""


class Variant(StrEnum):
    """How much of the tools a model sees before it asks."""

    EAGER = "eager"
    """All definitions at once; it calls tools by their own names."""
    SERVERS = "servers"
    """Iterative server loading: names of servers, then all definitions of the one that it loads."""
    TOOLS = "tools"
    """Iterative tool loading: search, names, then definitions of the tools that it picks."""
    CODE = "code"
    """As `tools`, and it may write Python that calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that a model may do."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One action that a model asked for."""

    id: str
    """As the model gave it, or made for it."""
    name: str
    arguments: Mapping[str, Any]
    """Empty where they could not be read."""
    problem: str | None = None
    """Why they could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model said in one turn."""

    said: str = ""
    """Text beside its actions, or all of it where it asked for none; without its reasoning."""
    asked: tuple[Asked, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn, as the model is reminded of it."""

    said: str
    asked: tuple[Asked, ...]
    observed: tuple[str, ...]
    """One text for each of `asked`; for a turn without any, what the model was told then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """All that a model is told before a turn, but for the definitions of its actions."""

    system: str
    task: str
    exchanges: tuple[Exchange, ...] = ()


class Model(Protocol):
    """A language model that chooses actions. Belongs to one event loop."""

    @property
    def identity(self) -> str:
        """What tells it from others: where it is asked, and its name."""
        ...

    async def answer(self, conversation: Conversation, actions: tuple[Action, ...]) -> Answer:
        """The next turn.

        Raises:
            ModelError: It cannot be asked, or gives nothing that can be read.
        """
        ...

    async def close(self) -> None: ...


class World(Protocol):
    """Where actions are done: a gateway, seen by one agent in one task."""

    @property
    def introduction(self) -> str:
        """What the gateway tells agents first; its lines after the first are the index of servers."""
        ...

    @property
    def actions(self) -> tuple[Action, ...]: ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The raw result of a `tools/call`. What fails is a result, too."""
        ...
