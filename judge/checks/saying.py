"""Whether an answer says anything at all, and which of its words tell what it is about.

Above: answers.py, bearing.py. Below: tools.py, values.py. No checks are here. That an answer is short is no fault of
it: "Yes", "Done" and "42" are answers. What only announces one, promises one or says the task again is none.
"""

from __future__ import annotations

import re

from judge.checks.tools import tokens
from judge.checks.values import values_in
from judge.checks.words import vocabulary

MAX_ANSWER = 20_000
"""Characters that are looked at; an answer of more says something."""
MAX_ANNOUNCING = 400
"""Characters of an answer that may be nothing but an announcement."""
_ANNOUNCING = vocabulary(
    "a about all along analyse analysis analyze and answer answering answers approach as at be before begin below by "
    "can careful carefully certainly course down final first following follows for go going happy have help here "
    "i in into is it let lets look m me my next now of ok okay on one our output plan problem process proceed question "
    "reasoning reply request response result results s see solution solve solving start starting step steps summary "
    "sure task that the then think thinking this thought thoughts through to us we well what will with work working "
    "you your antwort die hier ist la le respuesta réponse voici aquí está"
)
"""Words of which announcements are made."""
_ANNOUNCED = vocabulary(
    "analysis answer answering answers approach following follows output plan process reasoning reply response result "
    "results solution solve step steps summary think thinking thought thoughts antwort respuesta réponse"
)
"""One of them is what is announced."""
_PROMISE = re.compile(
    r"\W{0,8}(?:(?:ok|okay|sure|certainly|yes|of course|first|now|then|next)\b\W{1,4}){0,3}"
    r"(?:(?:i|we)(?:['’]ll| will| shall|['’]m going to| am going to|['’]re going to| are going to"
    r"|['’]m about to| am about to)|let me|let us|let['’]s)\b(?! (?:know|not|never))",
    re.IGNORECASE,
)
_POLITE = vocabulary("sure ok okay certainly yes of course great happy to help gladly no problem hello hi")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_COMMON = vocabulary(
    "about above after again also among another because been before being below between both check could does doing "
    "done during each either else every everything find following from further give gives given have having here "
    "however into just know made make many more most much must need needed needs neither next nothing once "
    "only other over please same shall should show since some something such take takes tell tells than thank thanks "
    "that their them then there these they thing things think this those through under until upon used very "
    "want well were what when where whether which while whole will with within without would write your yours "
    "aber alle alles auch auf bitte dass diese dieser dieses eine einem einen einer haben kann mein nicht oder sein "
    "sich sind wenn werden wird"
)
"""Words of four letters and more that stand in anybody's request or answer and say nothing of what it is about."""
_SHORTEST = 4
_WITHOUT_SPACES = "\u0e00"
"""Thai; nearly all scripts of whole syllables or words stand behind it."""


def says_nothing(answer: str, task: str | None) -> str:
    """Why the answer says nothing, for a note; empty where it says something.

    It says nothing where it has no letter or digit, is the task again, announces what does not follow ("Here is the
    answer:", "Let's think step by step."), or does nothing but promise, without one value, to do something later.
    """
    told = answer.strip()[:MAX_ANSWER]
    words = tokens(told)
    if not words:
        return "the answer has no word" if told else "the answer is empty"
    if task is not None and words == tokens(task[:MAX_ANSWER]):
        return "the answer only repeats the task"
    if len(told) > MAX_ANNOUNCING:
        return ""
    if _ANNOUNCED.intersection(words) and _ANNOUNCING.issuperset(words):
        return "the answer only announces one"
    # "Sure!" may stand before.
    sentences = [each for each in _SENTENCE.split(told) if not _POLITE.issuperset(tokens(each))]
    if sentences and all(map(_PROMISE.match, sentences)) and not values_in(told):
        return "the answer only promises something"
    return ""


def telling(text: str) -> set[str]:
    """Words, case-folded, that say what a text is about: of four letters and more and not common, numbers, and single
    characters of scripts without spaces."""
    words = {word for word in tokens(text) if (len(word) >= _SHORTEST and word not in _COMMON) or word.isdigit()}
    if not text.isascii():
        words.update(character for character in text if character >= _WITHOUT_SPACES and character.isalpha())
    return words
