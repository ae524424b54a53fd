"""From a log to a candidate in the registry, and that what is done is not done again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigurationError
from proxy.router.adapters import load_adapter
from proxy.router.base import Query
from proxy.router.fusion import FusedRouter
from proxy.store import training_runs
from proxy.store.database import Database
from proxy.store.registry import State, entries, set_state
from tests.trainer.loop.learnable import TOPICS, fill
from tests.trainer.policy.planted import save_model
from trainer.data.settings import SplitSettings
from trainer.loop import metrics
from trainer.loop.preparing import TooLittle, freeze, gather
from trainer.loop.running import Place, run_through
from trainer.loop.runs import FAILED, Run, Runs
from trainer.loop.training import Interrupted, LoopSettings
from trainer.policy.settings import TuningSettings
from trainer.promotion.evidence import EVIDENCE, Evidence
from trainer.ranking.settings import RankingSettings
from trainer.rows import PolicyRow
from trainer.settings import TrainingSettings

pytestmark = pytest.mark.anyio
SETTINGS = TrainingSettings(
    least_episodes=40,
    split=SplitSettings(validation=0.15, test=0.25),
    ranking=RankingSettings(epochs=3, batch=16, good_episodes=2),
    loop=LoopSettings(validate_every=4, checkpoint_every=2),
)


async def a_run(database: Database, folder: Path, settings: TrainingSettings = SETTINGS) -> Run:
    collected = await gather(database, settings)
    return await freeze(database, collected, settings, Runs(folder), command=["toolatlas", "train", "run"])


async def test_what_is_trained_is_a_candidate_with_what_its_gates_ask_for(
    database: Database, place: Place, tmp_path: Path
) -> None:
    await fill(database, 90)
    run = await a_run(database, tmp_path / "runs")
    result = await run_through(database, run, place)
    (entry,) = await entries(database)
    assert entry.state is State.CANDIDATE
    assert entry.adapter.hash == result["adapter"]
    assert entry.adapter.run == run.id
    assert entry.adapter.data_hash == run.facts["data_hash"]
    evidence = Evidence.of(entry.adapter.metrics)
    assert evidence is not None
    assert evidence.judges == ("checks-1/ab12cd34",)
    assert {each.figure for each in evidence.paired} == {"server_recall@5", "tool_recall@10"}
    report = await training_runs.read(database, run.id)
    assert report is not None
    assert report.adapter == result["adapter"]
    adapter = load_adapter(place.adapters / result["adapter"])
    assert adapter.facts["command"] == "toolatlas train run"
    assert [path.name for path in place.adapters.iterdir()] == [result["adapter"]]
    trained, plain = (FusedRouter(run.servers, place.encoder, place.cache, each) for each in (adapter, None))
    better = [
        _place(trained, words, right) < _place(plain, words, right)
        for words, right in TOPICS.items()
        if _place(plain, words, right)
    ]
    assert sum(better) >= len(better) - 1


async def test_every_part_of_the_log_is_asked_of_an_adapter_that_was_trained_without_it(
    database: Database, place: Place, tmp_path: Path
) -> None:
    await fill(database, 90)
    run = await a_run(database, tmp_path / "runs")
    result = await run_through(database, run, place)
    assert len(run.splits) == 4
    folds = sorted((run.folder / "folds").iterdir())
    assert [[path.name for path in fold.iterdir() if path.is_dir()] for fold in folds] == [["adapter"]] * 3
    trained = {load_adapter(fold / "adapter").hash for fold in folds}
    assert len(trained | {result["adapter"]}) == 4
    report = await training_runs.read(database, run.id)
    assert report is not None
    tested = sum(len(split.test) for split in run.splits)
    assert len(run.split.test) < report.data.held_out <= tested == 90
    assert "4 parts of the log were held out in turn" in " ".join(report.notes)
    # A kill in between trains none of them again, and comes to the same.
    before = {fold: (fold / "adapter").stat().st_mtime_ns for fold in folds}
    (run.folder / "result.json").unlink()
    assert (await run_through(database, run, place))[EVIDENCE]["paired"] == result[EVIDENCE]["paired"]
    assert before == {fold: (fold / "adapter").stat().st_mtime_ns for fold in folds}


async def test_beside_one_that_is_in_force_only_what_neither_was_trained_on_is_asked(
    database: Database, place: Place, tmp_path: Path
) -> None:
    await fill(database, 90)
    first = (await run_through(database, await a_run(database, tmp_path / "runs"), place))["adapter"]
    for state in (State.SHADOW, State.CANARY, State.ACTIVE):
        await set_state(database, first, state, "in a test", by="test", share=0.5 if state is State.CANARY else None)
    settings = replace(SETTINGS, ranking=replace(SETTINGS.ranking, epochs=2))
    run = await a_run(database, tmp_path / "runs", settings)
    said: list[str] = []
    result = await run_through(database, run, place, say=said.append)
    assert result[EVIDENCE]["against"] == first
    assert not (run.folder / "folds").exists()
    report = await training_runs.read(database, run.id)
    assert report is not None
    assert report.data.held_out <= len(run.split.test)


async def test_a_run_that_has_ended_is_not_run_again(database: Database, place: Place, tmp_path: Path) -> None:
    await fill(database, 90)
    run = await a_run(database, tmp_path / "runs")
    first = await run_through(database, run, place)
    told: list[int] = []
    assert await run_through(database, run, place, tell=lambda at, _: told.append(at.step)) == first
    assert told == []
    assert len(await entries(database)) == 1


async def test_a_run_that_was_stopped_comes_to_the_same_adapter(
    database: Database, place: Place, tmp_path: Path
) -> None:
    await fill(database, 90)
    run = await a_run(database, tmp_path / "runs")
    answers = itertools.chain([True] * 5, itertools.repeat(False))
    with pytest.raises(Interrupted):
        await run_through(database, run, place, wanted=lambda: next(answers))
    assert await entries(database) == []
    result = await run_through(database, Runs(tmp_path / "runs").named("last"), place)
    steps = [line["step"] for line in metrics.read(run.folder) if line["kind"] == "training"]
    assert steps == list(range(1, result["training"]["steps"] + 1))
    # What was killed after the adapter was put into its place goes on from there.
    (run.folder / "result.json").unlink()
    assert (await run_through(database, run, place))["adapter"] == result["adapter"]
    assert len(await entries(database)) == 1


async def test_rows_that_teach_nothing_end_a_run_once_and_for_all(
    database: Database, place: Place, tmp_path: Path
) -> None:
    await fill(database, 60)
    settings = TrainingSettings(least_episodes=40, ranking=RankingSettings(good_episodes=500))
    run = await a_run(database, tmp_path / "runs", settings)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="none teaches enough"):
            await run_through(database, run, place)
    assert run.result is not None
    assert "none teaches enough" in run.result[FAILED]


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
async def test_a_policy_is_tuned_from_the_same_log_and_serves_nobody_by_itself(
    database: Database, place: Place, tmp_path: Path
) -> None:
    await fill(database, 40)
    settings = TrainingSettings(
        least_episodes=40,
        split=SplitSettings(validation=0.2, test=0.2),
        policy=TuningSettings(tokens=160, before=96, windows=1, epochs=1, batch=4, accumulation=4, rank=2),
        language_model=str(save_model(tmp_path / "model")),
        loop=LoopSettings(validate_every=2),
    )
    run = await a_run(database, tmp_path / "runs", settings)
    assert all(isinstance(row, PolicyRow) for row in run.rows)
    result = await run_through(database, run, place)
    (entry,) = await entries(database)
    assert (entry.adapter.hash, entry.adapter.kind) == (result["adapter"], "policy")
    assert Evidence.of(entry.adapter.metrics) is None
    assert result["figures"]["policy"]["loss"] <= result["figures"]["before"]["loss"]
    assert await run_through(database, run, place) == result
    with pytest.raises(ConfigurationError, match="--model NAME"):
        await a_run(database, tmp_path / "runs", replace(settings, language_model=None))


async def test_too_little_says_how_much_and_why(database: Database) -> None:
    with pytest.raises(TooLittle, match=r"^0 of 40 episodes: .* The log has none yet"):
        await gather(database, SETTINGS)
    await fill(database, 20)
    with pytest.raises(TooLittle, match=r"^20 of 40 episodes: .* The log has 20; left out are none\.$"):
        await gather(database, SETTINGS)
    await fill(database, 30, first=20, judged=False)
    with pytest.raises(
        TooLittle, match=r"^20 of 40 episodes: .* The log has 50; left out are 30 not judged\. .*judge run"
    ):
        await gather(database, SETTINGS)


async def test_missing_rewards_are_told_with_their_reasons(database: Database) -> None:
    from tests.trainer.data.logs import put
    from tests.trainer.loop.learnable import a_snapshot, episodes

    logs, rewards, endings = episodes(0, 12)
    unrewarded: dict[int, Any] = {place: None if place < 5 else rewards[place] for place in rewards}
    await put(database, logs, unrewarded, endings=endings, snapshots=[a_snapshot("0" * 64)])
    with pytest.raises(TooLittle, match=r"7 of 40 episodes: .*5 judged without a reward.*5 since 41 % of what"):
        await gather(database, SETTINGS)


def _place(router: FusedRouter, words: str, right: str) -> int:
    ranked = [each.tool for each in router.rank(Query(words), 50)]
    return ranked.index(right)
