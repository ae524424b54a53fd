"""From the log to a run that can be trained: rows, split, catalogue and facts, all frozen.

Above: learning.py and the command `train run`. Below: data/ and runs.py.
"""

from __future__ import annotations

import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError, GatewayError
from proxy.router.encoder import Encoder
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.rewards import rewards
from trainer.data.collecting import Collected, collect, collected_policy_rows
from trainer.data.files import Row
from trainer.data.judged import LeftOut
from trainer.data.policy_rows import PolicySettings, Unfit
from trainer.data.splits import folds
from trainer.data.tokens import Reader
from trainer.loop.catalogues import servers_of
from trainer.loop.runs import Run, Runs
from trainer.rows import PolicyRow, RankingRow, Split
from trainer.settings import TrainingSettings, to_json

SHOWN_REASONS = 3
Say = Callable[[str], None]


class TooLittle(GatewayError):
    """There is less to learn from than the settings ask for; the text says how much, and why."""


async def gather(
    database: Database, settings: TrainingSettings, *, filters: Filters | None = None, judge: str | None = None
) -> Collected:
    """What can be learned from, where that is enough.

    Raises:
        TooLittle: It is not.
    """
    collected = await collect(database, settings.data, filters=filters, judge=judge)
    if collected.tally.used < settings.least_episodes:
        raise TooLittle(await _why(database, collected, settings, filters, judge))
    return collected


async def freeze(
    database: Database,
    collected: Collected,
    settings: TrainingSettings,
    runs: Runs,
    *,
    command: Sequence[str],
    encoder: Encoder | None = None,
    held_out: Split | None = None,
    say: Say = lambda _: None,
) -> Run:
    """A run with these rows.

    Args:
        command: What was typed, for whoever wants to repeat it.
        encoder: Finds near duplicates that share few words.
        held_out: Sides that were chosen elsewhere, in place of those that the settings make.

    Raises:
        ConfigurationError: Nothing is left to train on, or the catalogue is not in the log.
    """
    if held_out is None:
        say("looking for near duplicates, and splitting")
        splits = folds(
            [*collected.episodes.values(), *collected.rows],
            settings.split,
            settings.evaluation.folds,
            encoder=encoder,
        )
    else:
        splits = (held_out,)
    training = frozenset(splits[0].training)
    rows = [row for row in collected.rows if row.origin.episode_id in training]
    if not rows:
        raise ConfigurationError(
            f"of {len(collected.rows)} rankings none is on the side that is trained on; a smaller share held out "
            "leaves more"
        )
    servers = await servers_of(database, newest_catalog(rows))
    unfit: Counter[Unfit] = Counter()
    frozen: Sequence[Row] = collected.rows
    if settings.policy is not None:
        say("telling episodes again as a policy reads them")
        frozen = await _policy_rows(database, collected, settings, unfit)
    facts: dict[str, Any] = {
        "settings": to_json(settings),
        "seed": settings.seed,
        "command": shlex.join(command),
        "version": version("toolatlas"),
        "commit": commit(),
        "data_hash": collected.data_hash,
        "data": {
            "episodes": collected.tally.used,
            "left_out": {str(reason): count for reason, count in sorted(collected.tally.left_out.items())},
            "rankings": len(collected.rows),
            "unfit": {str(reason): count for reason, count in sorted(unfit.items())},
            "effective_rankings": round(collected.effective, 1),
            "scopes": dict(collected.scopes),
            "agents": dict(collected.agents),
            "agents_capped": dict(collected.agents_capped),
            "judges": await _judges(database, collected),
            "sides": {side: len(episodes) for side, episodes in asdict(splits[0]).items()},
        },
    }
    return runs.create(facts, frozen, servers, splits)


def newest_catalog(rows: Sequence[RankingRow]) -> str:
    """Hash of the catalogue that a ranker is trained for."""
    return max(rows, key=lambda row: row.origin.began_at).origin.catalog


def commit() -> str | None:
    """Of a checkout; None where this is none, and the version says all there is to say."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


async def _policy_rows(
    database: Database, collected: Collected, settings: TrainingSettings, unfit: Counter[Unfit]
) -> list[PolicyRow]:
    from proxy.router.language_model import load_language_model

    if settings.language_model is None:
        raise ConfigurationError("a policy is tuned on a language model, and none is named: --model NAME")
    reader = Reader(load_language_model(settings.language_model).tokenizer)
    return [row async for row in collected_policy_rows(database, collected, reader, PolicySettings(), unfit=unfit)]


async def _judges(database: Database, collected: Collected) -> list[str]:
    found = {
        each.judge async for each in rewards(database, judge=collected.judge) if each.episode_id in collected.episodes
    }
    return sorted(found)


async def _why(
    database: Database,
    collected: Collected,
    settings: TrainingSettings,
    filters: Filters | None,
    judge: str | None,
) -> str:
    tally = collected.tally
    text = f"{tally.used} of {settings.least_episodes} episodes: with less, nothing is trained."
    if not tally.seen:
        return f"{text} The log has none yet; agents that use the gateway make them."
    left_out = [f"{count:,} {reason}" for reason, count in tally.left_out.most_common()]
    text += f" The log has {tally.seen:,}; left out are {', '.join(left_out) or 'none'}."
    if LeftOut.UNREWARDED in tally.left_out:
        reasons = Counter(
            [
                each.unrewarded or "it is not said why"
                async for each in rewards(database, filters, judge=judge)
                if each.reward is None
            ]
        )
        shown = [f"{count:,} since {reason}" for reason, count in reasons.most_common(SHOWN_REASONS)]
        text += f" Without a reward are {'; '.join(shown)}."
    if LeftOut.UNJUDGED in tally.left_out:
        text += " `toolatlas judge run` judges what has ended."
    if LeftOut.PRIVATE in tally.left_out:
        text += ' Nothing is learned of what servers with `"log": "metadata"` or `"off"` were asked.'
    return text
