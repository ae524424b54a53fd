"""Models that are made up: each answers every question in its one way, by the record that it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.model.endpoint import Cost, Reply
from judge.verdict import Why

Voice = Callable[[str, Sequence[str]], list[dict[str, Any]] | Why]
"""From the record and the ids of the criteria to entries of an answer, or why there is none."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """An endpoint that answers with a voice."""

    voice: Voice
    remote: bool = False
    model: str = "voice"

    async def ask(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any],
        *,
        name: str,
        seed: int | None = None,
        temperature: float = 0.0,
    ) -> Reply:
        ids: list[str] = schema["properties"][name]["items"]["properties"]["id"]["enum"]
        said = self.voice(messages[1]["content"], ids)
        cost = Cost(questions=1)
        if isinstance(said, Why):
            return Reply(text=None, why=said, cost=cost)
        return Reply(text=json.dumps({name: said}), cost=cost)

    async def close(self) -> None: ...


def of_all(ids: Sequence[str], verdict: str, **changed: Any) -> list[dict[str, Any]]:
    """The same entry for each."""
    entry = {"reason": "So.", "step": "none", "quote": "", "searched": [], "verdict": verdict, **changed}
    return [{"id": id, **entry} for id in ids]


def strict(record: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Looked everywhere, and found nothing met."""
    return of_all(ids, "not_met", searched=["s1", "s2", "answer"])


def gullible(record: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """All is met, as the result of the second step bears out, whatever it is."""
    return of_all(ids, "met", step="s2", quote=called(record))


def lukewarm(record: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    return of_all(ids, "partly", step="s2", quote=called(record))


def called(record: str) -> str:
    """What the second step did, word for word."""
    found = re.search(r"^s2 .*?\[data (\w+)\]\n(.*?)\n\[end \1\]", record, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[2]


def careless(record: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """All is met, with a quote that stands nowhere."""
    return of_all(ids, "met", step="s2", quote="everything was done as asked")


def silent(record: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    return of_all(ids, "cannot_tell")


def declining(record: str, ids: Sequence[str]) -> Why:
    return Why.REFUSED
