"""A whole evaluation over a planted catalogue, with real routers: figures, slices, changes, and what the gates get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from proxy.errors import ConfigurationError
from proxy.router.adapters import save_adapter
from proxy.router.base import Query, Ranked, Router
from proxy.router.embeddings import EmbeddingCache
from proxy.router.fusion import FusedRouter
from proxy.router.lexical import LexicalRouter
from proxy.store.training_report import ALL, Report, Slice
from tests.proxy.router.encoders import WordEncoder
from tests.trainer.ranking.planted import ASKED, catalogue, log, query, row
from trainer.evaluation.alone import EncoderRouter
from trainer.evaluation.comparing import compare
from trainer.evaluation.evaluating import Fold, curves, evaluate
from trainer.evaluation.gating import evidence
from trainer.evaluation.routers import ADAPTER, FUSED, LEXICAL, PREVIOUS, compared_with, routers
from trainer.evaluation.settings import EvaluationSettings
from trainer.evaluation.shown_log import shown_log
from trainer.evaluation.slices import slices
from trainer.evaluation.tasks import HeldOut, held_out
from trainer.rows import RankingRow, Split

pytestmark = pytest.mark.anyio
FACTS: dict[str, Any] = {
    "id": "20261130-101500-abcdef",
    "command": "toolatlas train run",
    "version": "0.1.0",
    "commit": None,
    "seed": 0,
    "data_hash": "d" * 64,
    "data": {"episodes": 96, "rankings": 96, "scopes": {"calls": 1.0}, "agents": {"agent": 1.0}, "judges": ["checks"]},
}


class Knowing:
    """Knows what agents mean by their words; or, reversed, puts just that last."""

    policy = "knowing"

    def __init__(self, *, adapter: str | None = "a" * 64, reverse: bool = False) -> None:
        self.adapter = adapter
        self._reverse = reverse

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        names = [tool.written for server in catalogue() for tool in server.tools]
        words = set(query.text.split())
        scores = {name: float(len(words & set(ASKED.get(name, "").split()))) for name in names}
        if self._reverse:
            scores = {name: -score for name, score in scores.items()}
        order = sorted(names, key=lambda name: -scores[name])
        return [Ranked(name, scores[name]) for name in order][:limit]


@pytest.mark.parametrize("previous", [False, True])
async def test_an_adapter_that_changes_nothing_is_found_to_change_nothing(tmp_path: Path, previous: bool) -> None:
    encoder = WordEncoder()
    head = np.zeros((encoder.width, encoder.width), dtype=np.float32)
    own, other = (
        save_adapter(tmp_path / name, base_hash=encoder.hash, servers=["files"], head=head, facts={"name": name})
        for name in ("own", "other")
    )
    rows, split = rows_and_split()
    made = routers(catalogue(), encoder, EmbeddingCache(None), own, other if previous else None)
    report = await evaluate(rows, split, made, kind="head", facts=FACTS)
    assert (report.adapter, report.against) == (own.hash, other.hash if previous else None)
    assert [each.adapter for each in report.routers] == [
        None,
        None,
        None,
        *([other.hash] if previous else []),
        own.hash,
    ]
    for each in report.slices:
        assert each.differences == (0.0,) * each.tasks
        assert (each.difference.low, each.difference.high) == (0.0, 0.0)
    assert report.changed == ()
    figures = {each.router: each.figures for each in report.routers}
    assert figures[ADAPTER] == figures[FUSED] != figures[LEXICAL]


def base() -> dict[str, Router]:
    encoder, cache = WordEncoder(), EmbeddingCache(None)
    return {
        LEXICAL: LexicalRouter(catalogue()),
        "encoder": EncoderRouter(catalogue(), encoder, cache),
        FUSED: FusedRouter(catalogue(), encoder, cache),
    }


def rows_and_split(count: int = 96) -> tuple[list[RankingRow], Split]:
    rows = log(count, 1)
    ids = [each.origin.episode_id for each in rows]
    third = count // 3
    return rows, Split(training=ids[:third], validation=ids[third : 2 * third], test=ids[2 * third :])


def figure(report: Report, name: str, figure: str) -> Slice:
    return next(each for each in report.slices if (each.name, each.figure) == (name, figure))


async def test_a_router_that_knows_more_is_found_better_everywhere() -> None:
    rows, split = rows_and_split()
    metrics = [{"step": step, "kind": "training", "loss": 2 - step / 10} for step in range(1, 6)]
    report = await evaluate(
        rows,
        split,
        {**base(), ADAPTER: Knowing()},
        kind="head",
        facts=FACTS,
        metrics=metrics,
        scopes={each.origin.episode_id: "calls" for each in rows[:80]},
    )
    assert [each.router for each in report.routers] == ["lexical", "encoder", "fused", "adapter"]
    whole = figure(report, ALL, "mrr")
    assert whole.after == 1
    assert whole.before < 0.7
    assert whole.difference.low > 0
    assert report.against is None
    assert report.against_router == FUSED
    assert report.adapter == "a" * 64
    assert {each.name for each in report.slices} >= {ALL, "scope: calls"}
    assert report.slices[0].name == ALL
    assert report.data.held_out == whole.tasks == len(whole.clusters)
    likely = {each.router: each.decisions for each in report.routers}
    assert likely[ADAPTER] is not None
    assert likely[LEXICAL] is not None
    assert likely[ADAPTER].nll.value < likely[LEXICAL].nll.value
    assert report.latency_p95_ms is not None
    assert report.latency_p95_ms >= 0
    assert report.curves[0].values == (1.9, 1.8, 1.7, 1.6, 1.5)
    assert report.changed
    assert all(each.gain > 0 and each.before != each.after for each in report.changed)
    assert report.from_log.none is not None
    assert Report.of(report.to_json()) == report
    given = evidence(report)
    assert given.against is None
    assert given.judges == ("checks",)
    assert {each.figure for each in given.paired} == {"server_recall@5", "tool_recall@10"}
    assert given.p95_ms == report.latency_p95_ms


async def test_a_worse_one_is_told_from_the_one_in_force() -> None:
    rows, split = rows_and_split()
    report = await evaluate(
        rows,
        split,
        {**base(), PREVIOUS: Knowing(adapter="b" * 64), ADAPTER: Knowing(reverse=True)},
        kind="head",
        facts=FACTS,
    )
    assert report.against == "b" * 64
    assert report.against_router == PREVIOUS
    assert figure(report, ALL, "mrr").difference.high < 0
    assert all(each.gain < 0 for each in report.changed)


async def test_each_fold_is_asked_of_its_own_adapter_and_all_count_together() -> None:
    rows, split = rows_and_split()
    turned = Split(training=split.test, validation=split.validation, test=split.training)
    others = [Fold(split=turned, routers={**base(), ADAPTER: Knowing(reverse=True)})]
    routers = {**base(), ADAPTER: Knowing()}
    alone = await evaluate(rows, split, routers, kind="head", facts=FACTS)
    both = await evaluate(rows, split, routers, kind="head", facts=FACTS, others=others)
    own, all_ = figure(alone, ALL, "mrr"), figure(both, ALL, "mrr")
    assert all_.differences[: own.tasks] == own.differences
    assert sum(own.differences) > 0 > sum(all_.differences[own.tasks :])
    assert both.data.held_out == all_.tasks > own.tasks
    # What is served, and when it was trained, is the first's.
    assert (both.adapter, both.from_log) == (alone.adapter, alone.from_log)
    assert "2 parts of the log were held out in turn" in " ".join(both.notes)
    assert "in turn" not in " ".join(alone.notes)
    few = await evaluate(
        rows, split, routers, kind="head", facts=FACTS, others=others, settings=EvaluationSettings(most_tasks=10)
    )
    assert few.data.held_out == 10
    assert {each in split.test for each in [task.episode_id for task in few.changed]} == {True, False}


async def test_with_nothing_held_out_it_says_so() -> None:
    rows, split = rows_and_split()
    report = await evaluate(rows, replace(split, test=()), {**base(), ADAPTER: Knowing()}, kind="head", facts=FACTS)
    assert report.slices == ()
    assert report.latency_p95_ms is None
    assert report.notes == ("Nothing was measured: of what was held out, no ranking was rewarded well.",)
    assert evidence(report).paired == ()


async def test_tasks_of_a_file_take_the_place_of_the_logs() -> None:
    rows, split = rows_and_split()
    tasks = [
        HeldOut(
            id=f"t{number}",
            query=query("files.read", Random(number)),
            tools=(frozenset({"files.read"}),),
            servers=(frozenset({"files"}),),
            cluster="files",
        )
        for number in range(3)
    ]
    routers = {**base(), ADAPTER: Knowing()}
    report = await evaluate(rows, split, routers, kind="head", facts=FACTS, tasks=tasks)
    assert report.data.held_out == 3
    assert "The tasks are of a task file, not of the log." in report.notes
    assert all(each.episode_id is None for each in report.changed)


def test_only_rankings_that_came_out_well_are_tasks() -> None:
    good = row(1, Query("glance"), "files.read")
    others = [
        row(2, Query("bad reward"), "files.read", advantage=-1.0),
        row(3, Query("failed"), "files.read", ok=False),
        row(4, Query("harmful"), "files.read", credit=-0.5),
        row(5, Query("trained on"), "files.read"),
        replace(row(6, Query("glance"), "files.read"), id="the same search again"),
    ]
    rows = [good, *others]
    wanted = [each.origin.episode_id for each in rows if each.query.text != "trained on"]
    (task,) = held_out(rows, wanted, margin=0.5, agent_share=1.0, most=10)
    assert task.id == good.id
    assert task.tools == (frozenset({"files.read"}),)
    assert task.servers == (frozenset({"files"}),)


def test_no_agent_has_more_of_the_tasks_than_its_share() -> None:
    rows = [row(number, Query(f"search {number}"), "files.read") for number in range(200)]
    named = [
        replace(each, origin=replace(each.origin, agent="flood" if place < 180 else f"agent {place % 5}"))
        for place, each in enumerate(rows)
    ]
    tasks = held_out(named, [each.origin.episode_id for each in named], margin=0.5, agent_share=0.2, most=400)
    of_flood = sum(task.agent == "flood" for task in tasks)
    assert len(tasks) - of_flood == 20
    assert of_flood == 5
    assert len(held_out(named, [each.origin.episode_id for each in named], margin=0.5, agent_share=1, most=30)) == 30


def test_slices_name_what_tasks_have_in_common() -> None:
    def task(number: int, text: str, *tools: str, agent: str = "a") -> HeldOut:
        servers = dict.fromkeys(tool.partition(".")[0] for tool in tools)
        return HeldOut(
            id=str(number),
            query=Query(text),
            tools=tuple(frozenset({tool}) for tool in tools),
            servers=tuple(frozenset({server}) for server in servers),
            cluster=" ".join(servers),
            episode_id=f"e{number}",
            agent=agent,
        )

    tasks = [
        task(0, "one two", "files.read"),
        task(1, "a b c d e f", "files.read", "mail.send"),
        task(2, " ".join(["word"] * 16), "files.read", "mail.send", "music.play", agent="b"),
    ]
    found = slices(tasks, seen=[{"files", "mail"}] * 3, scopes={"e1": "calls+task"}, agents=1)
    assert found == {
        "all": [0, 1, 2],
        "agent: a": [0, 1],
        "query: long": [2],
        "query: middle": [1],
        "query: short": [0],
        "scope: calls+task": [1],
        "servers: 1": [0],
        "servers: 2": [1],
        "servers: 3 or more": [2],
        "servers: all seen in training": [0, 1],
        "servers: some not seen in training": [2],
    }
    assert slices(tasks[:1], seen=[{"files"}], scopes={}, agents=1) == {"all": [0]}


def test_tasks_that_need_the_same_servers_count_as_one_for_the_interval() -> None:
    """Ten copies of one cluster are no evidence beside one other: the interval spans both."""

    def task(number: int, tool: str, cluster: str) -> HeldOut:
        return HeldOut(
            id=str(number),
            query=query("files.read", Random(number)),
            tools=(frozenset({tool}),),
            servers=(frozenset({tool.partition(".")[0]}),),
            cluster=cluster,
        )

    tasks = [task(number, "files.read", "files") for number in range(10)]
    comparison = compare(
        {"after": Knowing(), "before": Knowing(reverse=True)}, [*tasks, task(99, "nowhere.at_all", "nowhere")]
    )
    (slice_,) = [
        each for each in comparison.differences("after", "before", {ALL: range(11)}) if each.figure == "tool_recall@5"
    ]
    assert slice_.difference.low == 0
    assert slice_.difference.high == 1
    assert slice_.differences == (1.0,) * 10 + (0.0,)


def test_the_log_tells_where_a_tool_was_ranked_and_where_it_stood() -> None:
    plain = replace(
        row(1, Query("glance contents"), "files.read"),
        shown=("files.read", "weather.now", "mail.search"),
        propensities=(0.9, 0.9, 0.9),
        order_propensity=0.9,
    )
    swapped = replace(
        row(2, Query("glance contents"), "files.read"),
        shown=("weather.now", "files.read", "mail.search"),
        propensities=(0.05, 0.05, 0.95),
        order_propensity=0.05,
    )
    alone = replace(row(3, Query("glance"), "files.read"), shown=("files.read",))
    found = shown_log([plain, swapped, alone], Knowing())
    assert (found.rankings, found.episodes, found.swaps, found.places) == (2, 2, 1, 3)
    assert found.ranked.tolist() == [0, 1, 2, 1, 0, 2]
    assert found.shown.tolist() == [0, 1, 2, 0, 1, 2]
    assert found.target[found.used == 1].tolist() == [0, 0]
    assert found.chance.tolist() == pytest.approx([0.05] * 6)
    assert found.stood(found.shown).tolist() == pytest.approx([0.95, 0.9, 0.95, 0.05, 0.05, 0.95])


def test_curves_keep_their_ends_and_their_order() -> None:
    lines: list[dict[str, Any]] = [{"step": step, "kind": "training", "loss": 1 / step} for step in range(1, 1_001)]
    lines.append({"step": 1_000, "kind": "validation", "loss": 0.5, "first": 1})
    made = curves(lines)
    assert [(each.name, each.kind) for each in made] == [
        ("loss", "training"),
        ("loss", "validation"),
        ("first", "validation"),
    ]
    assert len(made[0].steps) <= 400
    assert (made[0].steps[0], made[0].steps[-1]) == (1, 1_000)
    assert np.all(np.diff(made[0].steps) > 0)


def test_what_is_in_force_is_what_an_adapter_is_compared_with() -> None:
    names: Sequence[str] = (LEXICAL, FUSED, ADAPTER)
    assert compared_with(names) == FUSED
    assert compared_with([*names, PREVIOUS]) == PREVIOUS


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for bad in ({"agent_share": 0.0}, {"most_tasks": 0}, {"examination": (1.0, 0.0)}, {"least_effective": 0.0}):
        with pytest.raises(ConfigurationError):
            EvaluationSettings(**bad)
