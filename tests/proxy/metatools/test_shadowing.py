"""Rankings of the shadow find their steps, whichever comes first; only beside those that are written in full."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

from proxy.metatools.shadowing import MOST_EARLY, MOST_STEPS, ShadowLog
from proxy.router.base import History, Query, Ranked, Ranking
from proxy.router.history import remembering
from proxy.router.serving import Shadowed
from proxy.store.recorder import Decision, Episode, Level, Outcome, ShadowDecision, Step

EPISODE = Episode(id="e_1", agent="local", mode="search", began_at=datetime(2026, 11, 30, tzinfo=UTC))
NOTHING = History()
RANKED = (Ranked("mail.send", 2.0), Ranked("mail.read", 1.9), Ranked("maps.find", 0.5))


def search(step_id: str, level: Level = Level.FULL) -> Step:
    return Step(
        id=step_id,
        episode=EPISODE,
        mode="search",
        name="search_tools",
        arguments={"query": "send"},
        outcome=Outcome.OK,
        started_at=EPISODE.began_at,
        duration_ms=1.0,
        decision=Decision(policy="fused", query="send", candidates=(), shown=(), duration_ms=1.0),
        catalog="c",
        level=level,
    )


def shadowed(step_id: str | None, history: History = NOTHING, ranked: tuple[Ranked, ...] = RANKED) -> Shadowed:
    query = Query("send", history=history, step=step_id)
    return Shadowed(query=query, served=Ranking((), "fused"), shadow=Ranking(ranked, "fused", "hash of it"))


def test_whichever_comes_first_the_ranking_is_kept_once_with_its_step() -> None:
    kept: list[ShadowDecision] = []
    log = ShadowLog(kept.append)
    log.record(search("s_1"))
    log.shadowed(shadowed("s_1"))
    log.shadowed(shadowed("s_2"))
    log.record(search("s_2"))
    log.record(search("s_2"))
    assert [(each.step_id, each.episode, each.policy, each.adapter) for each in kept] == [
        (step_id, EPISODE, "fused", "hash of it") for step_id in ("s_1", "s_2")
    ]
    assert {each.candidates for each in kept} == {tuple((found.tool, found.score) for found in RANKED)}


def test_it_is_compared_like_for_like_and_holds_what_json_can_say() -> None:
    kept: list[ShadowDecision] = []
    log = ShadowLog(kept.append)
    history = History(called=("mail.send",))
    log.record(search("s_1"))
    log.shadowed(shadowed("s_1", history, (*RANKED, Ranked("x.y", math.nan))))
    expected = remembering(RANKED, history)
    assert kept[0].candidates == tuple((found.tool, found.score) for found in expected)
    assert kept[0].candidates[0][0] == "mail.read"


def test_of_a_step_that_is_not_written_in_full_nothing_is_kept() -> None:
    kept: list[ShadowDecision] = []
    log = ShadowLog(kept.append)
    log.record(search("s_1", Level.METADATA))
    log.shadowed(shadowed("s_1"))
    log.shadowed(shadowed("s_2"))
    log.record(search("s_2", Level.METADATA))
    log.shadowed(shadowed(None))
    log.record(replace(search("s_3"), decision=None))
    log.shadowed(shadowed("s_3"))
    assert kept == []


def test_what_never_finds_the_other_does_not_pile_up() -> None:
    kept: list[ShadowDecision] = []
    log = ShadowLog(kept.append)
    for number in range(MOST_STEPS + 1):
        log.record(search(f"s_{number}"))
    for number in range(MOST_EARLY + 1):
        log.shadowed(shadowed(f"t_{number}"))
    log.shadowed(shadowed("s_0"))
    log.shadowed(shadowed(f"s_{MOST_STEPS}"))
    log.record(search("t_0"))
    log.record(search(f"t_{MOST_EARLY}"))
    assert [each.step_id for each in kept] == [f"s_{MOST_STEPS}", f"t_{MOST_EARLY}"]
