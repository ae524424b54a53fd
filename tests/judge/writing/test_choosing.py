"""Rubrics are made from episodes that are surely good, and never from all of them."""

from __future__ import annotations

from judge.writing.choosing import MOST, Candidate, choose_sources


def candidate(
    name: str,
    *,
    label: float | None = None,
    reward: float | None = None,
    outcome: str | None = "done",
    agent: str = "laptop",
):
    return Candidate(episode_id=name, agent=agent, label=label, reward=reward, outcome=outcome)


def test_a_persons_label_outweighs_reward_and_claim():
    group = [
        candidate("liked", label=0.9, reward=0.1, outcome="failed"),
        candidate("disliked", label=0.5, reward=1.0),
        candidate("rewarded", reward=0.95),
        candidate("also", reward=0.9),
    ]
    assert choose_sources(group) == ("liked", "rewarded")


def test_without_a_label_it_takes_a_high_reward_and_the_claim_to_have_done_it():
    group = [
        candidate("a", reward=0.8),
        candidate("b", reward=0.79),
        candidate("c", reward=1.0, outcome="abandoned"),
        candidate("d", reward=1.0, outcome=None),
        candidate("e"),
        candidate("f", reward=0.85),
    ]
    assert choose_sources(group) == ("f", "a")


def test_at_least_half_of_the_group_is_left_to_be_judged():
    group = [candidate(f"e{place}", reward=0.9) for place in range(5)]
    assert choose_sources(group) == ("e0", "e1")
    assert choose_sources([candidate(f"e{place:02}", label=1.0) for place in range(40)]) == tuple(
        f"e{place:02}" for place in range(MOST)
    )


def test_one_good_episode_alone_is_no_source():
    assert choose_sources([candidate("a", reward=1.0), candidate("b"), candidate("c"), candidate("d")]) == ()
    assert choose_sources([candidate("a", reward=1.0), candidate("b", reward=1.0), candidate("c", reward=1.0)]) == ()
    assert choose_sources([]) == ()


def test_no_agent_gives_more_sources_than_the_others_together():
    flood = [candidate(f"f{place}", reward=1.0, agent="flood") for place in range(20)]
    others = [candidate("a", reward=0.9, agent="ada"), candidate("b", reward=0.8, agent="ben")]
    assert choose_sources([*flood, *others]) == ("f0", "a", "b", "f1")
    assert choose_sources(flood) == tuple(each.episode_id for each in sorted(flood, key=lambda e: e.episode_id))[:MOST]
    labelled = [candidate(f"l{place}", label=1.0, agent="flood") for place in range(3)]
    assert choose_sources([*labelled, *flood, *others])[:3] == ("l0", "l1", "l2")
