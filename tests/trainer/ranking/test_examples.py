"""What a row teaches, and which servers are learned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.errors import ConfigurationError
from proxy.router.base import Query
from tests.trainer.ranking.planted import ASKED, catalogue, row
from trainer.ranking.columns import columns
from trainer.ranking.examples import examples, learned_servers, lessons
from trainer.ranking.replay import nameless, replayed
from trainer.ranking.settings import RankingSettings
from trainer.rows import RankingRow, Used

OWNERS = {tool.written: server.name for server in catalogue() for tool in server.tools}
SETTINGS = RankingSettings(beta=1.0, clip=5.0, margin=0.5, negative=0.1, tasks=3.0, good_episodes=2)


def test_right_is_what_was_used_with_success_and_without_blame() -> None:
    good = row(1, Query("q"), "files.read", advantage=0.0)
    used = (
        Used(tool="files.read", ok=True, credit=None, shown=True),
        Used(tool="files.write", ok=True, credit=0.0, shown=False),
        Used(tool="mail.send", ok=True, credit=-0.5, shown=True),
        Used(tool="music.play", ok=False, credit=None, shown=True),
    )
    right, wrong = lessons(replace(good, used=used), SETTINGS)
    assert right == {"files.read": 0.5, "files.write": 0.5}
    assert wrong == {}


def test_weights_hold_the_advantage_and_the_caps() -> None:
    assert lessons(row(1, Query("q"), "files.read", advantage=9.0, weight=0.25), SETTINGS)[0] == {"files.read": 1.25}
    right, wrong = lessons(row(1, Query("q"), "files.read", advantage=-2.0, weight=0.5), SETTINGS)
    assert (right, wrong) == ({}, {"files.read": pytest.approx(0.1)})


def test_plain_imitation_looks_at_no_reward() -> None:
    settings = replace(SETTINGS, algorithm="imitation")
    poor = row(1, Query("q"), "files.read", advantage=-2.0, credit=-1.0)
    assert lessons(poor, settings) == ({"files.read": 1.0}, {})
    filtered = replace(SETTINGS, algorithm="filtered-imitation")
    assert lessons(poor, filtered) == ({}, {})


def test_a_task_is_an_example_with_all_that_was_right_in_its_episode() -> None:
    first = row(1, Query("look", task="Look, then write."), "files.read", advantage=0.0)
    second = row(1, Query("jot"), "files.write", advantage=0.0)
    made = examples([first, second], SETTINGS, OWNERS)
    assert [(each.query.text, each.right) for each in made] == [
        ("look", {"files.read": 1.0}),
        ("jot", {"files.write": 1.0}),
        ("Look, then write.", {"files.read": 1.5, "files.write": 1.5}),
    ]
    assert made[0].candidates[:2] == ("files.read", "weather.now")
    assert len(examples([first, second], replace(SETTINGS, tasks=0), OWNERS)) == 2


def test_tools_that_are_no_more_teach_nothing() -> None:
    gone = row(1, Query("q", task="the task"), "files.burn")
    assert examples([gone], SETTINGS, OWNERS) == []


def test_a_server_is_learned_once_enough_episodes_were_right_about_it() -> None:
    rows = [row(number, Query("q"), "files.read") for number in (1, 2)]
    rows += [row(3, Query("q"), "weather.now"), row(3, Query("again"), "weather.now")]
    rows += [row(number, Query("q"), "mail.send", advantage=-1) for number in (4, 5)]
    assert learned_servers(rows, SETTINGS, OWNERS) == {"files"}
    imitating = replace(SETTINGS, algorithm="imitation")
    assert learned_servers(rows, imitating, OWNERS) == {"files", "mail"}


def test_what_one_agent_alone_says_of_a_server_is_not_learned() -> None:
    def by(agent: str, each: RankingRow) -> RankingRow:
        return replace(each, origin=replace(each.origin, agent=agent))

    settings = replace(SETTINGS, good_episodes=1)
    files = [by("ada", row(1, Query("a"), "files.read")), by("ben", row(2, Query("b"), "files.read"))]
    flood = [by("flood", row(number, Query("c"), "mail.send")) for number in range(3, 9)]
    assert learned_servers([*files, *flood], settings, OWNERS) == {"files"}
    assert learned_servers(flood, settings, OWNERS) == {"mail"}


def test_made_up_queries_are_of_servers_that_are_not_learned_and_name_no_tool() -> None:
    servers = catalogue()
    made = replayed(servers, {"files", "weather"}, count=10, weight=0.5, seed=1)
    assert {tool for each in made for tool in each.right} == {"mail.send", "mail.search", "music.play", "music.queue"}
    assert all(set(each.right.values()) == {0.5} and not each.wrong for each in made)
    assert made == replayed(servers, {"files", "weather"}, count=10, weight=0.5, seed=1)
    assert len(replayed(servers, {"files"}, count=3, weight=1, seed=1)) == 3
    mail = servers[2]
    assert nameless(mail, mail.tools[1]) == ["letters by sender and subject"]


def test_columns_stand_for_the_whole_catalogue() -> None:
    made = columns(catalogue(), {"files"}, {"mail.send", "gone.tool"}, others=3, seed=0)
    assert {"files.read", "files.write", "mail.send"} <= set(made.tools) <= set(OWNERS)
    assert made.tools == tuple(sorted(made.tools))
    assert [made.tools[place] for place in made.learned.nonzero()[0]] == ["files.read", "files.write"]
    # Two learned tools of eight; three drawn ones stand for the other six.
    assert made.shares[made.places["files.read"]] == pytest.approx(1 / 8)
    assert float(made.shares.sum()) == pytest.approx(1.0)
    everything = columns(catalogue(), {"files"}, set(), others=100, seed=0)
    assert set(everything.tools) == set(OWNERS)
    assert everything.shares.tolist() == pytest.approx([1 / 8] * 8)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"beta": 0.0}, {"clip": 0.0}, {"floor": 0.0}, {"epochs": 0}, {"negative": -1.0}, {"replay": float("nan")}),
        {"most_updates": 0},
    ],
)
def test_settings_name_what_is_out_of_bounds(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=name):
        RankingSettings(**wrong)  # pyright: ignore[reportArgumentType]


def test_what_agents_ask_is_in_no_description() -> None:
    texts = " ".join(tool.description for server in catalogue() for tool in server.tools)
    assert not set(" ".join(ASKED.values()).split()) & set(texts.split())
