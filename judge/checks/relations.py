"""Checks that compare the calls of an episode with what good episodes of its task, or of its family, had in common.

Above: library.py, writing/derived.py, whose rubrics are made of them. Below: base.py, records.py, sightings.py,
ways.py. Most of them do not say how a thing was done: whatever tool passed a value on or gave it, it counts. serving.py
has those that speak of tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly
from judge.checks.evidence import evidence_of
from judge.checks.outcome import alike, computed, found_all, not_there, shown, shown_of
from judge.checks.reading import Reading
from judge.checks.records import Record, atoms_of, fact, passed, whole_record
from judge.checks.sightings import done, is_slight, is_word, listed, named_share, once, share_of, told_once
from judge.checks.tools import fits, reads, said
from judge.checks.values import Value, same
from judge.checks.ways import beside, of_same_path, sent_elsewhere
from judge.rubric import Need
from judge.verdict import Why

Names = Annotated[Sequence[str], Field(min_length=1)]
Fact = str | int | float
Facts = Annotated[Sequence[Fact], Field(min_length=1)]
Groups = Annotated[Sequence[Facts], Field(min_length=1)]
Kinds = Annotated[Sequence[Literal["number", "date", "time", "name", "identifier", "text"]], Field(min_length=1)]
Used = Annotated[Mapping[str, Mapping[str, Annotated[Sequence[Facts], Field(min_length=1)]]], Field(min_length=1)]
MAX_COMPARED = 50
"""Calls, and values of one of them, that are compared with all results; those after them are taken to be like them."""
OTHERWISE = 0.8
"""Of a change that was made at another server."""
EXCHANGED = 0.5
"""The most that is left where a value of one group was passed on with one of another."""


@check("arguments_together")
def arguments_together(
    case: Case,
    *,
    groups: Groups,
    any_of: Sequence[str] = (),
    or_found: bool = False,
    by: Sequence[Names] = (),
    known: Sequence[str] = (),
    facts: Sequence[Fact] = (),
    reading: Sequence[str] = (),
    state: Sequence[Sequence[Fact]] = (),
    shown_by: Sequence[str] = (),
) -> Finding:
    """Each group of values was passed on together, by one successful call (of `any_of`, or of whatever tool): as its
    plain arguments, or as members of one object in them. A group of one value asks only that it was passed on. Formats
    do not count, and what is passed in a longer text counts. With `or_found` it is enough that one call was answered
    with all of them. The score is the share of groups.

    `by` says group by group which tools good episodes passed it to. A group counts then as well where a call after the
    last change shows it; and it is left out where none of its tools was called, but one that is not among `known`:
    there it was done in another way, which other criteria judge. Not applicable where that leaves none. Where one that
    lacks was passed on with a value of another group instead of its own, half is left at most.

    What came to the same end needs no reason: a group that only went to tools `reading` is left out where all `facts`
    came and were told; and one counts where the groups of `state`, which good episodes saw at the end, are shown by
    the servers `shown_by`, as far as they share a value with it, or all of them with all `facts`, where something of it
    was sent in a change there."""
    ended = [list(map(fact, each)) for each in state]
    told = list(map(fact, facts))
    found_out = bool(reading) and found_all(case, told)
    sent: list[tuple[Act, Record | Reading]] = [
        (act, record) for act, record in passed(case).all if not any_of or fits(act, any_of)
    ]
    cut = not passed(case).whole or any(record.cut for _, record in passed(case).all)
    if or_found:
        evidence = evidence_of(case)
        sent += [(act, evidence.reading_of(act)) for act in done(case, any_of)]
        cut = cut or any(case.cut(act.step) for act in done(case, any_of))
    elsewhere = bool(by) and any(not fits(act, known) for act in done(case, ()))
    lacking: list[str] = []
    lost: list[Sequence[Value]] = []
    speaking: list[Act] = []
    of = 0
    for place, group in enumerate(groups):
        wanted = [fact(each) for each in group]
        own = by[place] if place < len(by) else ()
        found = next((act for act, record in sent if all(map(record.has, wanted))), None)
        if found is None and own:
            found = shown(case, wanted)
        if found is None and own and elsewhere and not done(case, own):
            continue
        if found is None and own and found_out and set(own) <= set(reading):
            continue
        if found is None and own and _ended_alike(case, wanted, told, ended, shown_by):
            continue
        of += 1
        if found is None:
            lacking.append(" with ".join(value.written for value in wanted))
            lost.append(wanted)
        else:
            speaking.append(found)
    if not of:
        return missing(Why.NOT_APPLICABLE, "it was done with other tools")
    if not cut and (crossed := _exchanged([each for each in sent if isinstance(each[1], Record)], lost, groups, by)):
        note = f"never passed on {listed(lacking)}, but exchanged in a call of {crossed.written}"
        return partly(min(EXCHANGED, 1 - len(lacking) / of), note, acts=[crossed])
    return share_of("never passed on", lacking, of, speaking, cut)


@check("changes_made")
def changes_made(
    case: Case,
    *,
    groups: Groups,
    by: Annotated[Sequence[Names], Field(min_length=1)],
    enough: Sequence[Sequence[Fact]],
    facts: Sequence[Fact] = (),
    state: Sequence[Sequence[Fact]] = (),
    shown_by: Sequence[str] = (),
) -> Finding:
    """Each group of values came together where it belongs: one successful call of the tools that `by` lists for it
    was sent all of it; or a call after the last change shows all of it, or what of `state` shares a value with it:
    groups that good episodes saw at the end, shown by the servers `shown_by`, or all of it with all `facts` where
    something of the group was sent in a change there; or a tool of no group that changes something was sent what
    `enough` lists for it, which may be nothing: then no other tool will do. With a fifth off where that tool is of
    another server and no path is among it, since nobody can tell that it changed the same thing; and with all off
    where the agent looked afterwards and it was not there. The score is the mean; at most half where one of these
    tools was sent a value of a group that lacks with one of another group instead of its own."""
    ended = [list(map(fact, each)) for each in state]
    told = list(map(fact, facts))
    usual = sorted({tool for tools in by for tool in tools})
    scores: list[float] = []
    lacking: list[str] = []
    lost: list[Sequence[Value]] = []
    speaking: list[Act] = []
    for place, group in enumerate(groups):
        wanted = [fact(each) for each in group]
        tools = by[place] if place < len(by) else ()
        own = next((act for act, each in passed(case).all if fits(act, tools) and all(map(each.has, wanted))), None)
        found = own or shown(case, wanted)
        score = 1.0
        if found is None and _ended_alike(case, wanted, told, ended, shown_by):
            scores.append(score)
            continue
        if found is None and place < len(enough):
            needed = [fact(each) for each in enough[place]]
            found = sent_elsewhere(case, needed, usual)
            near = found is not None and (beside(found, tools) or of_same_path(case, found, needed, usual))
            score = 1.0 if near else OTHERWISE
            if found is not None and any(not_there(case, each, shown_by) for each in _sharing(wanted, ended)):
                found = None
        scores.append(0.0 if found is None else score)
        lacking += [] if found is not None else [" with ".join(value.written for value in wanted)]
        lost += [] if found is not None else [wanted]
        speaking += [] if found is None else [found]
    if lacking and (not passed(case).whole or any(record.cut for _, record in passed(case).all)):
        return missing(Why.CUT, f"never passed on, as far as arguments were kept: {listed(lacking)}")
    score = sum(scores) / len(scores)
    note = f"never passed on {listed(lacking)}" if lacking else ""
    if crossed := _exchanged([each for each in passed(case).all if fits(each[0], usual)], lost, groups, by):
        return partly(min(EXCHANGED, score), f"{note}, but exchanged in a call of {crossed.written}", acts=[crossed])
    return partly(score, note, acts=once(speaking))


def _ended_alike(
    case: Case,
    values: Sequence[Value],
    facts: Sequence[Value],
    state: Sequence[Sequence[Value]],
    servers: Sequence[str],
) -> bool:
    """Whether what of the end shares a value with these is shown, or the whole end is the same."""
    return shown_of(case, values, state, servers) or alike(case, values, facts, state, servers)


def _sharing(values: Sequence[Value], groups: Sequence[Sequence[Value]]) -> list[Sequence[Value]]:
    """The groups that share a value with these."""
    return [group for group in groups if any(same(one, other) for one in group for other in values)]


def _exchanged(
    sent: Sequence[tuple[Act, Record | Reading]],
    lost: Sequence[Sequence[Value]],
    groups: Groups,
    by: Sequence[Names],
) -> Act | None:
    """A call that was sent a part of a lost group with a value that belongs to others alone, and no whole group that
    belongs to its tool."""
    if not lost:
        return None
    known = [[fact(each) for each in group] for group in groups]
    for act, record in sent:
        own = [group for place, group in enumerate(known) if place >= len(by) or fits(act, by[place])]
        if any(all(map(record.has, group)) for group in own):
            continue
        for group in lost:
            others = [value for each in known for value in each if not any(same(value, own) for own in group)]
            if any(map(record.has, group)) and any(map(record.has, others)):
                return act
    return None


@check("values_not_replaced", needs={Need.TASK})
def values_not_replaced(case: Case, *, used: Used, facts: Sequence[Fact] = ()) -> Finding:
    """Where one of these tools was called, no other value took the place of one that good episodes passed to it. `used`
    gives their values by tool and parameter, each way to do it as a list of its own:
    `{"files.read": {"path": [["march.csv", "april.csv"], ["all.csv"]]}}`; the way that comes nearest counts. That a
    value lacks is no mistake alone, nor is one more. The score is the share of values in whose place there is no other
    that neither the task nor `used` names, at most half where there is one. Calls that only read are left out where all
    `facts` came and were told: they asked for the same in another way. Not applicable where none of the tools was
    called with success."""
    found_out = found_all(case, list(map(fact, facts)))
    task = Reading(case.task or "")
    known = told_once(
        "\n".join(str(each) for by_name in used.values() for ways in by_name.values() for way in ways for each in way)
    )
    of, replaced = 0, list[str]()
    speaking: list[Act] = []
    for tool, by_name in used.items():
        acts = [act for act in done(case, [tool]) if not (found_out and reads(case, act))]
        for name, ways in by_name.items() if acts else ():
            given = whole_record([act.arguments.get(name) for act in acts])
            lacking = min(([each for each in way if not given.has(fact(each))] for way in ways), key=len)
            others = atoms_of(given) if lacking else []
            others = [atom for atom in others if not (known.has(atom) or task.has(atom) or is_slight(atom))]
            of += max(map(len, ways))
            both = list(zip(lacking, others, strict=False))
            replaced += [f"{value} by {other.written}" for value, other in both]
            speaking += acts if both else []
    if not of:
        return missing(Why.NOT_APPLICABLE, "none of the tools was called with success")
    if not replaced:
        return met()
    score = min(EXCHANGED, 1 - len(replaced) / of)
    return partly(score, f"replaced: {listed(replaced)}", acts=once(speaking))


@check("written_as_found", needs={Need.TASK})
def written_as_found(case: Case, *, any_of: Names) -> Finding:
    """What these tools were given together belongs together: of values of one record, those that earlier results gave
    stand in one of these, and a value of the task beside them, in the same result or in what was asked for it. So the
    result of one call is not written down for another. The score is the share of records with values of both. Not
    applicable where there are none."""
    task = Reading(case.task or "")
    evidence = evidence_of(case)
    right: list[Act] = []
    wrong: list[Act] = []
    succeeded = done(case, ())
    for act, record in [each for each in passed(case).all if fits(each[0], any_of)][:MAX_COMPARED]:
        earlier = [each for each in succeeded if each.place < act.place]
        atoms = [atom for atom in atoms_of(record) if not is_word(atom)][:MAX_COMPARED]
        subjects = [atom for atom in atoms if task.has(atom)]
        others = [atom for atom in atoms if not task.has(atom)]
        found = [atom for atom in others if any(evidence.reading_of(each).has(atom) for each in earlier)]
        if not subjects or not found:
            continue
        together = any(
            all(evidence.reading_of(each).has(atom) for atom in found)
            and any(
                evidence.reading_of(each).has(subject) or any(asked.has(subject) for asked in passed(case).of(each))
                for subject in subjects
            )
            for each in earlier
        )
        (right if together else wrong).append(act)
    if not right and not wrong:
        return missing(Why.NOT_APPLICABLE, "nothing of the task was written down with what results gave")
    if not wrong:
        return met(acts=once(right))
    if any(case.cut(act.step) for act in case.acts):
        return missing(Why.CUT, "what was written may stand together in a part that was not kept")
    note = f"written together, found apart: {listed([act.written for act in wrong])}"
    return partly(len(right) / len(right + wrong), note, acts=once(wrong))


@check("results_show")
def results_show(case: Case, *, facts: Facts, any_of: Sequence[str] = ()) -> Finding:
    """These facts stand in what successful calls (of `any_of`, or of whatever tool) were answered. What the answer
    tells and follows from results by a step of arithmetic counts. The score is the share of facts."""
    acts = done(case, any_of)
    evidence = evidence_of(case)
    readings = [(act, evidence.reading_of(act)) for act in acts]
    lacking: list[str] = []
    speaking: list[Act] = []
    for value in map(fact, facts):
        found = next((act for act, reading in readings if reading.has(value)), None)
        if found is not None:
            speaking.append(found)
        elif any_of or not computed(case, value):
            lacking.append(value.written)
    where = f"results of {said(any_of)}" if any_of else "any result"
    return share_of(f"not in {where}", lacking, len(facts), speaking, any(case.cut(act.step) for act in acts))


@check("task_passed_on", needs={Need.TASK})
def task_passed_on(case: Case, *, kinds: Kinds, or_found: bool = False) -> Finding:
    """Everything of these kinds (number, date, time, name, identifier, text) that the task names was passed on by a
    successful call, or with `or_found` stands in what one was answered: a part of the task that no call was about was
    not done. The score is the share. Not applicable where the task names nothing of these kinds."""
    acts = done(case, ())
    evidence = evidence_of(case)
    texts: list[Record | Reading] = [record for _, record in passed(case).all]
    texts += [evidence.reading_of(act) for act in acts if or_found]
    return named_share(case, kinds, lambda value: any(text.has(value) for text in texts), "no call was about")
