"""A small model as a policy: SmolLM2-135M-Instruct, tuned by LoRA on simulated trajectories, before and after.

Above: bench/learn.py. Below: trainer/policy, and the weights that bench/small_judge.py converts. What is measured is
whether tuning moves a model of this size on actions of held-out tasks, read as it was trained: some hundred tokens
before an action, since a processor reads and trains no more in this time. It is no agent: it reads neither the whole
index nor, late in an episode, the task, and what it writes by itself is counted, not done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import anyio.to_thread

from bench.learned.logs import Say
from bench.small_judge import HOME, converted
from proxy.policy.base import Action, Variant
from proxy.router.language_model import LanguageModel, load_language_model
from proxy.store.database import Database
from trainer.data.collecting import collect, collected_policy_rows
from trainer.data.policy_rows import PolicySettings
from trainer.data.settings import DataSettings, SplitSettings
from trainer.data.shown import Catalogues
from trainer.data.splits import split
from trainer.data.tokens import Reader
from trainer.loop.training import LoopSettings, train
from trainer.policy.evaluating import Moment, moments, next_actions, next_tools, written
from trainer.policy.settings import TuningSettings
from trainer.policy.tuning import PolicyProblem, held_out
from trainer.rows import PolicyRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of it: the defaults take about a quarter of an hour of one core."""

    trajectories: int = 300
    """The most that are trained on."""
    held_out: int = 60
    """The most that validate, and the most that are asked after."""
    decisions: int = 32
    """Held-out actions that are decided from closed lists."""
    written: int = 16
    most_written: int = 128
    """Tokens of an action that is written freely."""
    tuning: TuningSettings = field(
        default_factory=lambda: TuningSettings(
            tokens=160, before=96, windows=1, epochs=1, learning_rate=1e-3, batch=1, accumulation=8
        )
    )


async def policy_figures(
    url: str, *, model: Path | None = None, size: Size | None = None, say: Say = print
) -> dict[str, Any]:
    """Figures of judged episodes of the log at `url`, a part of which is held out by task.

    `model`: a folder with a causal model that has a chat template; SmolLM2 where none is given.

    Raises:
        Missing: The weights of SmolLM2 are not there; the text says how to get them.
        ConfigurationError: The log teaches too little.
    """
    size = size or Size()
    folder = model or converted(HOME)
    language = await anyio.to_thread.run_sync(load_language_model, str(folder))
    reader = Reader(language.tokenizer)
    database = Database(url, statement_s=None)
    try:
        collected = await collect(database, DataSettings())
        sides = split(collected.episodes.values(), SplitSettings(validation=0.1, test=0.2, seed=size.tuning.seed))
        chosen = {
            "training": frozenset(sides.training[: size.trajectories]),
            "validation": frozenset(sides.validation[: size.held_out]),
            "test": frozenset(sides.test[: size.held_out]),
        }
        parts: dict[str, list[PolicyRow]] = {name: [] for name in chosen}
        wanted = frozenset().union(*chosen.values())
        async for row in collected_policy_rows(database, collected, reader, PolicySettings(), episodes=wanted):
            for name, ids in chosen.items():
                if row.origin.episode_id in ids:
                    parts[name].append(row)
        catalogues = Catalogues(database)
        asked: list[Moment] = []
        for row in parts["test"]:
            shown = await catalogues.shown(row.origin.catalog)
            assert shown is not None
            known = frozenset(f"{server}.{tool}" for server, tools in shown.tools.items() for tool in tools)
            actions: Sequence[Action] = shown.surface(Variant.TOOLS).actions
            asked += moments(row, reader, language.tokenizer, actions, known, before=size.tuning.before)
    finally:
        await database.close()
    say(
        f"simulated: {', '.join(f'{len(ids)} {name}' for name, ids in chosen.items())} trajectories, rows: "
        + ", ".join(f"{len(its)} {name}" for name, its in parts.items())
        + f"; {len(asked)} held-out actions came out well"
    )
    Random(size.tuning.seed).shuffle(asked)
    return await anyio.to_thread.run_sync(_tuned, language, reader, parts, asked, size, folder.name, say)


def _tuned(
    language: LanguageModel,
    reader: Reader,
    parts: Mapping[str, Sequence[PolicyRow]],
    asked: Sequence[Moment],
    size: Size,
    name: str,
    say: Say,
) -> dict[str, Any]:
    began = time.process_time()
    problem = PolicyProblem(parts["training"], language, size.tuning, validation=parts["validation"])
    test = held_out(parts["test"], size.tuning)

    def measured() -> dict[str, Any]:
        free, texts = written(language, reader, asked[: size.written], most=size.most_written)
        figures = {
            "tokens": problem.measured(test),
            "action": asdict(next_actions(language, reader, asked[: size.decisions])),
            "tool": asdict(next_tools(language, reader, _calls(asked)[: size.decisions])),
            "written": asdict(free),
            "examples": texts[:4],
        }
        say(f"  {figures}")
        return figures

    before = measured()
    with TemporaryDirectory(prefix="bench-policy-") as folder:
        say(f"  {problem.steps} updates, {time.process_time() - began:.0f} processor seconds so far")
        ended = train(
            problem,
            Path(folder),
            LoopSettings(validate_every=13, checkpoint_every=1_000),
            tell=lambda position, loss: say(f"  update {position.step}: {loss:.3f}"),
        )
        problem.save(Path(folder) / "adapter", {})
    after = measured()
    return {
        "simulated": True,
        "model": name,
        "tuning": asdict(size.tuning),
        "rows": {part: len(its) for part, its in parts.items()},
        "trajectories": {part: len({row.origin.episode_id for row in its}) for part, its in parts.items()},
        "ended": asdict(ended),
        "before": before,
        "after": after,
        "processor_s": round(time.process_time() - began),
    }


def _calls(asked: Sequence[Moment]) -> list[Moment]:
    return [each for each in asked if each.tool is not None]
