"""Lets a judge with a model write only when it agrees with people: the gold set is judged first, once a judge.

Above: commands/run.py. Below: trust/gold.py, trust/drift.py, keeping.py. Any change of model, prompts or settings is
another judge by name, and so comes here again.
"""

from __future__ import annotations

from sqlalchemy import select

from judge.case import Case
from judge.judging import Judge
from judge.keeping import keep_gold_run
from judge.rubric import Kind
from judge.running import Refused
from judge.trust.agreement import Agreement
from judge.trust.drift import passage
from judge.trust.gold import Gold, run_gold
from judge.verdict import Why
from proxy.store.database import Database
from proxy.store.judging_tables import GoldRunRow


async def admit(database: Database, judge: Judge, gold: Gold) -> str:
    """Why `judge` may write, where that was found out just now; empty where it was before.

    Raises:
        Refused: It may not. That is kept as well, and tried anew the next time: the endpoint may have been ill. Or
            its endpoint cannot be used at all, which says nothing of the judge, and is not kept.
        ConfigurationError: scipy is not installed.
    """
    accepted = select(GoldRunRow.judge, GoldRunRow.agreement).where(
        GoldRunRow.gold_hash == gold.hash, GoldRunRow.accepted == 1
    )
    async with database.reading() as connection:
        mine = await connection.execute(accepted.where(GoldRunRow.judge == judge.name).limit(1))
        if mine.first() is not None:
            return ""
        last = (await connection.execute(accepted.order_by(GoldRunRow.id.desc()).limit(1))).one_or_none()
    await _reachable(judge, gold)
    found = await run_gold(judge, gold)
    passed = passage(found, None if last is None else Agreement.of_content(last.agreement))
    await keep_gold_run(
        database,
        judge=judge.name,
        gold_hash=gold.hash,
        agreement=found.content(),
        accepted=passed.accepted,
        note=passed.why,
    )
    if not passed.accepted:
        raise Refused(
            f"This judge does not agree with people well enough on the gold set, so it writes nothing. {passed.why}"
        )
    return passed.why


async def _reachable(judge: Judge, gold: Gold) -> None:
    """One case tells it; the whole set would take minutes of retries to say the same."""
    case = gold.cases[0]
    judged = await judge.judge(case.rubric, Case(case.trajectory, case.catalogue))
    asked = {each.id for each in case.rubric.criteria if each.kind is Kind.JUDGE}
    verdicts = [verdict for verdict in judged.verdicts if verdict.criterion in asked]
    if verdicts and all(verdict.why is Why.UNREACHABLE for verdict in verdicts):
        raise Refused(f"The model's endpoint cannot be used, so nothing was judged: {verdicts[0].note}")
