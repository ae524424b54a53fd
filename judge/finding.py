"""Rubrics by what a person types: `default`, or the beginning of a hash.

Above: commands/. Below: proxy.store, default.py.
"""

from __future__ import annotations

import re

from judge.default import default_rubric
from judge.keeping import keep_default
from judge.rubric import Rubric
from proxy.errors import UnknownName
from proxy.store import rubrics as stored
from proxy.store.database import Database

DEFAULT = "default"
SHORTEST = 4
_HASH = re.compile(r"[0-9a-f]{4,64}")


async def find_rubric(database: Database, said: str) -> stored.Rubric:
    """The one rubric that `said` names.

    `default` is the one attached as such, else the package's own, which is kept in the log by this.

    Raises:
        UnknownName: There is none, or there are several.
    """
    if said == DEFAULT:
        for each in await stored.attachments(database):
            if each.scope == stored.Attached.DEFAULT:
                said = each.rubric_hash
                break
        else:
            said = await keep_default(database, default_rubric())
    if not _HASH.fullmatch(said):
        raise UnknownName(
            f"a rubric is named by at least {SHORTEST} digits of its hash, or `default`, not {said[:80]!r}"
        )
    found = [each for hash_, each in (await stored.rubrics(database)).items() if hash_.startswith(said)]
    if len(found) != 1:
        how_many = "no rubric" if not found else f"{len(found)} rubrics"
        raise UnknownName(f"{how_many} in the log begin with {said}; `toolatlas rubric list` shows them")
    return found[0]


async def criteria_of(database: Database, said: str) -> Rubric:
    """The same as criteria. Raises UnknownName, and RubricError where they cannot be read."""
    return Rubric.of_content((await find_rubric(database, said)).content)
