"""In which manner an endpoint takes a question: how the form of the answer is asked for, and which parameters it knows.

Above: openai_endpoint.py. Below: nothing. Endpoints that call themselves OpenAI-compatible differ in three things that
matter here: whether they hold the answer to a JSON Schema, whether they know `temperature` and `seed`, and what they
call the most tokens of an answer. What one refuses is given up, one thing at a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

_SEED = re.compile(r"\bseed\b")


class Rung(StrEnum):
    """How the form of the answer is asked for, best first."""

    SCHEMA = "json_schema"
    """The endpoint lets nothing else through; or says so."""
    OBJECT = "json_object"
    """Some JSON; its members are only described in the question."""
    WORDS = "words"
    """Only described."""

    @property
    def below(self) -> Rung | None:
        order = list(Rung)
        place = order.index(self) + 1
        return order[place] if place < len(order) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """One way to put a question."""

    rung: Rung = Rung.SCHEMA
    length: str = "max_tokens"
    """The other name is `max_completion_tokens`, which newer models of OpenAI insist on and older servers ignore."""
    temperature: bool = True
    seed: bool = True

    def parameters(
        self, schema: Mapping[str, Any], *, name: str, most_tokens: int, temperature: float, seed: int | None
    ) -> dict[str, Any]:
        """Of a chat completion, beside model and messages."""
        asked: dict[str, Any] = {self.length: most_tokens}
        if self.temperature:
            asked["temperature"] = temperature
        if self.seed and seed is not None:
            asked["seed"] = seed
        if self.rung is Rung.SCHEMA:
            held = {"name": name, "schema": dict(schema), "strict": True}
            asked["response_format"] = {"type": "json_schema", "json_schema": held}
        elif self.rung is Rung.OBJECT:
            asked["response_format"] = {"type": "json_object"}
        return asked

    def without_what(self, complaint: str) -> Manner | None:
        """The next to try when this one was refused with `complaint`; None where nothing is left to give up.

        Many endpoints do not say what they dislike, so that a complaint about anything else costs a rung.
        """
        said = complaint[:2_000].lower()
        if self.length == "max_tokens" and "max_completion_tokens" in said:
            return replace(self, length="max_completion_tokens")
        if self.temperature and "temperature" in said:
            return replace(self, temperature=False)
        if self.seed and _SEED.search(said):
            return replace(self, seed=False)
        return None if self.rung.below is None else replace(self, rung=self.rung.below)
