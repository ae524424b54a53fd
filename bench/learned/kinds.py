"""The three kinds of adapter on the same fold: a head, LoRA of the encoder and LoRA of a language model as a scorer;
and all three in a gateway that runs, exchanged for each other and rolled back.

Above: bench/learn.py. Below: parts.py, swapping.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.learned.figures import compared, worths
from bench.learned.folds import by_task
from bench.learned.logs import DEFAULT
from bench.learned.parts import Asked
from bench.learned.swapping import swapped
from bench.learned.training import adapter_of
from proxy.router.adapters import Adapter, Kind
from proxy.router.language import LanguageRouter
from proxy.router.language_model import load_language_model
from trainer.ranking.settings import RankingSettings, defaults

SCORER_UPDATES = 16
MOST_EPISODES = {Kind.LORA: 300, Kind.SCORER: 80}
"""That they are trained on, since they read texts anew in each update: with MiniLM 300 take a quarter of an hour of a
core, and with SmolLM2 an update takes about a minute, as does the validation of ten rankings."""


def settings_of(kind: Kind) -> RankingSettings:
    """The defaults, and for a scorer as many updates as a processor makes in a quarter of an hour."""
    settings = defaults(kind)
    return replace(settings, most_updates=SCORER_UPDATES) if kind is Kind.SCORER else settings


async def kinds(asked: Asked) -> dict[str, Any]:
    """Each against the same router without it: a scorer against the same model. Without a language model there is no
    scorer, and no gateway that serves all three."""
    seed = asked.seeds[0]
    held_out = by_task(asked.tasks, seed)[0]
    log, tasks = await asked.log(seed, DEFAULT), asked.within(held_out)
    episodes = log.episodes(frozenset(log.tasks.values()) - held_out)
    name, servers = asked.bench.language_model, asked.bench.servers
    untrained = {task.task_id: asked.untrained[task.task_id] for task in tasks}
    found: dict[str, Any] = {}
    adapters: list[Adapter] = []
    for kind in (Kind.HEAD, Kind.LORA, *([Kind.SCORER] if name is not None else [])):
        asked.say(f"  {kind.value}")
        chosen = episodes[: MOST_EPISODES.get(kind)]
        adapter = await adapter_of(asked.bench, log, chosen, settings_of(kind))
        if adapter is None:
            continue
        adapters.append(adapter)
        if kind is Kind.SCORER:
            model, fused = load_language_model(name or ""), asked.router(None)
            before = worths(LanguageRouter(fused, servers, model), tasks)
            after = worths(LanguageRouter(fused, servers, model, adapter=adapter), tasks)
        else:
            before, after = untrained, worths(asked.router(adapter), tasks)
        found[kind.value] = compared(asked.tasks, [(before, after)])
    if name is not None:
        found["swaps"] = await swapped(
            asked.catalog, asked.tasks_file, name, adapters, tasks[0].text.partition(".")[0], say=asked.say
        )
    return found
