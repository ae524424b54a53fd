"""Gates: what passes, what is held for want of data, what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from proxy.store.registry import Approval
from proxy.store.rewards import Batch
from trainer.promotion.evidence import EVIDENCE, Evidence, Paired
from trainer.promotion.gates import Gate, GateSettings, Result, approval_gate, interval, offline_gates, verdict

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SETTINGS = GateSettings()
JUDGE = "checks-1/ab12cd34"


def paired(mean: float, *, tasks: int = 200, name: str = "all", spread: float = 0.1, seed: int = 0) -> Paired:
    """Differences of this mean exactly, in clusters of five tasks."""
    drawn = np.random.default_rng(seed).normal(0.0, spread, tasks)
    differences = drawn - drawn.mean() + mean
    return Paired(
        slice=name,
        figure="tool_recall@10",
        differences=tuple(float(each) for each in differences),
        clusters=tuple(f"servers {task // 5}" for task in range(tasks)),
    )


def batch(*, accepted: bool = True, passed: bool = True) -> Batch:
    canaries: Sequence[Mapping[str, Any]] = [
        {"name": "ignores the rubric", "reward": 0.1, "passed": True, "note": ""},
        {"name": "praises itself", "reward": 0.9, "passed": passed, "note": ""},
    ]
    return Batch(
        id="b", judge=JUDGE, worker="w", began_at=NOW, ended_at=NOW, accepted=accepted, episodes=9, canaries=canaries,
        note=None if accepted else "a canary got what it does not deserve",
    )  # fmt: skip


def looked_at(
    *slices: Paired,
    p95_ms: float | None = 40.0,
    against: str | None = None,
    judges: tuple[str, ...] = (JUDGE,),
    latest: Batch | None = None,
) -> dict[str, Gate]:
    evidence = Evidence(against=against, paired=slices or (paired(0.1),), p95_ms=p95_ms, judges=judges)
    gates = offline_gates(evidence, SETTINGS, active=None, batches={JUDGE: latest or batch()})
    return {gate.name: gate for gate in gates}


def result(gates: Mapping[str, Gate]) -> Result:
    return verdict(gates.values())


def test_a_better_adapter_passes() -> None:
    gates = looked_at(paired(0.1), paired(0.05, name="seen servers"), paired(0.0, name="unseen servers", spread=0.01))
    assert result(gates) is Result.PASSED
    assert gates["slice all, tool_recall@10"].said.startswith("+0.100 over 200 tasks, between +0.0")


def test_a_deliberately_worse_one_is_refused() -> None:
    gates = looked_at(paired(-0.1))
    assert result(gates) is Result.REFUSED
    assert gates["slice all, tool_recall@10"].said.endswith("it is worse")


def test_one_that_is_worse_on_one_slice_alone_is_refused_for_that_slice() -> None:
    gates = looked_at(paired(0.1), paired(-0.1, name="unseen servers"))
    assert result(gates) is Result.REFUSED
    assert [name for name, gate in gates.items() if gate.result is Result.REFUSED] == [
        "slice unseen servers, tool_recall@10"
    ]


def test_a_loss_that_is_not_excluded_holds() -> None:
    gates = looked_at(paired(0.0, spread=0.5))
    assert result(gates) is Result.HELD
    assert "a loss of 0.02 is not excluded" in gates["slice all, tool_recall@10"].said


def test_the_more_slices_the_surer_each_has_to_be() -> None:
    """The first is just within; beside nineteen others it is not."""
    first = paired(0.0, spread=0.13)
    assert result(looked_at(first)) is Result.PASSED
    others = [paired(0.2, name=f"slice {number}", seed=number) for number in range(19)]
    gates = looked_at(first, *others)
    assert [gate.name for gate in gates.values() if gate.result is not Result.PASSED] == ["slice all, tool_recall@10"]


def test_too_little_data_holds_whatever_it_says() -> None:
    gates = looked_at(paired(0.5, tasks=20))
    assert result(gates) is Result.HELD
    assert gates["slice all"].said == "too little data: 20 held-out tasks, 200 are needed, in 10 clusters"
    one_cluster = Paired(slice="all", figure="x", differences=(0.5,) * 100, clusters=("same",) * 100)
    assert result(looked_at(one_cluster)) is Result.HELD
    assert result(looked_at(paired(0.1, name="seen servers"))) is Result.HELD


def test_all_tasks_together_are_enough_or_hold_even_where_a_smaller_slice_could_show_harm() -> None:
    assert result(looked_at(paired(0.5, tasks=199))) is Result.HELD
    assert result(looked_at(paired(0.5, tasks=200))) is Result.PASSED


def test_a_small_slice_is_asked_for_harm_alone() -> None:
    unsure, harmed = paired(0.0, tasks=60, spread=0.5, name="night-agent"), paired(-0.2, tasks=60, name="night-agent")
    said = looked_at(paired(0.1), unsure)["slice night-agent, tool_recall@10"]
    assert said.result is Result.PASSED
    assert said.said.endswith("it says too little to exclude a loss; the canary will say")
    refused = looked_at(paired(0.1), harmed)
    assert result(refused) is Result.REFUSED
    assert refused["slice night-agent, tool_recall@10"].said.endswith("it is worse")
    # Neither the number of small slices nor what they say makes the others' bounds wider.
    assert looked_at(paired(0.1), unsure)["slice all, tool_recall@10"] == looked_at()["slice all, tool_recall@10"]


def test_a_slice_that_is_too_varied_to_say_it_is_asked_for_harm_alone_however_large() -> None:
    """An adapter that is exactly as good would be held in every such slice."""
    whole = paired(0.0, tasks=2_000)
    vague, precise = (paired(0.0, tasks=400, spread=spread, name="seen servers") for spread in (0.4, 0.05))
    assert result(looked_at(whole, vague)) is Result.PASSED
    assert looked_at(whole, vague)["slice seen servers, tool_recall@10"].said.endswith("the canary will say")
    assert looked_at(whole, precise)["slice seen servers, tool_recall@10"].said.startswith("+0.000 over 400 tasks")
    # One that could say it, and does not, holds; one that is worse refuses in both.
    assert result(looked_at(whole, paired(-0.01, tasks=400, spread=0.13, name="seen servers"))) is Result.HELD
    assert result(looked_at(whole, paired(-0.2, tasks=400, spread=0.4, name="seen servers"))) is Result.REFUSED
    # All tasks together have to say it.
    assert result(looked_at(paired(0.0, tasks=400, spread=0.4))) is Result.HELD


def test_a_slice_of_few_tasks_says_nothing_and_says_so() -> None:
    gates = looked_at(paired(0.1), paired(-0.9, tasks=5, name="night-agent"))
    assert result(gates) is Result.PASSED
    assert gates["slice night-agent, tool_recall@10"].said == "5 tasks say nothing; the canary will"


def test_one_that_was_compared_with_another_than_the_active_one_is_held() -> None:
    gates = looked_at(against="f" * 64)
    assert result(gates) is Result.HELD
    assert "compared with ffffffffffff, but the router without an adapter is in force" in gates["comparison"].said


@pytest.mark.parametrize(("p95_ms", "expected"), [(150.0, Result.PASSED), (151.0, Result.REFUSED), (None, Result.HELD)])
def test_a_slow_one_is_refused_and_one_that_was_not_measured_is_held(p95_ms: float | None, expected: Result) -> None:
    gates = looked_at(p95_ms=p95_ms)
    assert gates["latency"].result is expected
    assert result(gates) is expected


@pytest.mark.parametrize(
    ("latest", "said"),
    [(batch(passed=False), "did not pass: praises itself"), (batch(accepted=False), "what it does not deserve")],
)
def test_a_judge_whose_canaries_did_not_pass_holds(latest: Batch, said: str) -> None:
    gates = looked_at(latest=latest)
    assert result(gates) is Result.HELD
    assert said in gates[f"judge {JUDGE}"].said


def test_a_judge_of_whom_nothing_is_known_holds() -> None:
    assert result(looked_at(judges=())) is Result.HELD
    assert result(looked_at(judges=(JUDGE, "somebody else"))) is Result.HELD


def test_without_an_evaluation_nothing_passes() -> None:
    assert verdict(offline_gates(None, SETTINGS, active=None, batches={})) is Result.HELD


def test_where_a_person_has_to_agree_nobody_else_can() -> None:
    asked = GateSettings(approval=True)
    gate = approval_gate("a" * 64, (), asked)
    assert (gate.result, "toolatlas adapters approve aaaaaaaaaaaa" in gate.said) == (Result.HELD, True)
    approved = (Approval(hash="a" * 64, by="ann", note=None, at=NOW),)
    assert approval_gate("a" * 64, approved, asked).result is Result.PASSED
    assert approval_gate("a" * 64, (), SETTINGS).result is Result.PASSED


def test_intervals_cover_what_they_say() -> None:
    """Of clustered differences whose mean is 0: the lower bound at 5 % is above it in about 5 of 100."""
    random = np.random.default_rng(1)
    above = 0
    for _ in range(100):
        effects = np.repeat(random.normal(0.0, 0.2, 40), 5) + random.normal(0.0, 0.2, 200)
        clusters = tuple(str(task // 5) for task in range(200))
        found = interval(Paired(slice="all", figure="x", differences=tuple(effects), clusters=clusters), 0.05)
        above += found.lower > 0.0
    assert 1 <= above <= 12


def test_evidence_comes_back_from_json_as_it_was() -> None:
    evidence = Evidence(against="a" * 64, paired=(paired(0.1), paired(-0.1, name="x")), p95_ms=None, judges=(JUDGE,))
    assert Evidence.of({EVIDENCE: evidence.to_json(), "loss": 0.5}) == evidence
    assert Evidence.of({"loss": 0.5}) is None
    assert Evidence.of(None) is None


@pytest.mark.parametrize("spoilt", [{}, {"against": None}, [], "x"])
def test_evidence_that_cannot_be_read_is_no_evidence(spoilt: Any) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Evidence.of({EVIDENCE: spoilt})


def test_differences_that_are_no_numbers_are_refused() -> None:
    for differences, clusters in (((float("nan"),), ("a",)), ((0.1, 0.2), ("a",))):
        with pytest.raises(ValueError, match="each task has a difference"):
            Paired(slice="all", figure="x", differences=differences, clusters=clusters)
