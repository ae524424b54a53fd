"""How many of a ranking to show: a router that is sure of the first shows no others, which only cost context.

Above: metatools/finding.py. Below: sentences.py. What the thresholds are worth, `python -m bench routing --cut` shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.router.sentences import split_sentences

TEMPERATURES: Mapping[str, float] = {"lexical": 1.5, "fused": 2.0}
"""By policy: the scores of these are sums of standard scores, and at this temperature low entropy was seen to mean that
the first tools are the right ones (docs/decisions/0027). Of other policies nobody has measured that."""
MIN_SENTENCE_WORDS = 3
_SENTENCES = 2
"""From as many on, a query may ask for several things, of which the scores show only the clearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """Up to which entropy, in nats, a router is sure."""

    one: float = 0.4
    """Then the first tool is shown alone."""
    two: float = 1.0
    """Then the first two."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How many to show, and why."""

    count: int
    entropy: float | None
    """Of the softmax over the candidates' scores, in nats; None without candidates."""
    sure: bool


def cut(scores: Sequence[float], policy: str, text: str, asked: int | None, usual: int, certainty: Certainty) -> Cut:
    """`scores` of all candidates, best first, as `policy` ranked them for the query `text`. `asked`: how many the agent
    wants at most; without that, at most `usual`, and fewer where the router is sure."""
    entropy = _entropy(scores, TEMPERATURES.get(policy, 1.0))
    most = min(len(scores), usual if asked is None else asked)
    sure = policy in TEMPERATURES and entropy is not None and entropy <= certainty.two and not _several(text)
    if asked is not None or not sure:
        # Who says how many has a reason: not to be told the first one again, for instance.
        return Cut(most, entropy, sure)
    return Cut(min(most, 1 if entropy is not None and entropy <= certainty.one else 2), entropy, sure)


def _entropy(scores: Sequence[float], temperature: float) -> float | None:
    if not scores:
        return None
    best = max(scores)
    weights = [math.exp((score - best) / temperature) for score in scores]
    total = math.fsum(weights)
    return max(0.0, math.log(total) - math.fsum(w * math.log(w) for w in weights if w > 0) / total)


def _several(text: str) -> bool:
    """Whether it has several sentences that say something."""
    return sum(len(sentence.split()) >= MIN_SENTENCE_WORDS for sentence in split_sentences(text)) >= _SENTENCES
