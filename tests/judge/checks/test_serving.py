"""Checks of which tools and servers were used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from judge.verdict import Why
from tests.judge.checks.ledgers import READ, SUM, WRITE, case, cut, decided, failed

# served


def test_a_need_is_served_by_a_tool_of_good_episodes_or_by_another_that_gave_the_facts():
    each_of, facts = [["calculator"], ["files.write"]], [["160.95"], []]
    other = {"duck.query": {"sql": "SELECT 1"}, "gives": "160.95"}
    assert decided("served", case(SUM, WRITE), each_of=each_of, facts=facts).score == 1
    assert decided("served", case(other, WRITE), each_of=each_of, facts=facts).score == pytest.approx(0.95)
    assert decided("served", case(*READ, WRITE), each_of=each_of, facts=facts).score == 0.75
    assert decided("served", case(SUM, failed(WRITE)), each_of=each_of, facts=facts).score == 0.5
    assert "files.write" in decided("served", case(SUM), each_of=each_of, facts=facts).note


def test_a_need_of_which_only_some_facts_came_is_not_served():
    each_of, facts = [["calculator"]], [["160.95", "310.50"]]
    other = {"duck.query": {"sql": "SELECT 1"}, "gives": "160.95"}
    assert decided("served", case(other), each_of=each_of, facts=facts).score == 0
    assert decided("served", case(other, READ[1]), each_of=each_of, facts=facts).score == pytest.approx(0.9)
    assert decided("served", case(READ[1], answer=None), each_of=each_of, facts=[["160.95"]]).score == 0


def test_another_tool_serves_a_change_where_it_was_sent_the_same_or_it_is_read_back():
    asked: dict[str, Any] = {"each_of": [["files.write"]], "facts": [[]], "sent": [[["Nadia", "4.02"], ["Emil"]]]}
    other = {"files.edit": WRITE["files.write"], "gives": "ok"}
    shown = {"files.read": {"path": "rooms"}, "gives": "Nadia 4.02\nEmil 1.18"}
    edit = {"files.edit": {"how": "swap"}, "gives": "ok"}
    assert decided("served", case(other), **asked).score == pytest.approx(0.9)
    assert decided("served", case(edit), **asked).score == 0
    assert decided("served", case(edit, shown), **asked).score == pytest.approx(0.9)
    assert decided("served", case(other), each_of=[["files.write"]], facts=[[]], sent=[[]]).score == 0


def test_where_all_ways_are_known_another_tool_serves_half_a_change_and_reads_as_before():
    asked: dict[str, Any] = {"each_of": [["files.write"], ["calculator"]], "facts": [[], ["160.95"]]}
    asked |= {"sent": [[["Nadia", "4.02"]], []], "complete": True}
    another = {"files.edit": WRITE["files.write"], "gives": "ok"}
    query = {"duck.query": {"sql": "SELECT 1"}, "gives": "160.95"}
    assert decided("served", case(WRITE, SUM), **asked).score == 1
    assert decided("served", case(another, SUM), **asked).score == 0.75
    assert decided("served", case(WRITE, query), **asked).score == pytest.approx(0.95)


# arguments_from


def test_what_a_tool_works_on_comes_from_the_named_servers_or_the_task():
    origins = {"calculator.calculate": {"expression": ["files"]}}
    elsewhere = {"archive.read": {"path": "harbour/march.csv"}, "gives": "paint,48.60\nrope,112.35"}
    assert decided("arguments_from", case(*READ, SUM), origins=origins).score == 1
    assert decided("arguments_from", case(elsewhere, SUM), origins=origins).score == 0
    assert decided("arguments_from", case(SUM, *READ), origins=origins).score == 0
    assert decided("arguments_from", case(SUM, task="Add 48.60 and 112.35."), origins=origins).score == 1
    assert decided("arguments_from", case(cut(READ[1]), SUM), origins=origins).why is Why.CUT
    assert decided("arguments_from", case(*READ), origins=origins).why is Why.NOT_APPLICABLE


def test_what_gave_an_expected_fact_may_be_worked_on_and_small_numbers_come_from_nowhere():
    origins = {"calculator.calculate": {"expression": ["files"], "places": ["files"]}}
    elsewhere = {"archive.read": {"path": "harbour/march.csv"}, "gives": "paint,48.60\nrope,112.35"}
    adding = {"calculator.calculate": {"expression": "48.60 + 112.35", "places": 2}, "gives": "160.95"}
    assert decided("arguments_from", case(elsewhere, adding), origins=origins).score == 0
    assert decided("arguments_from", case(elsewhere, adding), origins=origins, facts=["48.60"]).score == 1
    assert decided("arguments_from", case(elsewhere, adding), origins=origins, facts=["777"]).score == 0


# taken_beside_task


LOG = "Commit: 1a2b3c4d5\nMessage: Raise the fee\n\nCommit: 9f8e7d6c5\nMessage: Allow more guests"
ASKED = "Who made the commit 'Raise the fee', and when?"
BESIDE = {"parameters": {"git.show": ["revision"]}}


@pytest.mark.parametrize(
    ("revision", "score"),
    [("1a2b3c4d5", 1.0), ("9f8e7d6c5", 0.0), ("HEAD~2", 0.0), ("1a2b3c4d5:fees.ini", 1.0), ("9f8e7d6c5:fees.ini", 0.0)],
)
def test_of_a_list_what_the_task_asks_about_is_looked_at(revision: str, score: float):
    log = {"git.log": {}, "gives": LOG}
    show = {"git.show": {"revision": revision}, "gives": "by Ada"}
    assert decided("taken_beside_task", case(log, show, task=ASKED), **BESIDE).score == score
    assert decided("taken_beside_task", case(show, log, task=ASKED), **BESIDE).score == 0
    assert decided("taken_beside_task", case(log, task=ASKED), **BESIDE).why is Why.NOT_APPLICABLE


def test_what_may_stand_in_a_part_that_was_not_kept_is_not_known():
    log = {"git.log": {}, "gives": LOG}
    show = {"git.show": {"revision": "777aaa777"}, "gives": "by Ada"}
    assert decided("taken_beside_task", case(cut(log), show, task=ASKED), **BESIDE).why is Why.CUT


def test_in_json_what_stands_in_one_object_stands_together():
    rows = json.dumps([{"id": "c-77", "name": "Ada Blum"}, {"id": "c-78", "name": "Ida Stern"}])
    found = {"crm.list": {}, "gives": rows}
    for id_, score in (("c-77", 1.0), ("c-78", 0.0)):
        asked = case(found, {"crm.get": {"id": id_}, "gives": "x"}, task="What does Ada Blum owe us?")
        assert decided("taken_beside_task", asked, parameters={"crm.get": ["id"]}).score == score


# kept_to


def test_other_servers_and_other_changes_are_seen_and_reading_is_free():
    listing = {"files.list_directory": {"path": "."}, "gives": "a"}
    assert decided("kept_to", case(*READ, listing), servers=["files"]).score == 1
    assert decided("kept_to", case(*READ, WRITE, SUM), servers=["files"]).score == 0.5
    assert decided("kept_to", case(*READ, WRITE), servers=["files"], changing=["files.write"]).score == 1
    assert decided("kept_to", case(), servers=["files"]).why is Why.NOT_APPLICABLE


def test_a_call_beside_the_servers_is_allowed_where_it_alone_gave_an_expected_fact():
    asked: dict[str, Any] = {"servers": ["files", "calculator"], "facts": ["160.95", "310.50"]}
    query = {"duck.execute": {"sql": "SELECT sum(amount)"}, "gives": "160.95"}
    assert decided("kept_to", case(query, READ[1]), **asked).score == 1
    assert decided("kept_to", case(query, READ[1], SUM), **asked).score == pytest.approx(2 / 3)
    assert decided("kept_to", case(query), **asked).score == 0


def test_a_server_with_stale_facts_is_not_allowed():
    asked: dict[str, Any] = {"servers": ["files"], "facts": ["48.60", "310.50"]}
    stale = {"archive.read": {"path": "april.csv"}, "gives": "paint,48.60\nbuoy,299.00"}
    assert decided("kept_to", case(stale, answer="48.60 and 299.00"), **asked).score == 0
    assert decided("kept_to", case(*READ, stale), **asked).score == pytest.approx(2 / 3)


def test_another_tool_of_a_changed_server_may_change_what_was_to_be_changed():
    asked: dict[str, Any] = {"servers": ["files"], "changing": ["files.write"], "sent": [["Nadia", "4.02"]]}
    same = {"files.edit": WRITE["files.write"], "gives": "ok"}
    other = {"files.edit": {"edits": [{"who": "Ada", "room": "4.02"}]}, "gives": "ok"}
    assert decided("kept_to", case(same), **asked).score == 1
    assert decided("kept_to", case(other), **asked).score == 0
    mail = {"mail.send": WRITE["files.write"], "gives": "ok"}
    assert decided("kept_to", case(mail), **{**asked, "servers": ["files", "mail"]}).score == 0


def test_where_all_ways_are_known_another_change_leaves_half_at_most():
    asked: dict[str, Any] = {"servers": ["files"], "changing": ["files.write"], "sent": [["Nadia", "4.02"]]}
    same = {"files.edit": WRITE["files.write"], "gives": "ok"}
    assert decided("kept_to", case(*READ, *READ, WRITE), **asked, complete=True).score == 1
    assert decided("kept_to", case(*READ, *READ, same), **asked).score == 1
    assert decided("kept_to", case(*READ, *READ, same), **asked, complete=True).score == 0.5
    assert decided("kept_to", case(*READ, *READ, failed(same), WRITE), **asked, complete=True).score > 0.5


# all


EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "kept_to": {"servers": ["mail"], "facts": ["a", 1], "sent": [["a"]], "state": [["a", 1]], "shown_by": ["files"]},
    "served": {"each_of": [["files"], ["mail"]], "facts": [["a", 1], ["b"]], "sent": [[], [["a"]]]},
    "arguments_from": {"origins": {"files.read": {"path": ["mail"], "deep": ["files"]}}},
    "taken_beside_task": {"parameters": {"files.read": ["path", "deep"]}},
}
HOSTILE = ("", "9" * 5_000, "1e999999", "\u202e\u200b12\u2066", "A, 1. B; 2\n" * 20_000, "{" * 50_000, "'a " * 50_000)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", EXAMPLES)
def test_texts_of_strangers_are_decided_like_others(name: str, text: str):
    deep: Any = text
    for _ in range(200):
        deep = [deep]
    steps = [{"files.read": {"path": text, "deep": deep, "n": 10**30}, "gives": text}]
    found = decided(name, case(*steps, answer=text, task=text or None), **EXAMPLES[name])
    assert (found.score is None) != (found.why is None)


def test_where_facts_lack_reading_something_else_than_good_episodes_did_is_called_beside():
    read = {"files.read": {"path": "a.txt"}, "gives": "checked 2026-05-06"}
    info = {"files.info": {"path": "a.txt"}, "gives": "modified 2026-11-30"}
    right, wrong = "It was checked on 6 May 2026.", "It was checked on 30 November 2026."
    asked: dict[str, Any] = {"servers": ["files"], "facts": ["2026-05-06"], "tools": ["files.read"]}
    assert decided("kept_to", case(info, answer=wrong), **asked).score == 0.0
    assert decided("kept_to", case(info, read, answer=right), **asked).score == 1.0
    assert decided("kept_to", case(info, read, answer=wrong), **asked).score == 0.5
    assert decided("kept_to", case(info, read, answer=None), **asked).score == 1.0
    assert decided("kept_to", case(info, answer=wrong), **(asked | {"tools": []})).score == 1.0


def test_a_tool_that_was_called_serves_half_a_need_where_its_facts_did_not_come():
    each_of, facts = [["files.read"]], [["48.60", "310.50"]]
    assert decided("served", case(*READ), each_of=each_of, facts=facts).score == 1
    assert decided("served", case(READ[0]), each_of=each_of, facts=facts).score == 0.5


STATE: Mapping[str, Any] = {"state": [["Nadia", "4.02"], ["Emil", "1.18"]], "shown_by": ["files"]}
ROOMS = {"files.read": {"path": "rooms"}, "gives": "Nadia 4.02\nEmil 1.18"}
OLD_ROOMS = {"files.read": {"path": "rooms"}, "gives": "Nadia 1.18\nEmil 4.02"}


def test_another_tool_serves_a_change_whose_end_is_seen_and_half_of_one_that_is_not():
    asked: dict[str, Any] = {"each_of": [["files.write"]], "facts": [[]], "sent": [[["Nadia", "4.02"]]], **STATE}
    same = {"files.edit": WRITE["files.write"], "gives": "ok"}
    swap = {"files.edit": {"how": "swap"}, "gives": "ok"}
    assert decided("served", case(WRITE), **asked).score == 1
    assert decided("served", case(swap, ROOMS), **asked).score == pytest.approx(0.9)
    assert decided("served", case(same), **asked).score == 0.5
    assert decided("served", case(swap, OLD_ROOMS), **asked).score == 0


def test_changes_by_other_tools_are_kept_to_where_the_end_is_seen_at_the_same_servers():
    asked: dict[str, Any] = {"servers": ["files"], "changing": ["files.write"], "sent": [["Nadia", "4.02"]], **STATE}
    edit = {"editor.edit": {"how": "swap"}, "gives": "ok"}
    more = {"files.delete": {"path": "notes.txt"}, "gives": "ok"}
    copy = {"archive.read": {"path": "rooms"}, "gives": "Nadia 4.02\nEmil 1.18"}
    echo = {"files.read": {"path": "Nadia 4.02\nEmil 1.18"}, "gives": "Nadia 4.02\nEmil 1.18"}
    assert decided("kept_to", case(*READ, edit, ROOMS), **asked).score == 1
    assert decided("kept_to", case(*READ, edit, OLD_ROOMS), **asked).score == 0.5
    assert decided("kept_to", case(*READ, edit, copy), **asked).score <= 0.5
    assert decided("kept_to", case(*READ, edit, echo), **asked).score == 0.5
    assert decided("kept_to", case(*READ, WRITE, more, ROOMS), **asked).score == 0.5


def test_reading_elsewhere_is_free_where_all_facts_came_but_not_the_same_tool_of_a_copy():
    asked: dict[str, Any] = {"servers": ["files"], "facts": ["160.95"], "tools": ["files.read"]}
    total = {"files.read": {"path": "total"}, "gives": "160.95"}
    editor = {"editor.get": {"path": "total"}, "gives": "160.95"}
    copy = {"archive.read": {"path": "total"}, "gives": "160.95"}
    assert decided("kept_to", case(total, editor), **asked).score == 1
    assert decided("kept_to", case(total, copy), **asked).score == 0.5
    assert decided("kept_to", case(total, editor, answer="It is 170."), **asked).score == 0.5


def test_a_call_that_gave_a_fact_and_only_reads_needs_no_origin_and_a_folder_of_the_task_is_one():
    origins = {"files.read": {"path": ["files"]}}
    guessed = {"files.read": {"path": "books/q3.csv"}, "gives": "160.95"}
    moved = {"files.move": {"path": "books/q3.csv"}, "gives": "160.95"}
    assert decided("arguments_from", case(guessed), origins=origins).score == 0
    assert decided("arguments_from", case(guessed), origins=origins, facts=["160.95"]).score == 1
    changing = {"files.move": {"path": ["files"]}}
    assert decided("arguments_from", case(moved), origins=changing, facts=["160.95"]).score == 0
    apart = case(guessed, task="Read q3.csv in the folder books.")
    assert decided("arguments_from", apart, origins=origins).score == 1


def test_a_file_is_the_same_whoever_opens_it_by_its_path_but_not_in_a_copy_of_the_server():
    given = {"path": "plan/rooms.csv", "text": "Nadia 4.02"}
    asked: dict[str, Any] = {"servers": ["files"], "changing": ["files.write"], "sent": [["plan/rooms.csv", "4.02"]]}
    asked |= {"complete": True, "tools": ["files.write"]}
    editor = {"editor.edit": {**given, "path": "/home/office/plan/rooms.csv"}, "gives": "ok"}
    other = {"editor.edit": {**given, "path": "/home/office/plan/halls.csv"}, "gives": "ok"}
    copy = {"archive.write": given, "gives": "ok"}
    sibling = {"files.append": given, "gives": "ok"}
    for step, allowed in ((editor, True), (other, False), (copy, False), (sibling, False)):
        assert (decided("kept_to", case(*READ, *READ, step), **asked).score == 1) == allowed
        need: dict[str, Any] = {"each_of": [["files.write"]], "facts": [[]], "sent": [asked["sent"]], "complete": True}
        assert (decided("served", case(step), **need).score == pytest.approx(0.9)) == allowed
