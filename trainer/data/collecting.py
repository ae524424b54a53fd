"""All rows of a run in two readings: first rewards, credits and rankings; policy rows one by one, when asked for.

Above: trainer/loop/. Below: the other modules of this package. Of the first reading rankings stay in memory, of the
second nothing: policy rows of a log of any length can be written to a file.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.rewards import Reward
from trainer.data.advantages import advantages, turn_advantages
from trainer.data.caps import capped, factors, final, is_right, limits, shares, sums, taught
from trainer.data.judged import Tally, judged
from trainer.data.keys import Keys
from trainer.data.policy_rows import PolicySettings, Unfit, policy_rows
from trainer.data.ranking_rows import origin_of, ranking_credits, ranking_rows, step_credits
from trainer.data.settings import DataSettings
from trainer.data.shown import Catalogues
from trainer.data.tokens import Reader
from trainer.rows import Origin, PolicyRow, RankingRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a run learns from."""

    rows: tuple[RankingRow, ...]
    """In the order in which their episodes began. Their weights hold the caps; of a part of them, caps.py makes its
    own."""
    episodes: Mapping[str, Origin]
    """All that can be learned from, by id, in that order, whether they searched or not."""
    steps: Mapping[str, Sequence[float]]
    """By episode, the advantage of each of the agent's own steps."""
    weights: Mapping[str, float]
    """Of each episode's policy rows, so that no agent has more than its share of what they teach."""
    judge: str | None
    """Whose judgements these are; None where the latest of any judge counted."""
    tally: Tally
    scopes: Mapping[str, float]
    """The part of the episodes in each scope, the largest first: rewards of two are never compared."""
    agents: Mapping[str, float]
    """The part of all that is taught as right that each agent would have without caps, the largest first."""
    agents_capped: Mapping[str, float]
    """The part that it has."""
    data_hash: str
    """Of the ids of the episodes, their rewards and credits, and the settings: equal hashes give equal rows."""

    @property
    def effective(self) -> float:
        """How many rows of equal weight these are worth, by their weights (Kish 1965): (Σ w)² / Σ w²."""
        squares = math.fsum(row.weight**2 for row in self.rows)
        return math.fsum(row.weight for row in self.rows) ** 2 / squares if squares else 0.0


async def collect(
    database: Database, settings: DataSettings, *, filters: Filters | None = None, judge: str | None = None
) -> Collected:
    """Rankings of all episodes that `filters` choose and that can be learned from, with advantages and weights."""
    tally = Tally()
    drafts: list[RankingRow] = []
    origins: dict[str, Origin] = {}
    rewards: list[Reward] = []
    by_ranking: dict[str, tuple[float | None, ...]] = {}
    by_step: dict[str, tuple[float | None, ...]] = {}
    async for each in judged(database, filters, judge=judge, tally=tally):
        origin = origin_of(each)
        origins[each.episode_id] = origin
        rewards.append(each.reward)
        by_ranking[each.episode_id] = ranking_credits(each.trajectory, each.reward.credits)
        by_step[each.episode_id] = step_credits(each.trajectory, each.reward.credits)
        drafts += ranking_rows(each, origin)
    weights = _of_baselines(origins.values(), settings)
    whole = advantages(rewards, settings.advantages, weights)
    rankings = turn_advantages(rewards, by_ranking, whole, settings.advantages, weights)
    episodes = {id_: replace(origin, advantage=whole[id_]) for id_, origin in origins.items()}
    rows = capped(_with_advantages(drafts, episodes, rankings), settings.caps)
    taught_right = [taught(row, settings.caps) * is_right(row.advantage, settings.caps) for row in rows]
    agents = [row.origin.agent for row in rows]
    return Collected(
        rows=rows,
        episodes=episodes,
        steps=turn_advantages(rewards, by_step, whole, settings.advantages, weights),
        weights=_of_episodes(episodes.values(), settings),
        judge=judge,
        tally=tally,
        scopes=shares((each.scope for each in rewards), [1.0] * len(rewards)),
        agents=shares(agents, taught_right),
        agents_capped=shares(agents, [row.weight * one for row, one in zip(rows, taught_right, strict=True)]),
        data_hash=_hash(rewards, settings),
    )


async def collected_policy_rows(
    database: Database,
    collected: Collected,
    reader: Reader,
    settings: PolicySettings,
    *,
    episodes: Collection[str] | None = None,
    unfit: Counter[Unfit] | None = None,
) -> AsyncIterator[PolicyRow]:
    """Policy rows of `episodes`, or of all that were collected, as they are read; an episode that was deleted or judged
    anew since then has none. `unfit` is told why others have none."""
    unfit = Counter() if unfit is None else unfit
    wanted = tuple(collected.episodes if episodes is None else episodes)
    catalogues, keys = Catalogues(database), Keys(reader)
    async for each in judged(database, Filters(ids=wanted), judge=collected.judge):
        origin = collected.episodes.get(each.episode_id)
        if origin is None or origin.reward != each.value:
            continue
        shown = await catalogues.shown(each.trajectory.catalog)
        id_ = each.episode_id
        made = policy_rows(
            each,
            origin,
            shown,
            keys,
            reader,
            settings,
            turns=collected.steps[id_],
            weight=collected.weights[id_],
        )
        if isinstance(made, Unfit):
            unfit[made] += 1
            continue
        for row in made:
            yield row


def _of_baselines(origins: Collection[Origin], settings: DataSettings) -> dict[str, float]:
    """Weights of episodes by which who is capped does not set the baseline of all others."""
    counts = sums([each.agent for each in origins], [1.0] * len(origins))
    held = limits(counts, settings.caps.agent_share)
    return {each.episode_id: held[each.agent] for each in origins}


def _of_episodes(origins: Collection[Origin], settings: DataSettings) -> dict[str, float]:
    advantages = [each.advantage for each in origins]
    weights = [final(each, settings.caps) for each in advantages]
    held = factors([each.agent for each in origins], advantages, weights, settings.caps)
    return {each.episode_id: factor for each, factor in zip(origins, held, strict=True)}


def _with_advantages(
    drafts: Sequence[RankingRow], episodes: Mapping[str, Origin], turns: Mapping[str, Sequence[float]]
) -> list[RankingRow]:
    rows: list[RankingRow] = []
    places: Counter[str] = Counter()
    for row in drafts:
        id_ = row.origin.episode_id
        rows.append(replace(row, origin=episodes[id_], advantage=turns[id_][places[id_]]))
        places[id_] += 1
    return rows


def _hash(rewards: Sequence[Reward], settings: DataSettings) -> str:
    lines = sorted(json.dumps(asdict(each), sort_keys=True) for each in rewards)
    return sha256("\n".join([json.dumps(asdict(settings), sort_keys=True), *lines]).encode()).hexdigest()
