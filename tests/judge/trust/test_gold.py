"""Gold sets: read, frozen, and a judge run over one."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.case import Case
from judge.checks.base import Finding, check, partly
from judge.checks.library import Library
from judge.judging import Judge
from judge.rubric import Category, Criterion, Kind, Need, Rubric
from judge.scripted import scripted
from judge.settings import RewardSettings
from judge.trust.gold import Gold, GoldCase, run_gold
from judge.trust.gold_files import freeze, read_gold
from proxy.errors import ConfigurationError
from proxy.store.catalogues import Catalogue, CatalogueDefinition, CatalogueServer
from proxy.store.trajectory import Trajectory

SCRIPT: dict[str, Any] = {
    "task": "What time is it in Oslo?",
    "answer": "14:05",
    "steps": [
        {"search_tools": {"query": "time"}, "gives": "time.now(zone: str)"},
        {"time.now": {"zone": "Oslo"}, "gives": "no such zone", "outcome": "tool_error"},
        {"time.now": {"zone": "Europe/Oslo"}, "gives": "14:05", "cut": True},
        {"run_python": {"code": "print(1)"}, "gives": "1"},
        {"time.now": {"zone": "Asia/Tokyo"}, "gives": "22:05", "by_code": True},
        {"time.set": {"to": "now"}, "gives": "it did not answer", "outcome": "timeout"},
    ],
}


@check("calls_are")
def calls_are(case: Case, *, number: int) -> Finding:
    """So many calls were made."""
    return partly(float(len(case.acts) == number), "Counted.")


def criterion(id: str, kind: Kind = Kind.CHECK, **changed: Any) -> Criterion:
    checked: dict[str, Any] = {"check": "calls_are", "parameters": {"number": 4}, "needs": frozenset[Need]()}
    members = {**(checked if kind is Kind.CHECK else {}), **changed}
    return Criterion(id=id, category=Category.TASK_FULFILMENT, text="So.", weight=5, kind=kind, **members)


RUBRIC = Rubric((criterion("four"), criterion("done", Kind.JUDGE)))
CASE: dict[str, Any] = {"name": "clock", "script": SCRIPT, "labels": {"four": 1, "done": 0}, "overall": 1}


def written(folder: Path, content: Any, name: str = "gold.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), "utf-8")
    return path


def gold(folder: Path, *cases: dict[str, Any], **others: Any) -> Gold:
    return read_gold(written(folder, {"format": 1, "cases": [*cases], **others}), RUBRIC)


def test_a_case_is_its_script_with_labels_and_a_rubric(tmp_path: Path) -> None:
    (case,) = gold(tmp_path, CASE).cases
    assert case == GoldCase(
        name="clock",
        trajectory=scripted(SCRIPT),
        catalogue=None,
        rubric=RUBRIC,
        labels={"four": 1, "done": 0},
        overall=1,
    )


def test_the_hash_names_what_the_file_says_and_the_rubrics_and_not_how_it_is_written(tmp_path: Path) -> None:
    first = gold(tmp_path, CASE)
    as_json = read_gold(written(tmp_path, json.dumps({"format": 1, "cases": [CASE]}, indent=3), "gold.json"), RUBRIC)
    assert len(first.hash) == 64
    assert as_json == first
    other = Rubric((*RUBRIC.criteria, criterion("more")))
    hashes = {
        first.hash,
        gold(tmp_path, {**CASE, "overall": 0}).hash,
        gold(tmp_path, {**CASE, "labels": {"four": 0.5}}).hash,
        gold(tmp_path, {**CASE, "script": {**SCRIPT, "answer": "14:06"}}).hash,
        read_gold(tmp_path / "gold.json", other).hash,
    }
    assert len(hashes) == 5


def test_a_rubric_of_the_file_is_taken_by_its_name(tmp_path: Path) -> None:
    mine = Rubric((criterion("mine"),))
    case = {**CASE, "rubric": "own", "labels": {"mine": 0}}
    assert gold(tmp_path, case, rubrics={"own": mine.content()}).cases[0].rubric == mine


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({**CASE, "labels": {"five": 1}}, "clock: its rubric has no criterion five"),
        ({**CASE, "labels": {"four": 2}}, "clock: a label is between 0 and 1, not 2"),
        ({**CASE, "overall": -1}, "clock: a label is between 0 and 1, not -1"),
        ({**CASE, "labels": {"four": "yes"}}, "cannot be used"),
        ({**CASE, "labels": ["four"]}, "cannot be used"),
        ({"name": "clock", "script": SCRIPT}, "clock: it has no label"),
        ({**CASE, "rubric": "other"}, "clock: there is no rubric 'other'"),
        ({**CASE, "label": {}}, "clock: label is not known"),
        ({**CASE, "episode": {}}, "clock: it has either a script or an episode"),
        ({"name": "clock", "labels": {"four": 1}}, "clock: it has either a script or an episode"),
        ({**CASE, "script": {"steps": [{"time.now": {}, "gave": "x"}]}}, "clock: step 1 of a script names one tool"),
        ({"name": "e", "episode": {"id": "e"}, "overall": 1}, "e: schema: this version reads"),
        ("clock", "cannot be used"),
    ],
)
def test_a_case_that_cannot_be_meant_is_named(tmp_path: Path, case: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"gold.yaml .*{why}"):
        gold(tmp_path, case)


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two cases are called clock"):
        gold(tmp_path, CASE, CASE)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("a: [", "is neither YAML nor JSON"),
        ("{", "is neither YAML nor JSON"),
        ("[" * 5_000, "is neither YAML nor JSON"),
        ("3", "is an object with"),
        ({"format": 2, "cases": []}, "has format 2"),
        ({"format": 1, "cases": []}, "is an object with"),
        ({"format": 1, "cases": [CASE], "also": 1}, "is an object with"),
        ({"format": 1, "cases": [CASE], "rubrics": {"own": {}}}, "a rubric is an object"),
        ({"format": 1, "cases": [CASE], "rubrics": 3}, "cannot be used"),
        ({"format": 1, "cases": [CASE], "catalogues": {"c1": {"servers": []}}}, "cannot be used"),
    ],
)
def test_a_file_that_is_no_gold_set_is_refused(tmp_path: Path, content: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        read_gold(written(tmp_path, content), RUBRIC)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_gold(tmp_path / "none.yaml", RUBRIC)


def catalogue() -> Catalogue:
    definition = {"name": "now", "inputSchema": {"type": "object", "properties": {"zone": {"type": "string"}}}}
    found = CatalogueDefinition(hash="h", server="time", tool="now", definition=definition, tokens=9)
    return Catalogue(
        hash="c1",
        taken_at=scripted(SCRIPT).began_at,
        servers=(CatalogueServer(name="time-server", written="time", purpose="Tells the time."),),
        tools={"time.now": "h"},
        definitions={"time.now": found},
        introduction="There are tools.",
        introduction_tokens=0,
        eager_tokens=0,
    )


def told(trajectory: Trajectory) -> dict[str, Any]:
    return {field.name: getattr(trajectory, field.name) for field in fields(Trajectory)}


def test_frozen_episodes_come_back_whole(tmp_path: Path) -> None:
    told_only = told(scripted(SCRIPT))
    steps = tuple(replace(step, catalog="c1") for step in told_only["steps"])
    lived = Trajectory(**{**told_only, "catalog": "c1", "steps": steps})
    case = GoldCase(
        name=lived.id, trajectory=lived, catalogue=catalogue(), rubric=RUBRIC, labels={"four": 0.5}, overall=None
    )
    other = replace(lived, catalog="c2")
    without = replace(case, name="without", trajectory=other, catalogue=None, rubric=Rubric(RUBRIC.criteria[:1]))
    text = freeze([case, without])
    found = read_gold(written(tmp_path, text), Rubric((criterion("other"),)))
    first, second = found.cases
    assert told(first.trajectory) == told(lived)
    assert type(first.trajectory) is Trajectory
    assert (first.labels, first.overall, first.rubric) == ({"four": 0.5}, None, RUBRIC)
    assert (second.rubric, second.catalogue) == (Rubric(RUBRIC.criteria[:1]), None)
    assert first.catalogue == catalogue()
    assert freeze(found.cases) == text


def test_cases_of_one_catalogue_share_the_definitions_that_each_of_them_brought(tmp_path: Path) -> None:
    lived = replace(scripted(SCRIPT), catalog="c1", steps=())
    one = GoldCase(name="a", trajectory=lived, catalogue=catalogue(), rubric=RUBRIC, labels={}, overall=1)
    definition = CatalogueDefinition(hash="i", server="time", tool="set", definition={"name": "set"}, tokens=3)
    more = replace(catalogue(), tools={"time.set": "i"}, definitions={"time.set": definition})
    text = freeze([one, replace(one, name="b", catalogue=more)])
    for case in read_gold(written(tmp_path, text), RUBRIC).cases:
        assert case.catalogue is not None
        assert case.catalogue.definitions == {**catalogue().definitions, "time.set": definition}
        assert case.catalogue.tools == {"time.now": "h", "time.set": "i"}


def test_nothing_labelled_is_nothing_to_freeze() -> None:
    with pytest.raises(ConfigurationError, match="no labelled episodes"):
        freeze([])


@pytest.mark.anyio
async def test_a_judge_is_measured_on_what_is_in_its_scope(tmp_path: Path) -> None:
    short = {**SCRIPT, "steps": SCRIPT["steps"][:2]}
    others = [
        {"name": "short", "script": short, "labels": {"four": 0, "done": 1}, "overall": 0},
        {"name": "wrong", "script": short, "labels": {"four": 1}},
    ]
    found = await run_gold(Judge(Library({"calls_are": calls_are}), RewardSettings()), gold(tmp_path, CASE, *others))
    said = {(each.item, each.criterion): (each.score, each.human, each.by_model) for each in found.pairs}
    assert said == {
        ("clock", "four"): (1.0, 1, False),
        ("clock", None): (1.0, 1, False),
        ("short", "four"): (0.0, 0, False),
        ("short", None): (0.0, 0, False),
        ("wrong", "four"): (0.0, 1, False),
    }
    assert found.judge.startswith("checks-")
    assert found.gold == gold(tmp_path, CASE, *others).hash
    assert found.criteria.kappa == pytest.approx(0.4)
    assert found.overall.kappa == 1.0
