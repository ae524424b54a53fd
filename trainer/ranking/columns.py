"""The tools that a softmax is over: those of learned servers, all that rows speak of, and a draw of all others.

Above: training.py and the policies. Below: the catalogue and numpy. The whole of a large catalogue takes time and
teaches little: most of its tools are far from any query.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxy.catalog.records import ServerRecord
from proxy.router.documents import tool_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """`m` tools in the order of their names."""

    tools: tuple[str, ...]
    """Written names."""
    places: Mapping[str, int]
    """Written name -> its column."""
    documents: tuple[str, ...]
    """What an encoder reads of each."""
    learned: NDArray[np.bool_]
    """Whose scores are the adapter's, `[m]`."""
    shares: NDArray[np.float32]
    """Of the catalogue that each column stands for, `[m]`, together 1: by these, means and deviations over the columns
    are those over the catalogue. 0 for tools that are columns only because rows speak of them."""


def columns(
    servers: Sequence[ServerRecord], learned: Collection[str], needed: Collection[str], *, others: int, seed: int
) -> Columns:
    """`learned`: configured names of servers. `needed`: written names of tools. `others`: how many are drawn."""
    records = {tool.written: (server, tool) for server in servers for tool in server.tools}
    names = sorted(records)
    own = [name for name in names if records[name][0].name in learned]
    rest = [name for name in names if records[name][0].name not in learned]
    order: list[int] = np.random.default_rng(seed).permutation(len(rest))[:others].tolist()
    drawn = frozenset(rest[place] for place in order)
    chosen = sorted({*own, *drawn, *(name for name in needed if name in records)})
    ours = frozenset(own)
    stands_for = len(rest) / len(drawn) if drawn else 0.0
    counts = [1.0 if name in ours else stands_for if name in drawn else 0.0 for name in chosen]
    return Columns(
        tools=tuple(chosen),
        places={name: place for place, name in enumerate(chosen)},
        documents=tuple(tool_document(*records[name]) for name in chosen),
        learned=np.array([name in ours for name in chosen], dtype=np.bool_),
        shares=np.array(counts, dtype=np.float32) / np.float32(max(sum(counts), 1.0)),
    )
