"""The seam to a model: a question in messages and the schema of its answer go in, text and cost come out.

Above: judging.py of this package, writing/by_model.py. Below: openai_endpoint.py, which speaks to any OpenAI-compatible
server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from judge.verdict import Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What questions took. Adds up."""

    questions: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0
    """In the currency of the prices set; 0 where none are."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            questions=self.questions + other.questions,
            retries=self.retries + other.retries,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            money=self.money + other.money,
        )

    def content(self) -> dict[str, Any]:
        """As JSON, for `judgements.cost`."""
        return {
            "questions": self.questions,
            "retries": self.retries,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "money": self.money,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of one question. Exactly one of `text` and `why` is None."""

    text: str | None
    """The model's words, not yet parsed, however they were constrained."""
    why: Why | None = None
    """`REFUSED`, `UNREACHABLE` after all retries, or `UNREADABLE` where it said nothing or was cut off."""
    note: str = ""
    """What the endpoint said of it; never with a key."""
    cost: Cost


class Endpoint(Protocol):
    """A model that answers questions. Safe for many questions at once; it bounds them itself."""

    @property
    def model(self) -> str:
        """Name of the model, for the judge's name."""
        ...

    @property
    def remote(self) -> bool:
        """Whether what is asked leaves this machine."""
        ...

    async def ask(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any],
        *,
        name: str,
        seed: int | None = None,
        temperature: float = 0.0,
    ) -> Reply:
        """One answer, which should be JSON of `schema`, called `name`. What an endpoint does raises nothing."""
        ...

    async def close(self) -> None: ...
