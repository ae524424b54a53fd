"""Checks of which tools and servers were used, as far as good episodes of the same task tell.

Above: library.py, writing/derived.py, whose rubrics are made of them. Below: base.py, records.py, sightings.py,
ways.py. Tools and servers that no good episode used are allowed where they served the same ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly
from judge.checks.evidence import evidence_of
from judge.checks.reading import Reading
from judge.checks.records import atoms_of, fact, passed, whole_record
from judge.checks.sightings import NAMING, done, gives, is_slight, listed, named_in, once
from judge.checks.tools import fits, reads, said
from judge.checks.ways import (
    beside,
    came_all,
    computed,
    needed_beside,
    parts_about,
    read_back,
    sent_elsewhere,
    stands_beside,
)
from judge.rubric import Need
from judge.verdict import Why

Names = Annotated[Sequence[str], Field(min_length=1)]
Fact = str | int | float
MAX_COMPARED = 50
"""Calls, and values of one of them, that are compared with all results; those after them are taken to be like them."""
ANOTHER = 0.9
"""Of a need that was served by a tool that no good episode used."""
BY_ITSELF = 0.5
"""Of a need for which no tool was used at all."""
UNKNOWN_WAY = 0.5
"""The most that is left where something was changed by a tool of none of the ways that are known, and these are all."""


@check("served")
def served(
    case: Case,
    *,
    each_of: Annotated[Sequence[Names], Field(min_length=1)],
    facts: Sequence[Sequence[Fact]],
    sent: Sequence[Sequence[Sequence[Fact]]] = (),
    complete: bool = False,
) -> Finding:
    """Each need was served. `each_of` lists need by need the tools that good episodes used for it, of which one was
    called with success; or with a tenth off something else served it. That is so where the `facts` that the need is for
    came from other tools; and where another tool that changes something was sent each group of values that `sent`
    lists, or a call after the last change shows it. Both are in the order of the needs, and where they have nothing for
    one, only its tools will do. Half is left where the agent itself worked out facts from what tools gave, and where
    the ways to change something are known to be `complete`, of what another tool changed. The score is the mean."""
    evidence = evidence_of(case)
    acts = done(case, ())
    scores: list[float] = []
    lacking: list[str] = []
    speaking: list[Act] = []
    for place, names in enumerate(each_of):
        if usual := [act for act in acts if fits(act, names)]:
            scores.append(1.0)
            speaking += usual
            continue
        wanted = [fact(each) for each in (facts[place] if place < len(facts) else ())]
        groups = [list(map(fact, each)) for each in (sent[place] if place < len(sent) else ())]
        giving = [act for act in acts if any(map(evidence.reading_of(act).has, wanted))]
        own = [each for each in wanted if not any(evidence.reading_of(act).has(each) for act in giving)]
        writing = [found for each in groups if (found := sent_elsewhere(case, each, names) or read_back(case, each))]
        is_served = bool(wanted or groups) and len(writing) == len(groups) and all(computed(case, each) for each in own)
        otherwise = UNKNOWN_WAY if complete and groups else BY_ITSELF if own else ANOTHER
        scores.append(otherwise if is_served else 0.0)
        speaking += [*giving, *writing] if is_served else []
        lacking.append(said(names))
    if not lacking:
        return met(acts=once(speaking))
    return partly(sum(scores) / len(scores), f"never called with success: {listed(lacking)}", acts=once(speaking))


@check("arguments_from", needs={Need.TASK})
def arguments_from(
    case: Case,
    *,
    origins: Annotated[Mapping[str, Mapping[str, Names]], Field(min_length=1)],
    facts: Sequence[Fact] = (),
) -> Finding:
    """What these tools are given comes from where it should: `origins` says by tool and parameter of which servers or
    tools an earlier result has to have it, `{"calculator.sum": {"numbers": ["files"]}}`; what the task gives may come
    from there, and what a result has that gave one of `facts`. Words and whole numbers up to 3 are left out. The score
    is the share of successful calls for which this is so of all values. Not applicable where none of the tools was
    called with such an argument."""
    task = Reading(case.task or "")
    evidence = evidence_of(case)
    wanted = list(map(fact, facts))
    giving = [act for act in done(case, ()) if any(gives(case, act, value) for value in wanted)]
    right: list[Act] = []
    wrong: list[Act] = []
    notes: list[str] = []
    cut = False
    for tool, by_name in origins.items():
        for act in done(case, [tool])[:MAX_COMPARED]:
            lacking: list[str] = []
            for name, names in by_name.items():
                earlier = [each for each in (*done(case, names), *giving) if each.place < act.place]
                readings = [task, *map(evidence.reading_of, earlier)]
                atoms = [atom for atom in atoms_of(whole_record(act.arguments.get(name))) if not is_slight(atom)]
                atoms = atoms[:MAX_COMPARED]
                lost = [atom.written for atom in atoms if not any(reading.has(atom) for reading in readings)]
                lacking += [f"{written} is not of {said(names)}" for written in lost]
                cut = cut or (bool(lost) and any(case.cut(each.step) for each in earlier))
            (wrong if lacking else right).append(act)
            notes += lacking
    if not right and not wrong:
        return missing(Why.NOT_APPLICABLE, "none of the tools was called with success")
    if not wrong:
        return met(acts=right)
    if cut:
        return missing(Why.CUT, f"{listed(notes)}, as far as results were kept")
    return partly(len(right) / len(right + wrong), listed(notes), acts=wrong)


@check("taken_beside_task", needs={Need.TASK})
def taken_beside_task(case: Case, *, parameters: Annotated[Mapping[str, Names], Field(min_length=1)]) -> Finding:
    """What these tools are given in these parameters, by tool, speaks of what the task names: where the task does not
    say it, an earlier result has it beside a name, text or identifier of the task, in one object or paragraph. So of a
    list of commits the one is shown that was asked about. The score is the share of successful calls. Not applicable
    where none had such an argument."""
    task = Reading(case.task or "")
    named = named_in(case.task or "", NAMING)[:MAX_COMPARED]
    about = parts_about(case, named)
    right: list[Act] = []
    wrong: list[Act] = []
    notes: list[str] = []
    room = MAX_COMPARED
    for tool, names in parameters.items():
        for act in done(case, [tool])[:MAX_COMPARED]:
            given = atoms_of(whole_record([act.arguments.get(name) for name in names]))
            atoms = [atom for atom in given if not (is_slight(atom) or task.has(atom))][:room]
            room -= len(atoms)
            lacking = [atom.written for atom in atoms if not stands_beside(about, act, atom)]
            if atoms:
                (wrong if lacking else right).append(act)
                notes += lacking
    if not right and not wrong:
        return missing(Why.NOT_APPLICABLE, "nothing was passed there that the task does not say")
    if wrong and any(case.cut(act.step) for act in done(case, ())):
        return missing(Why.CUT, f"{listed(notes)} may stand in a part of a result that was not kept")
    note = f"not beside anything of the task: {listed(notes)}" if wrong else ""
    return partly(len(right) / len(right + wrong), note, acts=wrong or right)


@check("kept_to")
def kept_to(
    case: Case,
    *,
    servers: Names,
    changing: Sequence[str] = (),
    facts: Sequence[Fact] = (),
    sent: Sequence[Sequence[Fact]] = (),
    complete: bool = False,
    tools: Sequence[str] = (),
) -> Finding:
    """Only these servers were called, and nothing but the tools `changing` to change something. A tool changes
    something unless its definition (`readOnlyHint`) or its name says that it only reads.

    Another tool of a server that `changing` names may change something where it was sent one of the groups of values
    `sent`. A call beside these servers is allowed where it gave one of `facts` that no call of theirs gave, and all of
    them came together in the end. Where not all of `facts` came, no other tools than `tools`, which are those that good
    episodes called, may be called that gave none. The score is the share of calls; at most half where the ways to
    change something are known to be `complete` and a call that succeeded went none of them. Not applicable where
    nothing was called."""
    if not case.acts:
        return missing(Why.NOT_APPLICABLE, "no tool was called")
    needed = needed_beside(case, servers, list(map(fact, facts)))
    groups = [list(map(fact, each)) for each in sent if each]
    wanted = list(map(fact, facts))
    lost = bool(tools) and not came_all(case, wanted)
    wrong: list[Act] = []
    unknown = False
    for act in case.acts:
        if not fits(act, servers):
            allowed = act.id in needed
        elif reads(case, act) is False and not fits(act, changing):
            unknown = unknown or (complete and not evidence_of(case).failed(act))
            records = passed(case).of(act) if beside(act, changing) else ()
            allowed = not complete and any(all(map(record.has, group)) for record in records for group in groups)
        else:
            allowed = not lost or fits(act, tools) or any(gives(case, act, value) for value in wanted)
        wrong += [] if allowed else [act]
    if not wrong:
        return met()
    names = listed(list(dict.fromkeys(act.written for act in wrong)))
    score = min(UNKNOWN_WAY if unknown else 1.0, 1 - len(wrong) / len(case.acts))
    return partly(score, f"called beside {said([*servers, *changing])}: {names}", acts=wrong)
