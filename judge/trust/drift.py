"""The gate a judge has to pass before it writes: good enough on the gold set, and no worse than the one before.

Above: running.py, commands/. Below: agreement.py. Pure functions over values; keeping.py stores what was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judge.trust.agreement import Agreement, Measures, Pair, item_tables, kappas, resampled
from proxy.errors import ConfigurationError

FEWEST_SHARED = 10
"""Decided pairs that both judges have; with fewer, their whole agreements are compared instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a judge has to reach.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    least_kappa: float = 0.4
    most_missing: float = 0.3
    """Share of the gold labels on which it gave no verdict."""
    most_loss: float = 0.1
    """Of kappa, against the judge that was accepted last."""
    doubt: float = 0.2
    """Share of the resamples that may show a loss beyond that."""

    def __post_init__(self) -> None:
        for name in ("least_kappa", "most_missing", "most_loss", "doubt"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError(f"{name} of the gate is between 0 and 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Passage:
    """Whether a judge may write judgements."""

    accepted: bool
    why: str
    """One sentence, for people."""


def passage(new: Agreement, last: Agreement | None, gate: Gate | None = None) -> Passage:
    """Whether `new` may take the place of `last`, the agreement of the judge that was accepted last; None where there
    is none.

    Both are measured on the criteria that the gold set labels; where none of them is in the new judge's scope, on its
    rewards. With the pairs of both at hand the loss is that on the trajectories and criteria that both decided, and it
    is resampled: the judge is refused where more than `doubt` of the resamples show a loss beyond `most_loss`, so that
    chance in a small set counts against it. An agreement with another gold set is not compared.
    """
    gate = gate or Gate()
    on, found = _measured(new)
    if not found.pairs:
        return Passage(False, f"{new.judge} gave nothing that the gold set has a label for.")
    missing = found.missing_share or 0.0
    if missing > gate.most_missing:
        return Passage(
            False,
            f"{new.judge} gave no verdict on {missing:.0%} of {found.pairs} gold labels on {on}; "
            f"at most {gate.most_missing:.0%} may be missing.",
        )
    if found.kappa is None:
        return Passage(False, f"The agreement of {new.judge} on {on} has no kappa: {found.undefined['kappa']}.")
    said = f"{new.judge} has a kappa of {found.kappa:.2f} on {on}"
    if found.kappa < gate.least_kappa:
        return Passage(False, f"{said}; at least {gate.least_kappa:.2f} is needed.")
    if last is None:
        return Passage(True, f"{said}; there is no judge to compare it with.")
    if new.gold != last.gold:
        return Passage(True, f"{said}; {last.judge} was measured on another gold set, so they are not compared.")
    return _compared(said, new, last, gate)


def _measured(agreement: Agreement) -> tuple[str, Measures]:
    """What of it is looked at, and its name."""
    return ("criteria", agreement.criteria) if agreement.criteria.pairs else ("rewards", agreement.overall)


def _compared(said: str, new: Agreement, last: Agreement, gate: Gate) -> Passage:
    ours, theirs = _shared(new, last)
    if len(ours) < FEWEST_SHARED:
        return _compared_plainly(said, new, last, gate)
    tables, their_tables = item_tables(ours), item_tables(theirs)
    loss = float(kappas(their_tables.sum(axis=0)) - kappas(tables.sum(axis=0)))
    losses = kappas(resampled(their_tables)) - kappas(resampled(tables))
    known = losses[~np.isnan(losses)]
    if np.isnan(loss) or 2 * len(known) < len(losses):
        return _compared_plainly(said, new, last, gate)
    beyond = float((known > gate.most_loss).mean())
    told = f"{said}; on the {len(ours)} pairs that both decided it is {_by(loss)} {last.judge}"
    if beyond > gate.doubt:
        return Passage(
            False,
            f"{told}, and in {beyond:.0%} of the resamples worse by more than {gate.most_loss:.2f}, "
            f"which {gate.doubt:.0%} may be.",
        )
    return Passage(True, f"{told}.")


def _compared_plainly(said: str, new: Agreement, last: Agreement, gate: Gate) -> Passage:
    (on, ours), (also, theirs) = _measured(new), _measured(last)
    if on != also or ours.kappa is None or theirs.kappa is None:
        return Passage(True, f"{said}; the agreement of {last.judge} cannot be compared with it.")
    loss = theirs.kappa - ours.kappa
    told = f"{said}, which is {_by(loss)} {last.judge}"
    if loss > gate.most_loss:
        return Passage(False, f"{told}; at most {gate.most_loss:.2f} may be lost.")
    return Passage(True, f"{told}.")


def _by(loss: float) -> str:
    if abs(loss) < 0.005:
        return "as good as"
    return f"{abs(loss):.2f} {'worse' if loss > 0 else 'better'} than"


def _shared(new: Agreement, last: Agreement) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """The decided pairs of both, on the same things in the same order."""
    on_criteria = bool(new.criteria.pairs)
    ours, theirs = _decided(new, on_criteria), _decided(last, on_criteria)
    both = [key for key in ours if key in theirs]
    return [ours[key] for key in both], [theirs[key] for key in both]


def _decided(agreement: Agreement, on_criteria: bool) -> Mapping[tuple[str, str | None], Pair]:
    chosen = [pair for pair in agreement.pairs if (pair.criterion is not None) == on_criteria]
    return {(pair.item, pair.criterion): pair for pair in chosen if pair.score is not None}
