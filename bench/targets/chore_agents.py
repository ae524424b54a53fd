"""Agents that do the chores over HTTP, and what passed between them and the gateway.

Above: bench/sandbox.py. Below: chores.py says what they do; lean.py speaks for them. What is counted is what a model
would write (the arguments of each call) and read (the text of each answer), for a model pays for both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.lean import Era, LeanClient, http_client
from bench.targets.chores import Chore


@dataclass(slots=True)
class Transcript:
    """Of one agent and one chore."""

    moves: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What it wrote and what it read, in order: one round trip each."""
    answer: str = ""

    @property
    def round_trips(self) -> int:
        return len(self.moves)

    def tokens(self, count: Callable[[str], int]) -> int:
        """Written and read, each text once."""
        return sum(count(wrote) + count(read) for wrote, read in self.moves)

    def read_again(self, count: Callable[[str], int]) -> int:
        """What a model reads in all when every round trip begins with all that was before."""
        total = context = 0
        for wrote, read in self.moves:
            context += count(wrote) + count(read)
            total += context
        return total


async def by_hand(url: str, chore: Chore, folder: Path) -> Transcript:
    """One tool call after the other."""
    transcript = Transcript()
    async with http_client(url, Era.SESSION) as client:
        await _move(client, transcript, "describe_tools", {"tools": list(chore.tools)})

        async def call(tool: str, **arguments: Any) -> str:
            return await _move(client, transcript, "call_tool", {"tool": tool, "arguments": arguments})

        transcript.answer = await chore.by_hand(call, folder)
    return transcript


async def by_program(url: str, chore: Chore, folder: Path) -> Transcript:
    """One program."""
    transcript = Transcript()
    async with http_client(url, Era.SESSION) as client:
        await _move(client, transcript, "describe_tools", {"tools": list(chore.tools)})
        read = await _move(client, transcript, "run_python", {"code": chore.program.replace("FOLDER", str(folder))})
        transcript.answer = read.partition("Value:\n")[2].strip()
    return transcript


async def _move(client: LeanClient, transcript: Transcript, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call(name, arguments)
    read = "\n".join(item["text"] for item in result["content"] if item["type"] == "text")
    transcript.moves.append((json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False), read))
    return read
