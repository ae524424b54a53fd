"""Checks that compare the calls of an episode with those of good ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from judge.case import Case
from judge.verdict import Why
from tests.judge.checks.ledgers import READ, SUM, WRITE, case, cut, decided, failed

# arguments_together


def test_values_of_one_record_were_passed_on_together():
    swapped = [["Nadia", "1.18"], ["Emil", "1.18"]]
    assert decided("arguments_together", case(WRITE), groups=[["Nadia", 4.02], ["Emil", "1.18"]]).score == 1
    found = decided("arguments_together", case(WRITE), groups=swapped)
    assert found.score == 0.5
    assert "Nadia with 1.18" in found.note
    assert found.steps == (case(WRITE).acts[0].id,)


def test_a_group_counts_only_from_successful_calls_of_the_named_tools():
    groups = [["harbour/march.csv"]]
    assert decided("arguments_together", case(READ[0]), groups=groups, any_of=["files"]).score == 1
    assert decided("arguments_together", case(READ[0]), groups=groups, any_of=["calculator"]).score == 0
    assert decided("arguments_together", case(failed(READ[0])), groups=groups).score == 0
    assert decided("arguments_together", case(), groups=groups).score == 0


def test_with_or_found_it_is_enough_that_a_call_was_answered_with_the_values():
    graph = {"memory.read_graph": {}, "gives": "Nadia: room 4.02\nEmil: room 1.18"}
    assert decided("arguments_together", case(graph), groups=[["Nadia"], ["Emil"]]).score == 0
    assert decided("arguments_together", case(graph), groups=[["Nadia"], ["Ada"]], or_found=True).score == 0.5
    assert decided("arguments_together", case(cut(graph)), groups=[["Ada"]], or_found=True).why is Why.CUT


def test_what_was_done_with_other_tools_is_left_out_and_what_was_read_back_counts():
    by, known = [["calculator"], ["files.write"]], ["files", "calculator"]
    asked: dict[str, Any] = {"groups": [["48.60"], ["Nadia", "4.02"]], "by": by, "known": known}
    query = {"duck.query": {"sql": "SELECT sum(amount)"}, "gives": "160.95"}
    swap = {"files.swap_rooms": {"who": ["Nadia", "Emil"]}, "gives": "ok"}
    assert decided("arguments_together", case(*READ, WRITE), **asked).score == 0.5
    assert decided("arguments_together", case(query, WRITE), **asked).score == 1
    assert decided("arguments_together", case(failed(query), WRITE), **asked).score == 0.5
    assert decided("arguments_together", case(query), **asked).why is Why.NOT_APPLICABLE
    other = {"files.write": {"edits": [{"who": "Nadia", "room": "4.03"}]}, "gives": "ok"}
    assert decided("arguments_together", case(query, other), **asked).score == 0
    shown = {"files.read": {"path": "rooms"}, "gives": "Nadia 4.02\nEmil 1.18"}
    assert decided("arguments_together", case(query, other, shown), **asked).score == 1
    assert decided("arguments_together", case(query, shown, other), **asked).score == 0
    assert decided("arguments_together", case(swap, SUM, shown), **asked).score == 0.5


# changes_made


ROOMS: dict[str, Any] = {
    "groups": [["Nadia", "4.02", "moved"], ["Emil", "1.18", "moved"]],
    "by": [["files.write"], ["files.write"]],
    "enough": [["Nadia", "4.02"], ["Emil", "1.18"]],
}


def rooms(tool: str, nadia: str = "4.02", emil: str = "1.18", *more: str) -> dict[str, Any]:
    given = [{"who": "Nadia", "room": nadia, "why": [*more]}, {"who": "Emil", "room": emil, "why": [*more]}]
    return {tool: {"edits": given}, "gives": "ok"}


def shows(nadia: str, emil: str) -> dict[str, Any]:
    rows = [{"who": "Nadia", "room": nadia, "x": "moved"}, {"who": "Emil", "room": emil, "x": "moved"}]
    return {"files.read": {"path": "rooms"}, "gives": json.dumps(rows)}


@pytest.mark.parametrize(
    ("steps", "score"),
    [
        ([rooms("files.write", "4.02", "1.18", "moved")], 1.0),
        ([rooms("files.write")], 0.0),
        ([rooms("files.update")], 1.0),
        ([rooms("other.update")], 0.8),
        ([rooms("other.update", "1.18", "4.02")], 0.0),
        ([rooms("other.update", "4.02", "1.19")], 0.4),
        ([rooms("files.list")], 0.0),
        ([rooms("files.write"), shows("4.02", "1.18")], 1.0),
        ([rooms("files.write"), shows("1.18", "4.02")], 0.0),
        ([shows("4.02", "1.18"), rooms("files.write")], 0.0),
        ([shows("4.02", "1.18")], 0.0),
    ],
)
def test_a_change_is_made_by_its_tool_or_another_or_is_read_back(steps: Sequence[Mapping[str, Any]], score: float):
    assert decided("changes_made", case(*steps), **ROOMS).score == pytest.approx(score)


def test_what_a_result_does_not_name_stands_in_what_was_asked_for():
    asked: dict[str, Any] = {"groups": [["stock", "IN-1", 41]], "by": [["db.write"]], "enough": [[]]}
    raised = {"db.write": {"sql": "UPDATE stock SET n = n + 24"}, "gives": "1 row"}
    for table, score in (("stock", 1.0), ("shelves", 0.0)):
        shown = {"db.read": {"sql": f"SELECT * FROM {table}"}, "gives": "[{'sku': 'IN-1', 'n': 41}]"}
        assert decided("changes_made", case(raised, shown), **asked).score == score


def test_a_change_for_which_nothing_else_is_enough_is_made_by_its_tool_alone():
    asked = {**ROOMS, "enough": [[], []]}
    assert decided("changes_made", case(rooms("files.update")), **asked).score == 0
    found = decided("changes_made", case(rooms("files.update", "4.03")), **ROOMS)
    assert (found.score, found.note) == (0.5, "never passed on Nadia with 4.02 with moved")


def test_values_of_two_groups_that_were_exchanged_leave_half_at_most():
    groups = [["Nadia", "4.02"], ["Emil", "1.18"], ["mentors"], ["Ada", "7"], ["Bo", "9"]]
    asked: dict[str, Any] = {"groups": groups, "by": [["files.write"]] * 5, "enough": [[]] * 5}
    more = {"files.write": {"edits": [{"a": "mentors"}, {"who": "Ada", "n": 7}, {"who": "Bo", "n": 9}]}, "gives": "ok"}
    half = {"files.write": {"edits": [{"who": "Nadia", "room": "4.02"}]}, "gives": "ok"}
    wrong = {"files.write": {"edits": [{"who": "Emil", "room": "4.02"}]}, "gives": "ok"}
    assert decided("changes_made", case(rooms("files.write"), more), **asked).score == 1
    assert decided("changes_made", case(half, more), **asked).score == pytest.approx(0.8)
    found = decided("changes_made", case(half, wrong, more), **asked)
    assert found.score == 0.5
    assert "exchanged in a call of files.write" in found.note
    assert decided("changes_made", case(rooms("files.write", "1.18", "4.02"), more), **asked).score == 0.5
    assert decided("arguments_together", case(half, wrong, more), groups=groups).score == 0.5
    assert decided("arguments_together", case(half, more), groups=groups).score == pytest.approx(0.8)


def test_the_old_value_is_no_exchange_where_its_own_tool_takes_it_away():
    groups = [["Nadia", "1.18"], ["Nadia", "4.02"], ["Emil", "note"]]
    asked: dict[str, Any] = {"groups": groups, "by": [["kb.delete"], ["kb.add"], ["kb.add"]], "enough": [[]] * 3}
    delete = {"kb.delete": {"who": "Nadia", "room": "1.18"}, "gives": "ok"}
    note = {"kb.add": {"who": "Emil", "text": "note"}, "gives": "ok"}
    assert decided("changes_made", case(delete, note), **asked).score == pytest.approx(2 / 3)
    again = {"kb.add": {"who": "Nadia", "room": "1.18"}, "gives": "ok"}
    assert decided("changes_made", case(delete, again, note), **asked).score == 0.5


# values_not_replaced


USED = {"files.read": {"path": [["harbour/march.csv", "harbour/april.csv"], ["all.csv"]]}}


@pytest.mark.parametrize(
    ("paths", "score"),
    [
        (["harbour/march.csv", "harbour/april.csv"], 1.0),
        (["all.csv"], 1.0),
        (["harbour/march.csv"], 1.0),
        (["harbour/march.csv", "harbour/april.csv", "harbour/may.csv"], 1.0),
        (["harbour/march.csv", "harbour/may.csv"], 0.5),
        (["x/june.csv", "x/may.csv"], 0.5),
    ],
)
def test_another_value_in_the_place_of_one_of_good_episodes_is_seen(paths: Sequence[str], score: float):
    steps = [{"files.read": {"path": path}, "gives": "1"} for path in paths]
    assert decided("values_not_replaced", case(*steps), used=USED).score == score


@pytest.mark.parametrize("path", ["harbour/april.csv", "all.csv", "daily"])
def test_what_the_task_or_other_good_episodes_name_and_plain_words_replace_nothing(path: str):
    step = {"files.read": {"path": path}, "gives": "1"}
    asked = case(step, task="Read harbour/april.csv, please.")
    assert (
        decided(
            "values_not_replaced", asked, used={"files.read": {"path": [["x/march.csv"], ["all.csv", "b.csv"]]}}
        ).score
        == 1
    )
    other = case({"files.read": {"path": "c.csv"}, "gives": "1"}, task="Read harbour/april.csv, please.")
    assert decided("values_not_replaced", other, used={"files.read": {"path": [["x/march.csv"]]}}).score == 0


def test_replacing_is_not_applicable_where_none_of_the_tools_was_called():
    assert decided("values_not_replaced", case(SUM), used=USED).why is Why.NOT_APPLICABLE


# written_as_found


def test_what_was_found_apart_is_not_written_together():
    task = "Note the contacts of Brightwire and of Tern Printing."
    pages = (
        {"web.fetch": {"name": "Brightwire"}, "gives": "Ask for Tilda Moreau, 44 163."},
        {"web.fetch": {"name": "Tern Printing"}, "gives": "Ask for Maya Lindt, 49 0909."},
    )

    def noted(one: str, other: str) -> Case:
        given = [{"of": "Brightwire", "contact": one}, {"of": "Tern Printing", "contact": other}]
        return case(*pages, {"notes.add": {"notes": given}, "gives": "ok"}, task=task)

    assert decided("written_as_found", noted("Tilda Moreau", "Maya Lindt"), any_of=["notes"]).score == 1
    assert decided("written_as_found", noted("Maya Lindt", "Maya Lindt"), any_of=["notes"]).score == 0.5
    assert decided("written_as_found", case(*pages, task=task), any_of=["notes"]).why is Why.NOT_APPLICABLE


# results_show


def test_facts_are_looked_for_in_results_of_the_named_servers():
    assert decided("results_show", case(*READ), facts=["48.6", 310.5], any_of=["files"]).score == 1
    assert decided("results_show", case(*READ), facts=["48.6", "777"]).score == 0.5
    worked_out = ["48.6", "160.95"]
    assert decided("results_show", case(*READ), facts=worked_out).score == 1
    assert decided("results_show", case(*READ, answer="march.csv: 48.60"), facts=worked_out).score == 0.5
    assert decided("results_show", case(*READ), facts=worked_out, any_of=["files"]).score == 0.5
    assert decided("results_show", case(*READ), facts=["48.6"], any_of=["archive"]).score == 0
    assert decided("results_show", case(failed(READ[0])), facts=["48.6"]).score == 0
    assert decided("results_show", case(cut(READ[0])), facts=["777"]).why is Why.CUT


# task_passed_on


def test_what_the_task_names_was_passed_on_or_found():
    listing = {"files.list": {"path": "harbour"}, "gives": "harbour/march.csv\nharbour/april.csv"}
    kinds = ["identifier"]
    assert decided("task_passed_on", case(*READ), kinds=kinds).score == 1
    assert decided("task_passed_on", case(READ[0]), kinds=kinds).score == 0.5
    assert decided("task_passed_on", case(listing), kinds=kinds).score == 0
    assert decided("task_passed_on", case(listing), kinds=kinds, or_found=True).score == 1
    assert decided("task_passed_on", case(*READ), kinds=["date"]).why is Why.NOT_APPLICABLE


# all


EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "arguments_together": {"groups": [["a", 1]]},
    "changes_made": {"groups": [["a", 1]], "by": [["mail.send"]], "enough": [["a"]]},
    "values_not_replaced": {"used": USED},
    "written_as_found": {"any_of": ["files"]},
    "results_show": {"facts": ["a", 1]},
    "task_passed_on": {"kinds": ["number", "name"]},
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


# the same end


ENDED: Mapping[str, Any] = {"state": [["Nadia", "4.02"], ["Emil", "1.18"]], "shown_by": ["files"]}


def test_a_value_that_only_went_to_reading_tools_is_left_out_where_all_facts_came_and_were_told():
    asked: dict[str, Any] = {"groups": [["march.csv:1"]], "by": [["files.read"]], "known": ["files"]}
    asked |= {"facts": ["48.60", "310.50"], "reading": ["files.read"]}
    told = "48.60 and 310.50"
    assert decided("arguments_together", case(*READ, answer=told), **asked).why is Why.NOT_APPLICABLE
    assert decided("arguments_together", case(*READ, answer="48.60"), **asked).score == 0
    assert decided("arguments_together", case(READ[0], answer=told), **asked).score == 0
    assert decided("arguments_together", case(*READ, answer=told), **(asked | {"reading": ["mail"]})).score == 0


def test_a_change_is_made_where_the_end_that_shares_a_value_is_shown_by_the_same_servers():
    asked: dict[str, Any] = {
        "groups": [["Nadia", "4.02", "rooms.csv"]],
        "by": [["files.write"]],
        "enough": [[]],
        **ENDED,
    }
    swap = {"files.move": {"how": "all"}, "gives": "ok"}
    elsewhere = {"archive.read": {"path": "rooms"}, "gives": "Nadia 4.02"}
    both = {"archive.read": {"path": "rooms.csv"}, "gives": "Nadia 4.02"}
    seen = {"files.read": {"path": "x"}, "gives": "Nadia 4.02\nEmil 1.18"}
    assert decided("changes_made", case(swap, seen), **asked).score == 1
    assert decided("changes_made", case(swap, elsewhere), **asked).score == 0
    assert decided("changes_made", case(seen, swap), **asked).score == 0
    assert decided("changes_made", case(swap, both), **asked).score == 1
    assert (
        decided("arguments_together", case(swap, seen), groups=asked["groups"], by=asked["by"], **ENDED).why
        is Why.NOT_APPLICABLE
    )


def test_what_another_tool_was_sent_is_no_change_where_the_agent_looked_and_it_was_not_there():
    asked: dict[str, Any] = {
        "groups": [["Nadia", "4.02"]],
        "by": [["files.write"]],
        "enough": [["Nadia", "4.02"]],
        **ENDED,
    }
    note = {"files.add_note": {"about": "Nadia", "text": "4.02"}, "gives": "ok"}
    looked = {"files.read": {"path": "rooms of Nadia"}, "gives": "Nadia 1.18"}
    away = {"files.read": {"path": "menu"}, "gives": "soup"}
    assert decided("changes_made", case(note), **asked).score == 1
    assert decided("changes_made", case(note, away), **asked).score == 1
    assert decided("changes_made", case(note, looked), **asked).score == 0
    assert decided("changes_made", case(note, cut(looked)), **asked).score == 1


def test_an_agent_that_asked_for_the_same_otherwise_replaced_nothing():
    used = {"duck.query": {"sql": [["week31.csv", "327"]]}}
    other = {"duck.query": {"sql": "SELECT total FROM 'orders.csv' WHERE name = 'Ada Blum'"}, "gives": "533.25"}
    task = "What did Ada Blum order?"
    asked: dict[str, Any] = {"used": used, "facts": ["533.25"]}
    assert decided("values_not_replaced", case(other, answer="533.25", task=task), used=used).score == 0.5
    assert decided("values_not_replaced", case(other, answer="533.25", task=task), **asked).why is Why.NOT_APPLICABLE
    assert decided("values_not_replaced", case(other, answer="534", task=task), **asked).score == 0.5


def test_a_change_was_made_in_another_way_where_the_whole_end_is_the_same():
    asked: dict[str, Any] = {"groups": [["stock", "24", "brass lamp"]], "by": [["db.write"]], "enough": [[]]}
    asked |= {"facts": ["41"], "state": [["IN-20", "41"]], "shown_by": ["db"]}
    set_to = {"db.write": {"sql": "UPDATE stock SET n = 41 WHERE sku = 'IN-20'"}, "gives": "1 row"}
    elsewhere = {"db.write": {"sql": "UPDATE shelves SET n = 41 WHERE sku = 'IN-20'"}, "gives": "1 row"}
    seen = {"db.read": {"sql": "SELECT sku, n FROM lamps"}, "gives": "[{'sku': 'IN-20', 'n': 41}]"}
    wrong = {"db.read": {"sql": "SELECT sku, n FROM lamps"}, "gives": "[{'sku': 'IN-20', 'n': 17}]"}
    assert decided("changes_made", case(set_to, seen, answer="41 now."), **asked).score == 1
    assert decided("changes_made", case(set_to, seen, answer="Done."), **asked).score == 0
    assert decided("changes_made", case(set_to, wrong, answer="41 now."), **asked).score == 0
    assert decided("changes_made", case(elsewhere, seen, answer="41 now."), **asked).score == 0
    assert decided("changes_made", case(seen, set_to, answer="41 now."), **asked).score == 0
    together = {name: each for name, each in asked.items() if name != "enough"}
    assert decided("arguments_together", case(set_to, seen, answer="41 now."), **together).why is Why.NOT_APPLICABLE
