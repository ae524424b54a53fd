"""Checks of which value is told of which name, and sent beside which."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.base import Finding
from judge.checks.binding import answer_binds, arguments_bind
from judge.verdict import Why
from tests.judge.checks.scripts import call, case

TASK = "What time is it in Tokyo and in Paris?"
TOKYO = call("time.now", '{"time": "14:05"}', timezone="Asia/Tokyo")
PARIS = call("time.now", '{"time": "07:05"}', timezone="Europe/Paris")


def bound(answer: str, *steps: dict[str, Any], task: str = TASK) -> Finding:
    return answer_binds(case(*(steps or (TOKYO, PARIS)), task=task, answer=answer), {})


@pytest.mark.parametrize(
    "answer",
    [
        "Tokyo: 14:05, Paris: 7:05",
        "- Tokyo: 14:05\n- Paris: 07:05",
        "It is 14:05 in Tokyo and 7:05 in Paris.",
        "In Tokyo it is 2:05 PM. In Paris it is 7:05 AM.",
        "Tokyo and Paris: 14:05 and 07:05",
        "Tokyo vs. Paris: 14:05 vs. 07:05",
        "| City | Time |\n|---|---|\n| Tokyo | 14:05 |\n| Paris | 07:05 |",
        "Tokyo is 7 hours ahead of Paris: 14:05 against 07:05.",
        "It's 14:05 in Tokyo and in Paris it's 07:05.",
        "Tokyo has 14:05, against 07:05 over there.",
        "14:05 (2:05 PM) for everybody in Tokyo, 07:05 for Paris",
    ],
)
def test_values_told_of_their_own_name_are_right_in_every_usual_order(answer: str) -> None:
    assert bound(answer).score == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "Tokyo: 7:05, Paris: 14:05",
        "- Tokyo: 07:05\n- Paris: 14:05",
        "It is 7:05 in Tokyo and 14:05 in Paris.",
        "In Tokyo it is 7:05 AM. In Paris it is 2:05 PM.",
        "Tokyo and Paris: 07:05 and 14:05",
        "Tokyo vs. Paris: 07:05 vs. 14:05",
        "| City | Time |\n|---|---|\n| Tokyo | 07:05 |\n| Paris | 14:05 |",
        "In Tokyo it is now 07:05.",
    ],
)
def test_a_value_of_another_call_is_named(answer: str) -> None:
    found = bound(answer)
    assert found.score == 0.0
    assert "05" in found.note
    assert "call about" in found.note
    assert found.steps


def test_right_statements_give_part_of_the_score() -> None:
    rome = call("time.now", '{"time": "22:40"}', timezone="Europe/Rome")
    found = bound("Tokyo: 14:05\nParis: 22:40\nRome: 22:40", TOKYO, PARIS, rome, task=f"{TASK} And in Rome?")
    assert found.score == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        ("Tokyo: 7:05", (TOKYO,)),
        ("It is late there.", (TOKYO, PARIS)),
        ("07:05 and 14:05", (TOKYO, PARIS)),
        ("Tokyo: 14:05", (TOKYO, call("time.now", '{"time": "14:05"}', timezone="Europe/Paris"))),
        ("", (TOKYO, PARIS)),
        ("Tokyo: 7:05", (TOKYO, call("time.now", "no 07:05", "tool_error", timezone="Europe/Paris"))),
    ],
)
def test_it_is_not_applicable_where_nothing_is_bound(answer: str, steps: tuple[dict[str, Any], ...]) -> None:
    assert bound(answer, *steps).why is Why.NOT_APPLICABLE


def test_what_was_computed_from_one_result_belongs_to_its_name() -> None:
    task = "Add up stall/week31.csv and stall/week32.csv."
    steps = (
        call("files.read", "flour,82.40\nbutter,133.05\n", path="stall/week31.csv"),
        call("files.read", "flour,79.90\nsugar,28.65\n", path="stall/week32.csv"),
        call("calc.sum", "215.45", expression="82.40 + 133.05"),
        call("calc.sum", "108.55", expression="79.90 + 28.65"),
        call("calc.sum", "324.00", expression="215.45 + 108.55"),
    )
    assert bound("week31.csv: 215.45\nweek32.csv: 108.55\nBoth: 324", *steps, task=task).score == 1.0
    assert bound("week31.csv: 108.55\nweek32.csv: 215.45\nBoth: 324", *steps, task=task).score == 0.0


def test_what_was_looked_up_by_a_name_that_was_found_belongs_to_what_led_to_it() -> None:
    task = "Who leads Harbour Lights, and who Quiet Rails? In which rooms do they sit?"
    steps = (
        call("graph.search", "Wanda Krol leads it", query="Harbour Lights"),
        call("graph.search", "Idris Bello leads it", query="Quiet Rails"),
        call("graph.open", "room 3.14", name="Wanda Krol"),
        call("graph.open", "room 2.07", name="Idris Bello"),
    )
    right = "- Harbour Lights: Wanda Krol, room 3.14\n- Quiet Rails: Idris Bello, room 2.07"
    assert bound(right, *steps, task=task).score == 1.0
    assert bound(right.replace("3.14", "2.07").replace("Wanda Krol, ", ""), *steps, task=task).score == 0.25
    swapped = "- Quiet Rails: Wanda Krol, room 3.14\n- Harbour Lights: Idris Bello, room 2.07"
    assert bound(swapped, *steps, task=task).score == 0.0


def test_a_name_of_two_words_is_one_value_of_a_list() -> None:
    steps = (
        call("graph.search", "Greta Hahn leads it", query="Blue Kiln"),
        call("graph.search", "Yusuf Arslan leads it", query="Salt Garden"),
    )
    task = "Who leads Blue Kiln, and who Salt Garden?"
    right = "Blue Kiln and Salt Garden are led by Greta Hahn and Yusuf Arslan, respectively."
    assert bound(right, *steps, task=task).score == 1.0
    swapped = "Blue Kiln and Salt Garden are led by Yusuf Arslan and Greta Hahn, respectively."
    assert bound(swapped, *steps, task=task).score == 0.0


def test_quoted_words_of_the_task_name_what_only_one_result_has() -> None:
    task = "Who made the commit 'Raise the fee' and who 'Shorten the window'?"
    steps = (
        call("git.show", "Author: Bram Visser\n\n Raise the fee", revision="bc3c2a5"),
        call("git.show", "Author: Aiko Mori\n\n Shorten the window", revision="7be630a"),
    )
    assert bound("'Raise the fee': Bram Visser. 'Shorten the window': Aiko Mori.", *steps, task=task).score == 1.0
    assert bound("'Raise the fee': Aiko Mori. 'Shorten the window': Bram Visser.", *steps, task=task).score == 0.0


def test_what_the_agent_itself_gave_to_another_name_belongs_to_both() -> None:
    task = "Nadia Brook and Emil Stark swap their rooms."
    steps = (
        call("graph.open", "room 1.18", name="Nadia Brook"),
        call("graph.open", "room 4.02", name="Emil Stark"),
        call("graph.set", rooms=[{"name": "Nadia Brook", "room": "4.02"}, {"name": "Emil Stark", "room": "1.18"}]),
    )
    answer = "Nadia Brook has 4.02 and Emil Stark has 1.18 now."
    assert bound(answer, *steps, task=task).why is Why.NOT_APPLICABLE
    assert bound(answer, *steps[:2], task=task).score == 0.0


def test_a_parameter_that_is_an_ordinary_word_is_no_name() -> None:
    steps = (call("files.list", "12 files", sort="name"), call("files.list", "99 files", sort="size"))
    assert (
        bound("The size is 12, the name says 99.", *steps, task="How many files are there?").why is Why.NOT_APPLICABLE
    )


@pytest.mark.parametrize(
    "answer", ["Tokyo 07:05 " * 20_000, "Tokyo\n" * 50_000, "İstanbul Tokyo: 07:05", "Tokyo" * 100_000]
)
def test_hostile_answers_are_judged(answer: str) -> None:
    found = bound(answer)
    assert (found.score is None) != (found.why is None)


def test_many_calls_and_nested_records_are_judged_in_bounded_work() -> None:
    deep: Any = {"name": "Tokyo", "other": "Paris"}
    for _ in range(200):
        deep = {"in": [deep, "Tokyo", "Paris"]}
    steps = [call("time.now", "[" * 5_000, timezone=f"Zone/{place}", more=deep) for place in range(200)]
    assert bound("Zone/7: 07:05", TOKYO, PARIS, *steps).score in (None, 0.0, 1.0)


SUPPLIERS = "Remember Tern Printing (http://x.example/partners/tern) and Aldo & Sons (http://x.example/partners/aldo)."
TERN = call("web.fetch", "Contact: Maya Lindt\nPhone: 0909 8790 211", url="http://x.example/partners/tern")
ALDO = call("web.fetch", "Contact: Remo Aldo\nPhone: 0909 8790 678", url="http://x.example/partners/aldo")


def entity(name: str, phone: str) -> dict[str, Any]:
    return call("graph.create", "created", entities=[{"name": name, "observations": [f"phone: {phone}"]}])


def sent(*steps: dict[str, Any], task: str = SUPPLIERS) -> Finding:
    return arguments_bind(case(*steps, task=task), {})


def test_what_is_sent_for_a_name_comes_from_the_call_about_it() -> None:
    right = (entity("Tern Printing", "0909 8790 211"), entity("Aldo & Sons", "0909 8790 678"))
    assert sent(TERN, ALDO, *right).score == 1.0


def test_what_came_from_the_call_about_another_name_is_named() -> None:
    wrong = (entity("Tern Printing", "0909 8790 678"), entity("Aldo & Sons", "0909 8790 211"))
    found = sent(TERN, ALDO, *wrong)
    assert found.score == 0.25
    assert "'678' was sent for 'tern printing'" in found.note
    assert found.steps == ("s_0000000000000002", "s_0000000000000003")
    one = sent(TERN, ALDO, wrong[0], entity("Aldo & Sons", "0909 8790 678"))
    assert one.score == pytest.approx(0.375)


def test_what_the_task_or_the_agent_brings_is_not_judged() -> None:
    own = (entity("Tern Printing", "0800 5550"), entity("Aldo & Sons", "0800 5551"))
    assert sent(TERN, ALDO, *own).score == 1.0
    both = (entity("Tern Printing", "0909 8790 678"), entity("Aldo & Sons", "0909 8790 678"))
    assert sent(TERN, ALDO, *both, task=f"{SUPPLIERS} Both have 678.").score == 1.0
    assert sent(TERN, task=SUPPLIERS).why is Why.NOT_APPLICABLE


def test_a_file_that_is_named_after_the_content_of_another_is_seen() -> None:
    task = "File inbox/letter_a.txt and inbox/letter_b.txt under their references."
    read = (
        call("files.read", "Reference: HW-7731", path="inbox/letter_a.txt"),
        call("files.read", "Reference: NE-2094", path="inbox/letter_b.txt"),
    )

    def moved(first: str, second: str) -> Finding:
        return sent(
            *read,
            call("files.move", source="inbox/letter_a.txt", destination=f"filed/{first}.txt"),
            call("files.move", source="inbox/letter_b.txt", destination=f"filed/{second}.txt"),
            task=task,
        )

    assert moved("HW-7731", "NE-2094").score == 1.0
    assert moved("NE-2094", "HW-7731").score == 0.25
