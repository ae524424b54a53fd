"""The bench of learning, small: a catalogue and tasks that are made here, a real gateway, and gates that decide."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import learn
from bench.learned import parts as measured
from bench.learned.figures import compared, worths
from bench.learned.folds import by_combination, by_task, combination, half
from bench.learned.logs import DEFAULT, Log, log_of
from bench.learned.serving import Amounts, Way, all_the_way, training_tasks
from bench.learned.swapping import swapped
from bench.learned.training import Bench
from bench.measure import Missing
from bench.routed.tasks import Task, read_catalog, read_tasks
from bench.targets.gateway import write_catalog
from bench.targets.invented import invented_rows
from bench.traffic import stage
from proxy.router.adapters import save_adapter
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder, load_encoder
from proxy.router.fusion import FusedRouter
from tests.fixtures.small_language_model import save_small_model
from tests.proxy.router.encoders import tiny_bert
from trainer.data.settings import SplitSettings
from trainer.loop.running import Place
from trainer.promotion.gates import GateSettings
from trainer.promotion.sequential import SequentialSettings
from trainer.promotion.settings import PromotionSettings
from trainer.ranking.settings import RankingSettings
from trainer.settings import TrainingSettings

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]
LETTERS = str.maketrans("0123456789", "ghijklmnop")
NAMES = ("Orlo", "Venn", "Tolva", "Beck", "Quill", "Marsh", "Fenn", "Dorn", "Ilex", "Juno", "Kerr", "Lund")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalog(tmp_path_factory.mktemp("catalog"), invented_rows(servers=6, tools=60))


@pytest.fixture(scope="module")
def tasks(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 tasks, each of which needs one or two tools."""
    rows = [json.loads(line) for line in catalog.read_text("utf-8").splitlines()]
    made: list[dict[str, Any]] = []
    for number in range(24):
        chosen = [rows[(number * 5) % 60], *([rows[(number * 7 + 3) % 60]] if number % 3 == 0 else [])]
        needs = list(dict.fromkeys(f"{row['server']}:{row['tool']}" for row in chosen))
        words = " and ".join(row["tool"].replace("_", " ") for row in chosen)
        # Words of its own, so that no two tasks are near duplicates.
        parts = range(2 * len(words.split()) + 6)
        own = " ".join(sha256(f"{number} {part}".encode()).hexdigest()[:6].translate(LETTERS) for part in parts)
        text = f"Please {words} for {NAMES[number % 12]} {NAMES[(number * 5 + 1) % 12]}; {own}."
        made.append(
            {
                "task_id": f"t{number:02}",
                "text": text,
                "needed_tools": needs,
                "needed_servers": list(dict.fromkeys(row["server"] for row in chosen)),
            }
        )
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in made), "utf-8")
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Encoder]:
    folder = tiny_bert(tmp_path_factory.mktemp("encoder") / "tiny")
    return str(folder), load_encoder(str(folder))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingCache]:
    # Not the vectors that benches keep: those of a small encoder are nothing to them.
    monkeypatch.setattr(stage, "EMBEDDINGS", tmp_path / "lent.sqlite")
    cache = EmbeddingCache(None)
    yield cache
    cache.close()


def read(catalog: Path, tasks: Path) -> list[Task]:
    return list(read_tasks(tasks, read_catalog(catalog)).tasks)


async def test_from_an_empty_log_to_an_adapter_that_serves(
    catalog: Path, tasks: Path, encoder: tuple[str, Encoder], cache: EmbeddingCache, tmp_path: Path
) -> None:
    name, loaded = encoder
    place = Place(adapters=tmp_path / "adapters", encoder=loaded, cache=cache, by="bench")
    place.adapters.mkdir()
    # It moves next to nothing, so that what is shown is the way: no gate has a reason to refuse it.
    training = TrainingSettings(
        least_episodes=20,
        split=SplitSettings(validation=0.3, test=0.3, near=1.0),
        ranking=RankingSettings(epochs=1, learning_rate=1e-6, good_episodes=1),
    )
    promotion = PromotionSettings(
        gates=GateSettings(margin=0.5, least_tasks=2, least_clusters=2, budget_ms=10_000),
        sequential=SequentialSettings(amount=0.9, alpha=1e-6, beta=0.2, enough=4),
        shadowed=3,
        share=0.5,
    )
    amounts = Amounts(training=48, round=12, most_rounds=8, least=20, promotion=promotion)
    held_out = by_task(read(catalog, tasks), 0)[0]
    left = training_tasks(tasks, held_out, tmp_path / "left.jsonl")
    assert len(left.read_text("utf-8").splitlines()) == 24 - len(held_out)
    said: list[str] = []
    way: Way = await all_the_way(
        tmp_path / "run",
        catalog,
        left,
        place,
        amounts=amounts,
        training=training,
        seed=1,
        router_environ={"TOOLATLAS_ROUTER_MODEL": name},
        say=said.append,
    )
    assert [each["state"] for each in way.states] == ["candidate", "shadow", "canary", "active"], said
    assert way.judged >= way.episodes - amounts.round
    assert way.answered > 0
    assert any("canary -> active" in line for line in said)


async def test_figures_are_of_tasks_whose_traffic_was_not_trained_on(
    catalog: Path, tasks: Path, encoder: tuple[str, Encoder], cache: EmbeddingCache, tmp_path: Path
) -> None:
    read_catalogue, said = read_catalog(catalog), list[str]()
    log = await log_of(tmp_path, catalog, tasks, episodes=30, seed=3, router="lexical", say=said.append)
    again = await log_of(tmp_path, catalog, tasks, episodes=30, seed=3, router="lexical", say=said.append)
    assert again == log
    assert sum(line.startswith("simulated traffic") for line in said) == 1
    bench = Bench(
        folder=tmp_path / "adapters", servers=read_catalogue.servers, encoder=encoder[1], cache=cache, near=1.0
    )
    asked_tasks = read(catalog, tasks)

    async def the_log(seed: int, rubric: str) -> Log:
        assert (seed, rubric) == (0, DEFAULT)
        return log

    asked = measured.Asked(
        catalog=catalog,
        tasks_file=tasks,
        bench=bench,
        tasks=asked_tasks,
        log=the_log,
        seeds=(0,),
        settings=RankingSettings(epochs=1, good_episodes=1),
        untrained=worths(FusedRouter(read_catalogue.servers, encoder[1], cache), asked_tasks),
        say=said.append,
    )
    found = measured.summed(asked, await measured.pairs_of(asked, lambda its, seed: by_task(its, seed, 2)))
    assert found["tool_recall@10"]["tasks"] == len(asked_tasks)
    low, high = found["tool_recall@10"]["interval"]
    assert low <= found["tool_recall@10"]["difference"] <= high
    # All are there: a second time nothing is trained.
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "adapters").rglob("*")}
    assert measured.summed(asked, await measured.pairs_of(asked, lambda its, seed: by_task(its, seed, 2))) == found
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "adapters").rglob("*")} == kept
    unseen = await measured.unseen_servers(replace(asked, seeds=(0,)), halves=1)
    assert unseen["halves"] == 1


async def test_adapters_are_exchanged_in_a_gateway_that_runs_and_rolled_back(
    catalog: Path, tasks: Path, encoder: tuple[str, Encoder], cache: EmbeddingCache, tmp_path: Path
) -> None:
    name, loaded = encoder
    servers = [server.name for server in read_catalog(catalog).servers]
    heads = [np.random.default_rng(seed).normal(0, 1, (loaded.width, loaded.width)) for seed in range(2)]
    one, other = (
        save_adapter(tmp_path / str(at), base_hash=loaded.hash, servers=servers, head=head.astype(np.float32))
        for at, head in enumerate(heads)
    )
    model = save_small_model(tmp_path / "small")
    environ = {"TOOLATLAS_ROUTER_MODEL": name}
    query = "please find something for somebody"
    found = await swapped(catalog, tasks, model, [one, other], query, router_environ=environ)
    expected = [None, one.hash, other.hash, one.hash, None]
    assert [each["adapter"] for each in found] == expected
    first = {hashed: {each["first"] for each in found if each["adapter"] == hashed} for hashed in expected}
    # The same adapter, the same answer; another one, another.
    assert all(len(answers) == 1 for answers in first.values())
    assert len(set().union(*first.values())) == 3


def test_folds_hold_out_every_task_once(catalog: Path, tasks: Path) -> None:
    asked = read(catalog, tasks)
    for folds in (by_task(asked, 0), by_combination(asked, 0)):
        assert sorted(task for fold in folds for task in fold) == sorted(task.task_id for task in asked)
    for fold in by_combination(asked, 1):
        its = {combination(task) for task in asked if task.task_id in fold}
        assert its.isdisjoint(combination(task) for task in asked if task.task_id not in fold)
    assert by_task(asked, 0) != by_task(asked, 1)
    assert len(half("abcdefgh", 0)) == 4


def test_differences_are_paired_by_task(catalog: Path, tasks: Path) -> None:
    asked = read(catalog, tasks)[:2]
    one, other = (task.task_id for task in asked)
    before = {one: {"mrr": 0.5}, other: {"mrr": 0.25}}
    after = {one: {"mrr": 1.0}, other: {"mrr": 0.25}}
    found = compared(asked, [(before, after), (before, before)])
    assert (found["mrr"]["before"], found["mrr"]["after"], found["mrr"]["difference"]) == (0.375, 0.5, 0.125)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    learn.add_arguments(parser)
    args = parser.parse_args(["--catalog", str(tmp_path / "no.jsonl"), "--out", str(tmp_path / "out")])
    with pytest.raises(Missing, match=r"no\.jsonl; --catalog and --tasks name others"):
        learn.run(args)
    (tmp_path / "one.jsonl").write_text('{"task_id": "a"}\n')
    with pytest.raises(Missing, match="too few tasks"):
        training_tasks(tmp_path / "one.jsonl", frozenset({"a"}), tmp_path / "left.jsonl")
