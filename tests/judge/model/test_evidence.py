"""What a claim of a model is worth."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model.answers import Claim
from judge.model.evidence import weigh
from judge.model.questions import SYSTEM, Said
from judge.settings import ModelSettings
from judge.verdict import Quote, Verdict, Why
from tests.judge.model.episodes import OSLO, TASK, case, criterion, show

SHOWN = show(case())
READ = '{"datetime": "2026-11-30T14:05:00+01:00"}'
S2 = "s_0000000000000001"


def weighed(verdict: Said, quote: str = "", step: str | None = None, **more: Any) -> Verdict:
    claim = Claim(id="told", verdict=verdict, quote=quote, step=step, searched=more.pop("searched", ()), reason="so")
    return weigh(claim, criterion(**more.pop("of", {})), more.pop("shown", SHOWN))


def test_credit_is_given_for_words_that_stand_in_the_named_step() -> None:
    assert weighed(Said.MET, READ, "s2") == Verdict(
        criterion="told", score=1.0, note="so", steps=(S2,), quotes=(Quote(S2, READ),)
    )
    assert weighed(Said.PARTLY, '"Europe/Oslo"', "s2").score == 0.5
    answer = weighed(Said.MET, "The clock in Oslo shows 14:05", "answer")
    assert (answer.score, answer.steps, answer.quotes[0].step) == (1.0, (), "answer")


@pytest.mark.parametrize(
    "quote",
    [
        "2026-11-30T14:05:00+01:00",
        '  {"datetime":\n"2026-11-30T14:05:00+01:00"} ',
        "“2026-11-30T14:05:00”",
        "… 2026-11-30T14:05:00 ...",
    ],
)
def test_white_space_and_what_models_put_around_a_quote_do_not_matter(quote: str) -> None:
    assert weighed(Said.MET, quote, "s2").score == 1.0


@pytest.mark.parametrize("verdict", [Said.MET, Said.PARTLY])
@pytest.mark.parametrize(
    ("quote", "step"),
    [
        ("", "s2"),
        ("   ", "s2"),
        ("14:05", "s2"),  # too short
        ("2026-11-30t14:05:00", "s2"),  # another case
        ("2026-11-30T15:05:00", "s2"),  # made up
        (READ, "s1"),  # stands elsewhere
        (READ, "answer"),
        (READ, "s3"),  # no such step
        (READ, None),
        (TASK, "s1"),  # the task
        ("The time in Oslo was told.", "answer"),  # the criterion
        (SYSTEM[:60], "s1"),  # our own words
        ("came back:", "s2"),
        pytest.param(f"[data {SHOWN.marker}]", "s2", id="marker"),
        ("s2 (ok)\ndone", "s2"),
    ],
)
def test_credit_without_such_words_is_void(verdict: Said, quote: str, step: str | None) -> None:
    void = weighed(verdict, quote, step)
    assert (void.score, void.why, void.quotes, void.steps) == (None, Why.VOID, (), ())
    assert void.note


def test_the_whole_of_a_short_text_is_enough() -> None:
    shown = show(case(answer="14:05", steps=[{"clock.now": {}, "gives": "14:05"}, {"clock.now": {}, "gives": ""}]))
    assert weighed(Said.MET, "14:05", "answer", shown=shown).score == 1.0
    assert weighed(Said.MET, "14:05", "s1", shown=shown).score == 1.0
    assert weighed(Said.MET, "14:0", "s1", shown=shown).why is Why.VOID
    assert weighed(Said.MET, "...", "s2", shown=shown).why is Why.VOID


def test_an_answer_or_a_call_that_repeats_the_task_earns_nothing_by_it() -> None:
    shown = show(case(answer="What time it is in Oslo: now.", steps=[{"time.ask": {"q": TASK}, "gives": "no idea"}]))
    for quote, step in (("What time it is in Oslo", "answer"), (TASK, "s1")):
        verdict = weighed(Said.MET, quote, step, shown=shown)
        assert (verdict.why, verdict.note) == (Why.VOID, "the quote only repeats the task")


def test_what_a_tool_returned_is_evidence_though_the_task_said_the_same() -> None:
    steps = [{"files.read": {"path": "a.txt"}, "gives": "buy milk and eggs"}]
    shown = show(case(task="Write 'buy milk and eggs' to a.txt", answer="Done.", steps=steps))
    assert weighed(Said.MET, "buy milk and eggs", "s1", shown=shown).score == 1.0


def test_that_a_thing_is_not_so_needs_words_or_where_it_was_looked_for() -> None:
    quoted = weighed(Said.NOT_MET, READ, "s2")
    assert (quoted.score, quoted.steps) == (0.0, (S2,))
    for searched in (("s1",), ("answer",), ("s9", "s2")):
        found = weighed(Said.NOT_MET, "", None, searched=searched)
        assert (found.score, found.steps, found.quotes) == (0.0, (), ())
    for searched in ((), ("s9",), ("s1.1",)):
        assert weighed(Said.NOT_MET, "made up words", "s2", searched=searched).why is Why.VOID


def test_that_an_answer_was_searched_counts_only_where_there_is_one() -> None:
    shown = show(case(answer=None))
    assert weighed(Said.NOT_MET, searched=("answer",), shown=shown).why is Why.VOID


def test_a_mistake_is_not_believed_without_words_and_its_absence_needs_a_search() -> None:
    pitfall: dict[str, Any] = {"of": {"pitfall": True, "text": "It called a tool twice."}}
    assert weighed(Said.MET, READ, "s2", **pitfall).score == 1.0
    assert weighed(Said.MET, "made up words", "s2", **pitfall).why is Why.VOID
    assert weighed(Said.NOT_MET, searched=("s1",), **pitfall).score == 0.0
    assert weighed(Said.NOT_MET, **pitfall).why is Why.VOID


def test_a_model_that_cannot_tell_is_undecided_whatever_it_quotes() -> None:
    assert weighed(Said.CANNOT_TELL, READ, "s2").why is Why.UNDECIDED


def test_what_was_cut_away_cannot_be_quoted_nor_can_the_note_of_the_cut() -> None:
    text = "a" * 300 + " in the middle " + "b" * 300
    steps = [{"web.read": {}, "gives": text}]
    shown = show(case(steps=steps), ModelSettings(observation_chars=200))
    assert "characters left out]" in shown.text
    for quote in (" in the middle ", "characters left out]", "[… 415 characters left out]", text):
        assert weighed(Said.MET, quote, "s1", shown=shown).why is Why.VOID
    assert weighed(Said.MET, "aaaaaaaaaa", "s1", shown=shown).score == 1.0


@given(st.text(max_size=60), st.sampled_from(["s1", "s2", "answer"]), st.sampled_from(list(Said)))
def test_only_what_stands_in_the_step_is_believed(quote: str, step: str, verdict: Said) -> None:
    given_verdict = weighed(verdict, quote, step)
    if given_verdict.score:
        parts = (*SHOWN.done.get(step, ()), *SHOWN.seen.get(step, ()))
        words = quote.split()
        assert any(word in part for part in parts for word in words)
        assert OSLO["task"] not in quote
