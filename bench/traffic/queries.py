"""What agents search for: one part of a task in words of its plan, without the names of what they have not found yet.

Above: agents.py. Below: tasks.py. A plan is what a good agent would have thought of: where a file has none, the task's
own sentences stand for it. Words are dropped and exchanged by chance, so that no two agents ask the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from random import Random

from bench.traffic.tasks import WorkTask, vocabulary
from bench.traffic.worlds import topic_of

MOST_WORDS = 24
LEAST_WORDS = 3
DROPPED, EXCHANGED = 0.12, 0.08
"""Share of words that are left out, and of neighbours that change places."""
OWN_WORDS = 0.35
"""Share of queries in the words of the user and not of the plan."""
FEW_WORDS, ADDED = 4, 3
"""A query that tells less gets so many words of the task beside it."""
NAMED = 1.5
"""What it counts that a sentence of the plan names the tool, in shared words."""
NEAR = 2
"""Sentences that a query for one need is made of one of."""
_ENDS = re.compile(r"(?<=[.!?;])\s+|\n+|\s[•\-\u2013]\s|\s→\s")
_NUMBERED = re.compile(r"^\s*(?:\d+[.)]|[a-z][.)]|step \d+[^:]*:|[•*-])\s*", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\b\w+(?:[._/]\w+)*_\w+\b(?:\([^)]*\))?|\b[a-z]+[A-Z]\w*\b(?:\([^)]*\))?|\b\w+=\S+")
_CALLING = re.compile(r"\b(?:call|invoke|use|using|via|calling|calls|feeds?|run)\b", re.IGNORECASE)
_SIGNS = re.compile(r"[→()\[\]{}<>=\"“”`]|(?<=\s)[,.;:/]+(?=\s|$)")
_ABOUT_PLANS = re.compile(
    r"\b(?:workflow|sequential\w*|parallel|branch\w*|dependenc\w+|chains?|decision|cross-|step \d|tools?|servers?)\b",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W\d_]{3,}")
_COMMON = vocabulary(
    "the and for with this that from into each any all use using call calls then them their your you are can "
    "which have has get list tool tools need specific numbers evidence generalizations data based return returns "
    "returned step output input results result"
)


class Queries:
    """The queries of one task. Pure: the same chance gives the same words."""

    def __init__(self, task: WorkTask, descriptions: Sequence[str]) -> None:
        """`descriptions`: of each need, in order, as the catalogue has them; by them an agent's idea of what it needs
        next is told apart from its other ideas."""
        self._task = task
        self._descriptions = descriptions
        names = {name for need in task.needs for name in need}
        self._names = re.compile(
            "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names, key=len, reverse=True)), re.IGNORECASE
        )

    def of_need(self, place: int, chance: Random) -> str:
        """For the need at that place."""
        tool = self._task.needs[place][1]
        wanted = _telling([tool.replace("_", " ").replace("-", " "), self._descriptions[place]])
        own = chance.random() < OWN_WORDS
        near = self._nearest(self._of_task if own else self._of_plans, tool, wanted)
        near = near or self._nearest([*self._of_task, *self._of_plans], tool, wanted) or [self._task.text]
        chosen = _window(chance.choice(near), wanted)
        said = _telling([chosen])
        if len(said) < FEW_WORDS:
            # Who asks for hours says of what.
            more = [
                word for word in self._words if word.lower().removesuffix("s") in wanted - said
            ] or self.topic.split()
            chosen = f"{chosen} {' '.join(more[:ADDED])}"
        return self._reworded(chosen, chance)

    def _nearest(self, sentences: Sequence[tuple[str, str]], tool: str, wanted: frozenset[str]) -> list[str]:
        """Those that speak of the need, at most `NEAR`."""
        told = [(_fits(plain, wanted) + (NAMED if tool in raw else 0.0), plain) for raw, plain in sentences]
        told.sort(key=lambda each: -each[0])
        return [plain for score, plain in told[:NEAR] if score > 0 and score >= told[0][0] / 2]

    def vague(self, chance: Random) -> str:
        """A few words that could mean much."""
        words = [word for word in _WORDS.findall(self._plain(self._task.text)) if word.lower() not in _COMMON]
        start = chance.randrange(max(1, len(words) - 3))
        return chance.choice(("help with {}", "{}", "tool for {}")).format(" ".join(words[start : start + 2])) or "help"

    def whole(self) -> str:
        """The user's own words, as an agent passes them on that does not think first."""
        return self._task.text

    @cached_property
    def _of_plans(self) -> list[tuple[str, str]]:
        """Sentences as they are, and without names; those that speak of the plan itself are left out."""
        found = self._said(self._task.plans)
        return [(raw, plain) for raw, plain in found if not _ABOUT_PLANS.search(plain)]

    @cached_property
    def _of_task(self) -> list[tuple[str, str]]:
        return self._said([self._task.text]) or [(self._task.text, self._task.text)]

    @cached_property
    def _words(self) -> list[str]:
        """The different words of plan and task that tell something."""
        texts = [plain for _, plain in (*self._of_task, *self._of_plans)]
        words = (word for text in texts for word in _WORDS.findall(text) if word.lower() not in _COMMON)
        return list({word.lower(): word.lower() for word in words})

    @cached_property
    def topic(self) -> str:
        """What the task is about, for one that names nothing."""
        return topic_of(self._task.text)

    def _said(self, texts: Iterable[str]) -> list[tuple[str, str]]:
        found = [(each, self._plain(each)) for text in texts for each in _ENDS.split(text)]
        return [(raw, plain) for raw, plain in found if len(_WORDS.findall(plain)) >= LEAST_WORDS]

    def _plain(self, sentence: str) -> str:
        """Without numbering, names of servers and tools, and identifiers."""
        text = _IDENTIFIER.sub(" ", self._names.sub(" ", _NUMBERED.sub("", sentence)))
        text = _SIGNS.sub(" ", _CALLING.sub(" ", text))
        return " ".join(text.split()).strip(" ,;:.-")

    def _reworded(self, text: str, chance: Random) -> str:
        words = text.split()
        kept = [word for word in words if len(words) <= LEAST_WORDS or chance.random() >= DROPPED]
        for place in range(len(kept) - 1):
            if chance.random() < EXCHANGED:
                kept[place], kept[place + 1] = kept[place + 1], kept[place]
        return " ".join(kept or words)


def _window(text: str, wanted: frozenset[str]) -> str:
    """The stretch of `MOST_WORDS` words that says most of what is wanted."""
    words = text.split()
    if len(words) <= MOST_WORDS:
        return text
    starts = range(len(words) - MOST_WORDS + 1)
    best = max(starts, key=lambda start: (_fits(" ".join(words[start : start + MOST_WORDS]), wanted), -start))
    return " ".join(words[best : best + MOST_WORDS])


def _fits(text: str, wanted: frozenset[str]) -> float:
    said = _telling([text])
    return len(said & wanted) / (len(wanted) ** 0.5 or 1.0)


def _telling(texts: Iterable[str]) -> frozenset[str]:
    words = (word.lower() for text in texts for word in _WORDS.findall(text[:400]))
    return frozenset(word.removesuffix("s") for word in words if word not in _COMMON)
