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
from judge.checks.outcome import all_shown, came_all, computed, found_all, shown, told_all
from judge.checks.reading import Reading, Seen
from judge.checks.records import Record, atoms_of, fact, passed, whole_record
from judge.checks.sightings import NAMING, done, gives, is_slight, listed, named_in, once
from judge.checks.tools import fits, reads, said
from judge.checks.values import Value
from judge.checks.ways import beside, needed_beside, of_same_path, parts_about, sent_elsewhere, stands_beside
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
    state: Sequence[Sequence[Fact]] = (),
    shown_by: Sequence[str] = (),
) -> Finding:
    """Each need was served. `each_of` lists need by need the tools that good episodes used for it, of which one was
    called with success; or with a tenth off something else served it. That is so where the `facts` that the need is for
    came from other tools; and where another tool that changes something was sent each group of values that `sent`
    lists, or a call after the last change shows it. Both are in the order of the needs, and where they have nothing for
    one, only its tools will do. Half is left where facts did not come although one of its tools was called, where the
    agent itself worked them out from what tools gave, and of what another tool changed where the ways to change
    something are known to be `complete`, or where good episodes saw a `state` at the end (groups of values, by the
    servers `shown_by`) that was not seen. Where it was seen, another tool changed the same. The score is the mean."""
    evidence = evidence_of(case)
    acts = done(case, ())
    scores: list[float] = []
    lacking: list[str] = []
    speaking: list[Act] = []
    seen = all_shown(case, [list(map(fact, each)) for each in state], shown_by)
    for place, names in enumerate(each_of):
        wanted = [fact(each) for each in (facts[place] if place < len(facts) else ())]
        if usual := [act for act in acts if fits(act, names)]:
            scores.append(1.0 if came_all(case, wanted) else BY_ITSELF)
            speaking += usual
            continue
        groups = [list(map(fact, each)) for each in (sent[place] if place < len(sent) else ())]
        giving = [act for act in acts if any(map(evidence.reading_of(act).has, wanted))]
        own = [each for each in wanted if not any(evidence.reading_of(act).has(each) for act in giving)]
        writing = [found for each in groups if (found := sent_elsewhere(case, each, names) or shown(case, each))]
        is_served = bool(wanted or groups) and len(writing) == len(groups) and all(computed(case, each) for each in own)
        is_served = is_served or (not wanted and seen)
        same = bool(groups) and any(of_same_path(case, act, each, names) for act in writing for each in groups)
        unknown = bool(groups) and (complete or bool(state)) and not (seen or same)
        otherwise = UNKNOWN_WAY if unknown else BY_ITSELF if own else ANOTHER
        scores.append(otherwise if is_served else 0.0)
        speaking += [*giving, *writing] if is_served else []
        lacking.append(said(names))
    score = sum(scores) / len(scores)
    if not lacking:
        return partly(score, "" if score == 1 else "not all facts came", acts=once(speaking))
    return partly(score, f"never called with success: {listed(lacking)}", acts=once(speaking))


@check("arguments_from", needs={Need.TASK})
def arguments_from(
    case: Case,
    *,
    origins: Annotated[Mapping[str, Mapping[str, Names]], Field(min_length=1)],
    facts: Sequence[Fact] = (),
) -> Finding:
    """What these tools are given comes from where it should: `origins` says by tool and parameter of which servers or
    tools an earlier result has to have it, `{"calculator.sum": {"numbers": ["files"]}}`; what the task gives may come
    from there, also in parts (a folder, a file), and what a result has that gave one of `facts`. What a call that only
    reads had from nowhere, and that was answered with one of `facts`, was right. Words and whole numbers up to 3 are
    left out. The score is the share of successful calls for which this is so of all values. Not applicable where none
    of the tools was called with such an argument."""
    task = Seen()
    task.add(case.task or "", "task")
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
            before = [each for each in done(case, ()) if each.place < act.place]
            guessed = act in giving and reads(case, act) is True
            for name, names in by_name.items():
                earlier = [each for each in (*done(case, names), *giving) if each.place < act.place]
                readings = list(map(evidence.reading_of, earlier))
                atoms = [atom for atom in atoms_of(whole_record(act.arguments.get(name))) if not is_slight(atom)]
                atoms = [atom for atom in atoms[:MAX_COMPARED] if task.find(atom) is None]
                none = [atom for atom in atoms if not any(reading.has(atom) for reading in readings)]
                if guessed:
                    none = [atom for atom in none if any(evidence.reading_of(each).has(atom) for each in before)]
                lost = [atom.written for atom in none]
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
    state: Sequence[Sequence[Fact]] = (),
    shown_by: Sequence[str] = (),
) -> Finding:
    """Only these servers were called, and nothing but the tools `changing` to change something. A tool changes
    something unless its definition (`readOnlyHint`) or its name says that it only reads.

    Another way is allowed as far as it is seen to lead to the same end. Reading elsewhere: where it gave one of
    `facts` that no call of these servers gave; or all `facts` came and were told, unless it is the same tool of
    another server, which has a copy. Another tool that changes something: where it was sent one of the groups of
    values `sent`, or stands in for all of `changing`, and the groups of values `state` that good episodes saw at
    the end are shown by the servers `shown_by`; or, where there is no `state`, where it is of a server of
    `changing`, was sent such a group, and the ways are not known to be `complete`; or where it was sent such a
    group with a path, which means the same file whoever opens it. Where not all of `facts` came, or the answer
    lacks one, no other tools than `tools`, which are those that good episodes called, may be called that gave none.
    The score is the share of calls; at most half where a call that succeeded changed something in another way and
    nothing shows the end. Not applicable where nothing was called."""
    if not case.acts:
        return missing(Why.NOT_APPLICABLE, "no tool was called")
    wanted = list(map(fact, facts))
    known = [list(map(fact, each)) for each in state if each]
    groups = [list(map(fact, each)) for each in sent if each]
    needed = needed_beside(case, servers, wanted)
    seen = all_shown(case, known, shown_by)
    found = found_all(case, wanted) and (seen or not known)
    own = {name.partition(".")[2] for name in tools}
    lost = bool(tools) and bool(wanted) and not (came_all(case, wanted) and told_all(case, wanted))
    replaced = not done(case, changing) if changing else False
    task = Reading(case.task or "")
    wrong: list[Act] = []
    unknown = False
    for act in case.acts:
        if reads(case, act) is False and not fits(act, changing):
            is_sent = any(
                _carries(record, group, task) for record in passed(case).of(act) for group in [*groups, *known]
            )
            proved = (seen and (is_sent or replaced)) or any(of_same_path(case, act, each, changing) for each in groups)
            allowed = proved or (not known and is_sent and beside(act, changing) and not complete)
            unknown = unknown or ((complete or bool(known)) and not (allowed or evidence_of(case).failed(act)))
        elif not fits(act, servers):
            allowed = act.id in needed or (found and act.tool not in own)
        else:
            allowed = not lost or fits(act, tools) or any(gives(case, act, value) for value in wanted)
        wrong += [] if allowed else [act]
    if not wrong:
        return met()
    names = listed(list(dict.fromkeys(act.written for act in wrong)))
    score = min(UNKNOWN_WAY if unknown else 1.0, 1 - len(wrong) / len(case.acts))
    return partly(score, f"called beside {said([*servers, *changing])}: {names}", acts=wrong)


def _carries(record: Record, group: Sequence[Value], task: Reading) -> bool:
    """Whether these were sent together, or several of them with one that the task does not give."""
    sent = [value for value in group if record.has(value)]
    return len(sent) == len(group) or (len(sent) > 1 and not all(map(task.has, sent)))
