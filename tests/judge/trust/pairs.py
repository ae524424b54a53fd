"""Pairs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable

from judge.trust.agreement import Pair


def pair(score: float | None, human: float, item: str = "e1", **changed: object) -> Pair:
    members: dict[str, object] = {"judge": "j", "criterion": "c", "by_model": True, **changed}
    return Pair(item=item, score=score, human=human, **members)  # type: ignore[arg-type]


def pairs(said: Iterable[tuple[float | None, float]], **changed: object) -> list[Pair]:
    """Each of another trajectory."""
    return [pair(score, human, f"e{place}", **changed) for place, (score, human) in enumerate(said)]


def counted(both: int, judge_only: int, people_only: int, neither: int, **changed: object) -> list[Pair]:
    table = [(1.0, 1.0)] * both + [(1.0, 0.0)] * judge_only + [(0.0, 1.0)] * people_only + [(0.0, 0.0)] * neither
    return pairs(table, **changed)
