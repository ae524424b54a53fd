"""Checks of whether what was said and done has anything to do with the task.

Above: library.py, the default rubric. Below: evidence.py, saying.py, tools.py. A word in common proves little, but its
lack says much: work with tools of another subject, and answers for any occasion, have none. Whether an answer says
anything at all is for `answer_given`, whether its values are right for `answer_grounded`.
"""

from __future__ import annotations

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, unmet
from judge.checks.once import once_a_case
from judge.checks.saying import says_nothing, telling
from judge.checks.tools import succeeded, texts, tokens, words_of
from judge.rubric import Need
from judge.verdict import Why

MAX_TEXT = 20_000
"""Characters of a task, an argument list, a result or an answer that are looked at."""
_ENGLISH = frozenset(
    {"the", "of", "to", "and", "in", "for", "is", "what", "how", "which", "with", "me", "my", "from", "on", "are"}
)
"""Tools are described in English, mostly: a task in another language may share no word with fitting ones."""


@check("answer_to_the_point", needs=(Need.ANSWER,))
def answer_to_the_point(case: Case) -> Finding:
    """The answer shares a word that is not a common one, or a number, with the task, with what was sent to tools, or
    with what they answered. Not so of one that says nothing, as `answer_given` has it. Not applicable to an answer of
    short or common words alone, such as "No", or of numbers alone."""
    answer = case.answer or ""
    if nothing := says_nothing(answer, case.task):
        return unmet(nothing)
    said = telling(answer[:MAX_TEXT])
    if not said:
        return missing(Why.NOT_APPLICABLE, "the answer has no word that would tell what it is about")
    if said & telling((case.task or "")[:MAX_TEXT]) or any(said & _words_about(case)[act.id] for act in case.acts):
        return met()
    if all(word.isdigit() for word in said):
        return missing(Why.NOT_APPLICABLE, "the answer is a number, which tells nothing of what it is about")
    if any(case.cut(act.step) or len(case.text(act.step)) > MAX_TEXT for act in case.acts):
        return missing(Why.CUT, "what the answer speaks of may stand in what was not kept")
    return unmet("the answer has no word in common with the task, the calls or their results")


@check("worked_on_task", needs=(Need.TASK,))
def worked_on_task(case: Case) -> Finding:
    """A call that succeeded had to do with the task: its tool's name, what it was sent or what it answered shares a
    word that is not a common one with the task. Not applicable to a task that is not in English, or that
    has no such word."""
    task = (case.task or "")[:MAX_TEXT]
    # Numbers prove nothing here: a date has the year, a list the 3.
    asked = {word for word in telling(task) if not word.isdigit()}
    if not asked or len(_ENGLISH.intersection(tokens(task))) < 2:
        return missing(Why.NOT_APPLICABLE, "the task has no words that could be looked for")
    done = [act for act in case.acts if succeeded(case, act)]
    about = [act for act in done if _shares(asked, _words_about(case)[act.id])]
    if about:
        return met(acts=about)
    if any(case.cut(act.step) or len(case.text(act.step)) > MAX_TEXT for act in done):
        return missing(Why.CUT, "what the task speaks of may stand in a part of a result that was not kept")
    return unmet("no call that succeeded had a word in common with the task", acts=done)


def _shares(asked: set[str], given: set[str]) -> bool:
    """Whether there is a word in both, one of them perhaps in the plural."""
    return not asked.isdisjoint(given) or any(f"{word}s" in asked or word.removesuffix("s") in asked for word in given)


@once_a_case
def _words_about(case: Case) -> dict[str, set[str]]:
    """The telling words of each call, by its step."""
    return {act.id: _words(case, act) for act in case.acts}


def _words(case: Case, act: Act) -> set[str]:
    sent = " ".join((*words_of(act.server), *words_of(act.tool), *texts(act.arguments)))
    return telling(sent[:MAX_TEXT]) | telling(case.text(act.step)[:MAX_TEXT])
