"""What of a change is needed whichever tool makes it, and for what another tool is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge.case import Case
from judge.rubric import Criterion
from judge.scripted import scripted
from judge.writing.common_values import passed_values, written_together
from judge.writing.of_task import of_task
from judge.writing.sources import Source

CARRIED = "Note the phone of Brightwire."
CHANGED = "Set timeout_s to 45 and tell me what it was."


def source(task: str, *steps: Mapping[str, Any], answer: str) -> Source:
    return Source(Case(scripted({"task": task, "answer": answer, "steps": list(steps)})))


def carried() -> Source:
    page = {"pages.fetch": {"page": "suppliers"}, "gives": "Brightwire, supplier, phone 960118"}
    note = {"notes.add": {"name": "Brightwire", "type": "supplier", "phone": "960118"}, "gives": "ok"}
    return source(CARRIED, page, note, answer="The phone 960118 is noted.")


def changed() -> Source:
    read = {"files.read": {"path": "agent.ini"}, "gives": "timeout_s = 12, tries = 2"}
    edit = {"files.edit": {"old": "timeout_s = 12", "new": "timeout_s = 45", "times": 2}, "gives": "ok"}
    mark = {"git.commit": {"title": "timeout_s", "value": 45}, "gives": "ok"}
    return source(CHANGED, read, edit, mark, answer="It was 12.")


def enough(of: Source) -> list[list[str]]:
    return [[value.written for value in group.enough] for group in written_together([of, of])]


def criterion(of: Source, id: str) -> Criterion:
    return next(each for each in of_task([of, of]) if each.id == id)


def test_what_results_gave_is_needed_unless_the_task_says_what_is_to_be_there():
    assert enough(carried()) == [["Brightwire", "960118"]]
    assert enough(changed())[0] == ["timeout_s", "45"]


def test_small_numbers_that_the_task_does_not_give_are_asked_of_nobody():
    single = [value.written for group in passed_values([changed(), changed()]) for value in group.values]
    assert "2" not in single
    assert {"12", "45"} <= set(single)


def test_another_tool_is_allowed_for_what_the_tool_in_its_place_was_sent():
    assert criterion(carried(), "kept-to").parameters["sent"] == [["Brightwire", "960118"]]
    tools = criterion(carried(), "tools").parameters
    sent = dict(zip(map(tuple, tools["each_of"]), tools["sent"], strict=True))
    assert sent == {("pages.fetch",): [], ("notes.add",): [["Brightwire", "960118"]]}


def test_ways_are_complete_where_sources_went_different_ones_to_the_same_change():
    page = {"pages.open": {"at": "suppliers"}, "gives": "Brightwire, supplier, phone 960118"}
    note = {"notes.add": {"name": "Brightwire", "type": "supplier", "phone": "960118"}, "gives": "ok"}
    other = source(CARRIED, page, note, answer="The phone 960118 is noted.")
    found = {each.id: each.parameters for each in of_task([carried(), other])}
    assert found["tools"]["complete"] is True
    assert found["kept-to"]["complete"] is True
    assert found["kept-to"]["sent"] == [["Brightwire", "960118"]]
    assert all("complete" not in each.parameters for each in of_task([carried(), carried()]))
    reading = source(CARRIED, page, answer="The phone 960118 is noted.")
    assert all("complete" not in each.parameters for each in of_task([carried(), reading]))


def test_a_look_around_is_no_other_way():
    looking = {"pages.list": {"at": "/"}, "gives": "suppliers"}
    page = {"pages.fetch": {"page": "suppliers"}, "gives": "Brightwire, supplier, phone 960118"}
    note = {"notes.add": {"name": "Brightwire", "type": "supplier", "phone": "960118"}, "gives": "ok"}
    other = source(CARRIED, looking, page, note, answer="The phone 960118 is noted.")
    assert all("complete" not in each.parameters for each in of_task([carried(), other]))


def test_words_of_good_answers_are_known():
    other = source(CARRIED, answer="The telephone of Brightwire is on file: 960118.")
    words = next(each for each in of_task([carried(), other]) if each.check == "answer_words_grounded")
    assert "telephone" in words.parameters["known"]
