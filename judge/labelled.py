"""What people said of episodes beside what judges did: pairs for agreement and calibration, candidates for rubrics.

Above: commands/. Below: proxy.store, trust/agreement.py. Of several judgements of an episode by one judge and rubric,
the latest counts, so that judging again does not count twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from sqlalchemy import select

from judge.trust.agreement import Pair
from judge.verdict import Verdict
from proxy.store.database import Database
from proxy.store.judgements import Judgement, Label, judgements, labels
from proxy.store.tables import LabelRow

EPISODES_AT_ONCE = 200


async def labelled(database: Database) -> AsyncIterator[tuple[str, Sequence[Label], Sequence[Judgement]]]:
    """Every episode that a person said something of, with that and its judgements, in the order of their ids."""
    after = ""
    while True:
        statement = select(LabelRow.episode_id).where(LabelRow.episode_id > after).distinct()
        async with database.reading() as connection:
            page = statement.order_by(LabelRow.episode_id).limit(EPISODES_AT_ONCE)
            ids = list((await connection.execute(page)).scalars())
        if not ids:
            return
        after = ids[-1]
        said, judged = await labels(database, ids), await judgements(database, ids)
        for episode_id in ids:
            if episode_id in said:
                yield episode_id, said[episode_id], judged.get(episode_id, ())


async def pairs(database: Database, *, judge: str | None = None) -> list[Pair]:
    """What each judge, or this one, and each person said of the same criterion or episode."""
    found: list[Pair] = []
    async for _, said, judged in labelled(database):
        mine = [each for each in judged if judge is None or each.judge == judge]
        found += pairs_of(said, mine)
    return found


def pairs_of(said: Sequence[Label], judged: Sequence[Judgement]) -> list[Pair]:
    """Of one episode. A label on a criterion goes with judgements by the same rubric, one of the whole episode with the
    last reward of each judge."""
    by_rubric: dict[tuple[str, str], Judgement] = {}
    by_judge: dict[str, Judgement] = {}
    for each in judged:
        # In their order: the latest stays.
        by_rubric[each.judge, each.rubric_hash] = by_judge[each.judge] = each
    verdicts = {key: _verdicts(each) for key, each in by_rubric.items()}
    found: list[Pair] = []
    for label in said:
        if label.step_id is not None:
            continue
        if label.criterion is None:
            found += [_pair(label, judge, each.reward, by_model=False) for judge, each in by_judge.items()]
            continue
        for (judge, rubric), its in verdicts.items():
            verdict = its.get(label.criterion) if rubric == label.rubric_hash else None
            if verdict is not None and (verdict.why is None or not verdict.why.left_out):
                found.append(_pair(label, judge, verdict.score, by_model=bool(verdict.repeats)))
    return found


def mean_labels(said: Sequence[Label], rubric_hash: str | None) -> dict[str | None, float]:
    """The mean of what people said of one episode, by criterion of a rubric; under None, of the episode as a whole."""
    values: defaultdict[str | None, list[float]] = defaultdict(list)
    for each in said:
        if each.step_id is None and (each.criterion is None or each.rubric_hash == rubric_hash):
            values[each.criterion].append(each.value)
    return {criterion: sum(given) / len(given) for criterion, given in values.items()}


def _verdicts(judgement: Judgement) -> dict[str, Verdict]:
    read = (Verdict.of_content(each) for each in judgement.verdicts)
    return {verdict.criterion: verdict for verdict in read}


def _pair(label: Label, judge: str, score: float | None, *, by_model: bool) -> Pair:
    return Pair(
        judge=judge,
        item=label.episode_id,
        criterion=label.criterion,
        by_model=by_model,
        score=score,
        human=label.value,
    )
