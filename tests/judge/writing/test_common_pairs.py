"""What good answers agree to give to which subject, and under which word."""

from __future__ import annotations

from judge.case import Case
from judge.scripted import scripted
from judge.writing.common_pairs import common_pairs, common_phrases, labelled_pairs
from judge.writing.common_values import common_facts, written_together
from judge.writing.sources import Source

VIOL = "Who has the key since when, and when was the viol checked?"
RECORD = "Key: Ida Grove, handed over 2025-09-14. Last check: 2026-05-06."
STOPS = "Which files of the stops were edited, and what do they say now?"
DIFF = "abbey.stop shelter: opposite the library\ninfirmary.stop shelter: ambulance bay\nzoo.stop line 4"


def source(task: str, gives: str, answer: str) -> Source:
    steps = [{"files.read": {"path": "a"}, "gives": gives}]
    return Source(Case(scripted({"task": task, "answer": answer, "steps": steps})))


def told(task: str, gives: str, *answers: str) -> list[Source]:
    return [source(task, gives, answer) for answer in answers]


def test_values_without_subjects_are_told_apart_by_the_words_that_the_task_asks_with() -> None:
    sources = told(
        VIOL,
        RECORD,
        "Key: Ida Grove, since 14 September 2025\nLast checked: May 6, 2026",
        "Ida Grove has had the key since 2025-09-14. It was checked last on 2026-05-06.",
    )
    found = dict(labelled_pairs(sources, common_facts(sources)))
    assert found["since"] == "14 September 2025"
    assert found["checked"] == "May 6, 2026"


def test_a_word_that_stands_between_both_values_is_no_label() -> None:
    sources = told(VIOL, RECORD, "2025-09-14 key 2026-05-06", "2025-09-14 key 2026-05-06")
    assert labelled_pairs(sources, common_facts(sources)) == []


def test_words_side_by_side_in_all_answers_and_in_a_result_are_values_too() -> None:
    sources = told(
        STOPS,
        DIFF,
        "I left zoo.stop. abbey.stop is opposite the library now and infirmary.stop at the ambulance bay.",
        "infirmary.stop: ambulance bay; abbey.stop: opposite the library\nI left zoo.stop.",
    )
    assert [value.written for value in common_phrases(sources)] == ["opposite the library", "ambulance bay"]
    pairs = common_pairs(sources, common_facts(sources))
    assert ("abbey.stop", "opposite the library") in pairs
    assert ("infirmary.stop", "ambulance bay") in pairs
    assert not any(subject == "zoo.stop" for subject, _ in pairs)


def test_numbers_told_with_either_sign_are_agreed_on() -> None:
    sources = told("Which are off?", "AB1 -5, CD2 11", "AB1: -5, CD2: +11", "AB1: 5 too few, CD2: 11 too many")
    assert {"5", "11"} <= {value.written for value in common_facts(sources)}
    assert set(common_pairs(sources, common_facts(sources))) == {("AB1", "5"), ("CD2", "11")}


def test_rows_put_down_by_one_call_or_by_several_are_the_same_changes() -> None:
    page = {"files.read": {"path": "a"}, "gives": "AB1 -5, CD2 11"}
    at_once = {"db.write_query": {"query": "INSERT INTO gaps VALUES ('AB1', -5), ('CD2', 11)"}, "gives": "ok"}
    single = [
        {"db.write_query": {"query": f"INSERT INTO gaps VALUES {row}"}, "gives": "ok"}
        for row in ("('CD2', 11)", "('AB1', -5)")
    ]
    sources = [
        Source(Case(scripted({"task": "Enter all into gaps.", "answer": "Done.", "steps": [page, *steps]})))
        for steps in ([at_once], single)
    ]
    for order in (sources, sources[::-1]):
        found = [{value.written for value in group.values} for group in written_together(order)]
        assert {"AB1", "5"} in found
        assert {"CD2", "11"} in found
