"""Light examples are fewer, heavier, and teach together what they taught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.router.base import Query
from tests.trainer.ranking.planted import catalogue, query, row
from trainer.ranking.examples import Example, examples
from trainer.ranking.settings import RankingSettings
from trainer.ranking.thinning import LIGHT, thinned

OWNERS = {tool.written: server.name for server in catalogue() for tool in server.tools}


def example(number: int, weight: float) -> Example:
    return Example(query=Query(f"q {number}"), right={"files.read": 2 * weight}, wrong={"x": weight}, weight=weight)


def test_where_all_weigh_about_the_same_nothing_changes() -> None:
    made = [example(number, 0.5 + number / 100) for number in range(100)]
    assert thinned(made, 0) == made
    assert thinned([], 0) == []


def test_a_flood_of_light_ones_becomes_few_and_keeps_its_weight() -> None:
    heavy, light = [example(number, 1.0) for number in range(100)], [example(number, 0.01) for number in range(20_000)]
    kept = thinned([*light, *heavy], 0)
    assert kept[-100:] == heavy
    few = kept[:-100]
    typical = (100 + 20_000 * 0.01**2) / (100 + 200)
    assert all(each.weight == pytest.approx(LIGHT * typical) for each in few)
    assert all(each.right["files.read"] == pytest.approx(2 * each.weight) for each in few)
    assert all(each.wrong["x"] == pytest.approx(each.weight) for each in few)
    assert len(few) < 3_000
    assert sum(each.weight for each in few) == pytest.approx(200, rel=0.1)
    assert kept == thinned([*light, *heavy], 0)
    assert kept != thinned([*light, *heavy], 1)


def test_what_weighs_nothing_goes() -> None:
    assert thinned([example(1, 0.0), example(2, 1.0)], 0) == [example(2, 1.0)]
    assert thinned([example(1, 0.0)], 0) == []


def test_an_example_knows_what_its_row_weighs_and_a_task_its_heaviest() -> None:
    import random

    one, other = (row(1, query("files.read", random.Random(0)), "files.read", weight=each) for each in (0.25, 0.5))
    one, other = (replace(each, query=replace(each.query, task="Read it.")) for each in (one, other))
    assert [each.weight for each in examples([one, other], RankingSettings(), OWNERS)] == [0.25, 0.5, 0.5]
