"""Of examples that hardly count, fewer, which count more: what they teach together is the same.

Above: training.py. Below: examples.py. Pure. Caps (data/caps.py) hold an agent with much traffic by making each of its
rows light. Thousands of light examples among few heavy ones would make updates of next to nothing and bring made-up
queries along, which are as many as a share of the examples: the others would then be trained on less than without it.

An example of weight w below f, a quarter of the typical weight Σw² / Σw, is kept with probability w / f, and then
weighs f: its expected weight stays (Horvitz and Thompson 1952, "A generalization of sampling without replacement
from a finite universe"; Russian roulette, in Monte Carlo methods).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from trainer.ranking.examples import Example

LIGHT = 0.25
"""Of the typical weight; what weighs less is thinned out."""


def thinned(examples: Sequence[Example], seed: int) -> list[Example]:
    """Those that are kept, in their order; the same for the same arguments."""
    weights = [each.weight for each in examples]
    whole = math.fsum(weights)
    if not whole:
        return []
    light = LIGHT * math.fsum(weight * weight for weight in weights) / whole
    drawn = np.random.default_rng(seed).random(len(weights)).tolist()
    return [
        each if each.weight >= light else _heavier(each, light / each.weight)
        for each, chance in zip(examples, drawn, strict=True)
        if each.weight >= light or chance * light < each.weight
    ]


def _heavier(example: Example, factor: float) -> Example:
    def times(weights: Mapping[str, float]) -> dict[str, float]:
        return {tool: weight * factor for tool, weight in weights.items()}

    return replace(example, weight=example.weight * factor, right=times(example.right), wrong=times(example.wrong))
