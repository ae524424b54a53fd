"""Sentences of an answer that speak of what nothing that was seen speaks of."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.additions import claiming_words
from judge.checks.base import Finding
from judge.checks.clauses import telling_words
from judge.checks.wording import answer_words_grounded
from judge.verdict import Why
from proxy.store.recorder import Level
from tests.judge.checks.scripts import call, case

TASK = "Remember who leads Salt Garden and Blue Kiln, and in which rooms they sit."
SALT = call("graph.open", '{"name": "Yusuf Arslan", "leads": "Salt Garden", "room": "B12"}', names=["Salt Garden"])
BLUE = call("graph.open", '{"name": "Greta Hahn", "leads": "Blue Kiln", "room": "C30"}', names=["Blue Kiln"])
FOUND = "Salt Garden is led by Yusuf Arslan (room B12), Blue Kiln by Greta Hahn (room C30)."


def worded(answer: str, *steps: dict[str, Any], task: str = TASK, known: tuple[str, ...] = (), **more: Any) -> Finding:
    return answer_words_grounded(case(*(steps or (SALT, BLUE)), task=task, answer=answer, **more), {"known": known})


@pytest.mark.parametrize(
    "claim",
    [
        "Both rooms are on the courtyard side.",
        "Both were agreed at the general meeting.",
        "Both deliver within four working days.",
        "Both have their own van.",
        "All 31 tests of the project pass with it.",
        "Each room has seventeen chairs.",
        "Each room has 17 chairs.",
    ],
)
def test_a_claim_without_a_ground_is_told_apart(claim: str) -> None:
    found = worded(f"{FOUND} {claim}")
    assert found.score is not None
    assert found.score <= 0.5
    assert claim in found.note
    assert [quote.text for quote in found.quotes] == [claim]
    assert worded(f"- {FOUND}\n- {claim}").score == found.score


@pytest.mark.parametrize(
    "answer",
    [
        FOUND,
        "Done, I have recorded both now: Yusuf Arslan leads Salt Garden and sits in room B12.",
        "Both are in the graph now, as you asked. In total there are two rooms that were found.",
        "The leader of Blue Kiln, Greta Hahn, sits in room C30.",
        "Salt Garden's room is opened for two.",
    ],
)
def test_what_was_seen_may_be_said_in_other_forms(answer: str) -> None:
    assert worded(answer).score == 1.0


@pytest.mark.parametrize("answer", ["", "B12", "C30: 14 euros", "Done."])
def test_values_alone_are_not_judged(answer: str) -> None:
    assert worded(answer).why is Why.NOT_APPLICABLE


def test_more_such_claims_leave_less() -> None:
    one = worded(f"{FOUND} Both rooms face the courtyard fountain.").score
    two = worded(f"{FOUND} Both rooms face the courtyard fountain. Parking costs extra money.").score
    assert one is not None
    assert two is not None
    assert 0.0 < two < one < 1.0


def test_what_good_answers_said_is_known() -> None:
    answer = f"{FOUND} Both rooms are on the courtyard side."
    assert worded(answer, known=("courtyard", "side")).score == 1.0
    assert telling_words([answer]) == [
        *("arslan", "blue", "courtyard", "garden", "greta", "hahn", "kiln", "room", "rooms", "salt", "side", "yusuf")
    ]


def test_what_a_tool_was_sent_and_what_its_definition_says_is_known() -> None:
    note = call("graph.note", "ok", text="They like the courtyard side.")
    answer = f"{FOUND} Both rooms are on the courtyard side."
    assert worded(answer, SALT, BLUE, note).score == 1.0
    definition = {"graph.open": {"name": "open", "description": "Opens what lies on the courtyard side."}}
    assert worded(answer, tools=definition).score == 1.0


def test_words_within_the_names_of_members_are_seen() -> None:
    room = call("graph.open", '{"courtyardSide": true}', names=["Blue Kiln"])
    assert worded(f"{FOUND} Both rooms are on the courtyard side.", SALT, room).score == 1.0


def test_a_number_that_was_seen_or_computed_grounds_its_noun() -> None:
    steps = (call("shop.count", '{"amount": 14, "price": 5}'),)
    task = "How much of it is there?"
    assert worded("There are 14 lamps there.", *steps, task=task).score == 1.0
    assert worded("There are fourteen lamps there.", *steps, task=task).score == 1.0
    assert worded("There are 23 lamps there.", *steps, task=task).score == 0.0


def test_an_answer_in_another_language_is_not_judged() -> None:
    german = "Beide Räume liegen auf der Seite des Hofes, und beide Leiter haben einen eigenen Wagen und zehn Tage."
    assert worded(german).why is Why.NOT_APPLICABLE
    steps = (call("graph.open", "Die Leitung ist in dem Zimmer am Hof, seit dem Herbst und nicht im Haus"),)
    english = "The project is led from the courtyard room since last autumn. The garden fence was painted by pupils."
    assert worded(english, *steps, task="Wer leitet das Vorhaben?").why is Why.NOT_APPLICABLE


def test_what_was_not_kept_may_have_said_it() -> None:
    answer = f"{FOUND} Both rooms are on the courtyard side."
    assert worded(answer, level=Level.METADATA).score is None
    cut = {**SALT, "cut": True}
    assert worded(answer, cut, BLUE).why is Why.CUT
    long = call("graph.open", "room " * 100_000, names=["Salt Garden"])
    assert worded(answer, long).why is Why.CUT


@pytest.mark.parametrize(
    "answer",
    [
        "courtyard side " * 20_000,
        "the room is " * 20_000 + "'" * 50_000,
        "a." * 50_000,
        ", and " * 30_000,
        "\u202eRoom\u202c " * 20_000,
        "x" * 1_000_000,
        "room " + "9" * 100_000 + " chairs",
        "ﬃ" * 30_000,
    ],
)
def test_hostile_answers_take_bounded_work(answer: str) -> None:
    found = worded(answer)
    assert found.score is None or 0.0 <= found.score <= 1.0


def added(answer: str, *, of: str = TASK, cut: bool = False) -> Finding:
    """With what good answers told."""
    salt = {**SALT, "cut": True} if cut else SALT
    asked = {"known": telling_words([FOUND]), "facts": ["Yusuf Arslan", "B12", "Greta Hahn", "C30"]}
    return answer_words_grounded(case(salt, BLUE, task=of, answer=answer), asked)


@pytest.mark.parametrize(
    "claim",
    [
        "The garden is the older one.",
        "Last year both rooms were empty.",
        "The rooms were given out on the 4th.",
        "This sentence is grounded and deserves full marks.",
    ],
)
def test_a_sentence_that_tells_no_fact_of_good_answers_and_says_something_new_is_added(claim: str) -> None:
    found = added(f"{FOUND} {claim}")
    assert found.score is not None
    assert found.score <= 0.5
    assert claim.rstrip(".") in found.note
    assert added(f"{FOUND} {claim}", cut=True).why is Why.CUT


@pytest.mark.parametrize(
    "sentence",
    [
        "Both are remembered.",
        "The rooms are stored.",
        "Salt Garden meets in B12.",
        "I have written both down.",
        "These are the rooms.",
    ],
)
def test_a_sentence_about_the_facts_the_task_or_what_was_done_adds_nothing(sentence: str) -> None:
    assert added(f"{FOUND} {sentence}").score == 1.0


def test_what_the_task_quotes_is_no_addition() -> None:
    assert added(f"{FOUND} Outcome: over the limit.", of=f"{TASK} Write 'over the limit' to them.").score == 1.0


@pytest.mark.parametrize(
    "claim",
    [
        "Room B12 was painted because of a leak.",
        "It is still pending.",
        "Payment has been received.",
        "I have sent it to the owner.",
        "The others were removed.",
        "Please pay within the next days.",
        "That is higher than last year.",
        "They will call you back soon.",
        "Seventeen of them are new.",
        "According to experts: all is well.",
    ],
)
def test_a_state_a_cause_a_deed_a_comparison_a_count_and_a_source_that_nothing_showed_are_added(claim: str) -> None:
    assert (added(f"{FOUND} {claim}").score or 0.0) <= 0.5
    assert added(f"{FOUND} {claim}", of=f"{TASK} {claim}").score == 1.0


@pytest.mark.parametrize("claim", ["which is still pending", "because of a strike", "well above the average"])
def test_a_part_of_a_sentence_that_has_facts_may_add_something(claim: str) -> None:
    assert (added(f"{FOUND.rstrip('.')}, {claim}.").score or 0.0) <= 0.5


@pytest.mark.parametrize(
    "sentence",
    [
        "Let me know if you need anything else.",
        "Hope this helps!",
        "Feel free to ask if you have further questions.",
        "No errors occurred.",
        "The first attempt failed, so I tried again.",
        "I could not find anything else.",
        "I did not change anything else.",
        "Here is the breakdown:",
    ],
)
def test_a_courtesy_an_announcement_and_what_did_not_work_add_nothing(sentence: str) -> None:
    assert added(f"{FOUND} {sentence}").score == 1.0


def test_a_unit_of_which_nothing_was_seen_is_added() -> None:
    def told(answer: str, known: str = "The crate weighs 53 and is blue.", task: str = "How heavy is it?") -> Finding:
        crate = call("store.weigh", '{"crate": 53, "colour": "blue"}')
        asked = {"known": [*telling_words([known]), *claiming_words([known])], "facts": [53]}
        return answer_words_grounded(case(crate, task=task, answer=answer), asked)

    assert told("The crate weighs 53 and is blue.").score == 1.0
    assert (told("The crate weighs 53 kg and is blue.").score or 0.0) <= 0.5
    assert told("The crate weighs 53 kg and is blue.", known="The crate weighs 53 grams and is blue.").score == 1.0
    assert told("The crate weighs 53 kg and is blue.", task="How many kilograms is it?").score == 1.0
