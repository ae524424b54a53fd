"""What a model adds to checks, and what a model without signal is stopped by.

Above: bench/judge.py. Below: judge/model and judge/trust; bench/small_judge.py, which serves SmolLM2 on this machine.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.to_thread

from bench.judged.scoring import Corpus
from bench.judged.separation import separation
from bench.measure import Missing
from bench.small_judge import small_judge
from judge.checks.library import library
from judge.default import default_rubric
from judge.judging import Judge
from judge.model.model_judge import ModelJudge
from judge.model.openai_endpoint import OpenAIEndpoint
from judge.settings import EndpointSettings, ModelSettings, RewardSettings
from judge.trust.canaries import try_canaries
from judge.trust.drift import passage
from judge.trust.gold import Gold, run_gold
from judge.trust.gold_files import own_gold

SMALL_GOLD = 4
"""Cases: on two cores each takes this model minutes."""
URL, MODEL, KEY, RUNS = (
    "TOOLATLAS_JUDGE_URL",
    "TOOLATLAS_JUDGE_MODEL",
    "TOOLATLAS_JUDGE_API_KEY",
    "TOOLATLAS_BENCH_RUNS",
)
DEFAULT_RUNS = 120


async def small(scratch: Path) -> dict[str, Any]:
    """SmolLM2 as a judge: what canaries and gold set say of it, and whether it would have been admitted."""
    try:
        serving = small_judge(scratch / "small.log")
        served = await anyio.to_thread.run_sync(serving.__enter__)
    except Missing as missing:
        return {"left out": str(missing)}
    try:
        endpoint = EndpointSettings(
            url=served.url, model=served.model, at_once=1, timeout_s=600.0, retries=0, max_output_tokens=150
        )
        # One question a trajectory: more would take hours, and it is the same noise.
        judge = _judge(endpoint, ModelSettings(repeats=1, criteria_at_once=5, transcript_chars=4_000))
        gold = own_gold(default_rubric())
        return await _trusted(judge, replace(gold, cases=gold.cases[:SMALL_GOLD]))
    finally:
        await anyio.to_thread.run_sync(serving.__exit__, None, None, None)


async def capable(corpus: Corpus) -> dict[str, Any]:
    """The endpoint that the environment names: trust, and what it adds to checks on runs of the corpus."""
    if not os.environ.get(URL) or not os.environ.get(MODEL):
        return {"left out": f"set {URL}, {MODEL} and if needed {KEY} to measure a capable model here"}
    endpoint = EndpointSettings(url=os.environ[URL], model=os.environ[MODEL], api_key=os.environ.get(KEY) or None)
    judge = _judge(endpoint, ModelSettings())
    found = await _trusted(judge, own_gold(default_rubric()))
    runs = [run for run in corpus.runs if not run.reference][:: _stride(corpus)]
    values: dict[bool, list[float]] = {True: [], False: []}
    money, unrewarded = 0.0, 0
    for run in runs:
        judged = await judge.judge(default_rubric(), corpus.cases[run.episode])
        money += judged.cost.money
        if judged.reward.value is None:
            unrewarded += 1
        else:
            values[run.kind is None].append(judged.reward.value)
    await judge.close()
    return found | {
        "runs of the corpus": len(runs),
        "AUC, default rubric": separation(values[True], values[False]).auc,
        "without a reward": unrewarded,
        "money": money,
    }


def _stride(corpus: Corpus) -> int:
    wanted = int(os.environ.get(RUNS, DEFAULT_RUNS))
    return max(1, len(corpus.runs) // max(1, wanted))


def _judge(endpoint: EndpointSettings, model: ModelSettings) -> Judge:
    # The corpus is invented, so that nothing in it is anybody's secret.
    asked = ModelJudge(OpenAIEndpoint(endpoint), model, frozenset({"*"}), lambda _, text: text)
    return Judge(library(), RewardSettings(), asked)


async def _trusted(judge: Judge, gold: Gold) -> dict[str, Any]:
    caught = [each for each in await try_canaries(judge, default_rubric()) if not each.passed]
    agreement = await run_gold(judge, gold)
    gate = passage(agreement, None)
    model = agreement.criteria
    return {
        "model": judge.name,
        "canaries not passed": len(caught),
        "first of them": f"{caught[0].name}: {caught[0].note}" if caught else "",
        "gold pairs": model.pairs,
        "missing share": model.missing_share,
        "kappa": model.kappa,
        "gate": gate.why,
        "admitted": gate.accepted and not caught,
    }
