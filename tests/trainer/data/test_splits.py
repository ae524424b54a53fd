"""Splits: what they have to do with each other, and that near duplicates lie on one side."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from tests.fixtures.logged import NOON
from tests.proxy.router.encoders import WordEncoder
from tests.trainer.data.made import origin, ranking, unhurried
from trainer.data.duplicates import joined
from trainer.data.settings import SplitSettings
from trainer.data.splits import BOTH, LIKE, folds, held_out, split
from trainer.rows import Origin, Split

WORDS = ("lamp", "rain", "city", "price", "ticket", "album", "branch", "river", "planet", "recipe", "doctor", "court")


def different(count: int) -> list[Origin]:
    """Episodes whose tasks have nothing in common."""
    return [
        origin(number, task=" ".join(f"{word}{chr(97 + number % 26)}{chr(97 + number // 26)}" for word in WORDS[:5]))
        for number in range(count)
    ]


ORIGINS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=3, max_size=6).map(" ".join),
        st.sampled_from([None, "f", "g", "h"]),
        st.frozensets(st.sampled_from("abcd"), max_size=3),
        st.integers(0, 40),
    ),
    max_size=25,
).map(
    lambda each: [
        origin(number, task=task, family=family, servers=servers, began_at=NOON + timedelta(hours=hour))
        for number, (task, family, servers, hour) in enumerate(each)
    ]
)
SETTINGS = st.builds(
    SplitSettings,
    by=st.sampled_from(["hash", "time", "servers"]),
    validation=st.floats(0, 0.4),
    test=st.floats(0, 0.5),
    seed=st.integers(0, 5),
)


def sides(made: Split) -> dict[str, str]:
    return {
        each: name
        for name, side in (("training", made.training), ("validation", made.validation), ("test", made.test))
        for each in side
    }


@unhurried
@given(ORIGINS, SETTINGS, st.randoms(use_true_random=False))
def test_every_episode_is_somewhere_once_whatever_the_order_and_duplicates_are_on_one_side(
    origins: list[Origin], chosen: SplitSettings, random: Any
) -> None:
    made = split(origins, chosen)
    placed = [*made.training, *made.validation, *made.test, *made.dropped]
    assert sorted(placed) == sorted(each.episode_id for each in origins)
    shuffled = [*origins]
    random.shuffle(shuffled)
    assert split(shuffled, chosen) == made
    on = sides(made)
    families: dict[str, set[str]] = {}
    tasks: dict[str, set[str]] = {}
    for each in origins:
        if each.episode_id in on:
            families.setdefault(each.family or each.episode_id, set()).add(on[each.episode_id])
            tasks.setdefault(str(each.task), set()).add(on[each.episode_id])
    assert all(len(each) == 1 for each in (*families.values(), *tasks.values()))
    if chosen.by == "hash":
        assert made.dropped == {}


@unhurried
@given(ORIGINS, st.integers(0, 5))
def test_by_servers_the_test_calls_only_what_training_never_calls(origins: list[Origin], seed: int) -> None:
    chosen = SplitSettings(by="servers", seed=seed)
    made, by_id = split(origins, chosen), {each.episode_id: each for each in origins}
    out = held_out(origins, chosen)
    assert all(by_id[each].servers and by_id[each].servers <= out for each in made.test)
    assert all(not by_id[each].servers & out for each in (*made.training, *made.validation))
    assert all(
        by_id[each].servers & out and by_id[each].servers - out for each, why in made.dropped.items() if why == BOTH
    )
    called = {server for each in origins for server in each.servers}
    assert len(out) == len(called) // 2


@unhurried
@given(ORIGINS)
def test_by_time_what_is_tested_began_after_what_is_trained_on(origins: list[Origin]) -> None:
    made, began = split(origins, SplitSettings(by="time")), {each.episode_id: each.began_at for each in origins}
    for earlier, later in ((made.training, made.validation), (made.validation, made.test), (made.training, made.test)):
        if earlier and later:
            assert max(began[each] for each in earlier) <= min(began[each] for each in later)


@pytest.mark.parametrize("by", ["hash", "time"])
def test_the_shares_are_about_what_was_asked_for(by: Any) -> None:
    made = split(different(400), SplitSettings(by=by))
    assert made.dropped == {}
    assert len(made.test) == pytest.approx(80, abs=25)
    assert len(made.validation) == pytest.approx(40, abs=20)
    none = split(different(50), SplitSettings(by=by, test=0.0, validation=0.0))
    assert len(none.training) == 50


def test_by_hash_more_traffic_moves_nothing_and_another_seed_does() -> None:
    fewer, more = different(40), different(80)
    again = [origin(number, task=more[number - 200].task) for number in range(200, 240)]
    before, after = sides(split(fewer, SplitSettings())), sides(split([*more, *again], SplitSettings()))
    assert before == {each: after[each] for each in before}
    assert all(after[f"e_{number:03}"] == after[f"e_{number - 200:03}"] for number in range(200, 240))
    assert sides(split(fewer, SplitSettings(seed=1))) != before


@unhurried
@given(ORIGINS, SETTINGS)
def test_folds_hold_out_in_turn_what_no_other_fold_holds_out(origins: list[Origin], chosen: SplitSettings) -> None:
    made = folds(origins, chosen, 7)
    assert made[0] == split(origins, chosen)
    assert 1 <= len(made) <= (7 if chosen.by == "hash" else 1)
    tested = [each for fold in made for each in fold.test]
    assert len(set(tested)) == len(tested)
    for fold in made:
        assert len(sides(fold)) + len(fold.dropped) == len(origins)
    families = {each.episode_id: each.family or each.episode_id for each in origins}
    for fold in made:
        tests = {families[each] for each in fold.test}
        assert tests.isdisjoint(families[each] for each in (*fold.training, *fold.validation))


def test_a_fifth_held_out_makes_five_folds_and_everything_is_held_out_once() -> None:
    made = folds(different(400), SplitSettings(), 9)
    assert len(made) == 5
    assert sorted(each for fold in made for each in fold.test) == [f"e_{number:03}" for number in range(400)]
    assert all(len(fold.test) == pytest.approx(80, abs=25) for fold in made)
    assert all(len(fold.validation) == pytest.approx(40, abs=20) for fold in made)
    assert folds(different(400), SplitSettings(), 3) == made[:3]
    assert len(folds(different(10), SplitSettings(test=0.3), 9)) == 3
    assert len(folds(different(10), SplitSettings(test=0.0), 9)) == 1


def test_servers_can_be_named_and_what_calls_both_sides_is_dropped() -> None:
    origins = different(4)
    servers = (frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"}), frozenset[str]())
    origins = [
        origin(number, task=each.task, servers=its)
        for number, (each, its) in enumerate(zip(origins, servers, strict=True))
    ]
    made = split(origins, SplitSettings(by="servers", servers=("b",), validation=0.0))
    assert (made.training, made.test, made.dropped) == (("e_000", "e_003"), ("e_001",), {"e_002": BOTH})


def test_a_later_episode_of_a_task_that_is_trained_on_is_no_test() -> None:
    origins = [*different(9), origin(9, task=different(9)[0].task)]
    made = split(origins, SplitSettings(by="time", test=0.2, validation=0.0))
    assert made.dropped == {"e_009": LIKE}
    assert made.test == ("e_008",)


def test_values_do_not_make_another_task_and_searches_stand_for_one_that_is_not_known() -> None:
    one = origin(1, task="What does flight LH 123 from Oslo to Rome cost on 2026-03-04?")
    other = origin(2, task="What does flight BA 99 from Lima to Quito cost on 2027-01-02?")
    for seed in range(8):
        on = sides(split([one, other], SplitSettings(seed=seed, test=0.5)))
        assert on["e_001"] == on["e_002"]
    untold = [
        ranking(number, query="price of a flight between two cities", of=origin(number, task=None)) for number in (3, 4)
    ]
    silent = [origin(number, task=None) for number in range(5, 45)]
    every = [sides(split([*untold, *silent], SplitSettings(seed=seed, test=0.5))) for seed in range(8)]
    assert all(on["e_003"] == on["e_004"] for on in every)
    # Those that say nothing at all have nothing in common either.
    assert len({every[0][each.episode_id] for each in silent}) > 1


def test_texts_are_joined_by_words_in_common_and_by_meaning_where_there_is_an_encoder() -> None:
    texts = {
        "a": "find the cheapest train from one town to another tomorrow morning",
        "b": "find the cheapest train from one village to another tomorrow morning",
        "c": "compose music for a short film about whales",
        "d": "whales about film short a for music compose",
        "e": "",
        "f": "",
    }
    sets = joined(texts, alike=0.5)
    assert [sets.first(each) for each in texts] == ["a", "a", "c", "d", "e", "f"]
    # To this encoder a text is its words, in whatever order.
    sets = joined(texts, alike=0.5, encoder=WordEncoder(), near=0.95)
    assert [sets.first(each) for each in texts] == ["a", "a", "c", "c", "e", "f"]
    strict = joined(texts, alike=0.99, encoder=WordEncoder(), near=0.9999)
    assert [strict.first(each) for each in texts] == ["a", "b", "c", "c", "e", "f"]


@pytest.mark.parametrize(
    "wrong", [{"validation": 0.5, "test": 0.5}, {"test": -0.1}, {"servers": ("a",)}], ids=lambda each: str(sorted(each))
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"less than 1|split by servers"):
        SplitSettings(**wrong)
