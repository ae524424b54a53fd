"""Which episodes are trained on, which say when to stop, and which nothing has looked at.

Above: the loop and evaluation/. Below: duplicates.py. Near duplicates are on one side: episodes of one family, and
those whose tasks are alike. Without a task in the user's words, what was searched for stands in its place.

- `hash`: each set of near duplicates is drawn as one, by a hash of its first episode's id: where it went, it stays with
  more traffic, unless that joins two sets. `folds` turns the sides on, until each set was in a test once.
- `time`: what began last is the test, what began before it validates.
- `servers`: the test are episodes that called held-out servers alone; those that called servers of both sides are on
  none. The rest is split as by hash.

By time and by servers the sides are given: what is held out is dropped where it has a near duplicate among what is
trained on, or, in the test, among what validates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from proxy.router.encoder import Encoder
from trainer.data.duplicates import joined
from trainer.data.settings import SplitSettings
from trainer.rows import Origin, PolicyRow, RankingRow, Split

BOTH = "it calls servers of both sides"
LIKE = "a near duplicate of what is trained on, or validates"
_ROUNDED = 1e-9
"""What a share may lack that is not a binary number."""
_TRAINING, _VALIDATION, _TEST = "training", "validation", "test"


def split(
    rows: Iterable[Origin | RankingRow | PolicyRow], settings: SplitSettings, *, encoder: Encoder | None = None
) -> Split:
    """The sides, each in the order in which its episodes began. Every episode of `rows` is in one, or in `dropped`."""
    return folds(rows, settings, 1, encoder=encoder)[0]


def folds(
    rows: Iterable[Origin | RankingRow | PolicyRow],
    settings: SplitSettings,
    most: int,
    *,
    encoder: Encoder | None = None,
) -> tuple[Split, ...]:
    """The split, and by hash as many more as have tests that share nothing, at most `most` in all, each with what it
    trains on and validates with. By time and by servers the test is given: there is one."""
    origins, texts = _read(rows)
    order = sorted(origins, key=lambda each: (origins[each].began_at, each))
    first = _first_alike(order, origins, texts, settings, encoder)
    if settings.by == "hash":
        turns = int(1 / max(settings.test, 1 / most) + _ROUNDED) if settings.test else 1
        return tuple(
            _sides({each: _drawn(first[each], settings, turn * settings.test) for each in order}, {})
            for turn in range(turns)
        )
    dropped: dict[str, str] = {}
    if settings.by == "time":
        sides = {each: _side((at + 0.5) / len(order), settings) for at, each in enumerate(order)}
    else:
        out = held_out(origins.values(), settings)
        rest = SplitSettings(validation=settings.validation, test=0.0, seed=settings.seed)
        dropped = {each: BOTH for each in order if origins[each].servers & out and origins[each].servers - out}
        sides = {
            each: _TEST if origins[each].servers & out else _drawn(first[each], rest)
            for each in order
            if each not in dropped
        }
    kept: dict[str, str] = {}
    for side in (_VALIDATION, _TRAINING):
        kept |= {first[each]: side for each, its in sides.items() if its == side}
    dropped |= {each: LIKE for each, its in sides.items() if kept.get(first[each], its) != its}
    return (_sides({each: its for each, its in sides.items() if each not in dropped}, dropped),)


def held_out(origins: Iterable[Origin], settings: SplitSettings) -> frozenset[str]:
    """The servers that are held out: those that are named, or a half of those that episodes called."""
    if settings.servers is not None:
        return frozenset(settings.servers)
    called = frozenset(server for each in origins for server in each.servers)
    drawn = sorted(called, key=lambda server: (_fraction(f"{settings.seed} server {server}"), server))
    return frozenset(drawn[: len(drawn) // 2])


def _read(rows: Iterable[Origin | RankingRow | PolicyRow]) -> tuple[dict[str, Origin], dict[str, str]]:
    origins: dict[str, Origin] = {}
    queries: dict[str, list[str]] = {}
    for row in rows:
        origin = row if isinstance(row, Origin) else row.origin
        origins[origin.episode_id] = origin
        if isinstance(row, RankingRow):
            queries.setdefault(origin.episode_id, []).append(row.query.text)
    texts = {each: origin.task or "\n".join(queries.get(each, ())) for each, origin in origins.items()}
    return origins, texts


def _first_alike(
    order: Sequence[str],
    origins: Mapping[str, Origin],
    texts: Mapping[str, str],
    settings: SplitSettings,
    encoder: Encoder | None,
) -> dict[str, str]:
    """Of each episode, the first of its near duplicates, which may be itself."""
    ordered = {each: texts[each] for each in order}
    sets = joined(ordered, alike=settings.alike, encoder=encoder, near=settings.near)
    families: dict[str, str] = {}
    for each in order:
        family = origins[each].family
        if family is not None:
            sets.join(each, families.setdefault(family, each))
    return {each: sets.first(each) for each in order}


def _sides(sides: Mapping[str, str], dropped: Mapping[str, str]) -> Split:
    def of(side: str) -> tuple[str, ...]:
        return tuple(each for each, its in sides.items() if its == side)

    return Split(training=of(_TRAINING), validation=of(_VALIDATION), test=of(_TEST), dropped=dict(dropped))


def _drawn(first: str, settings: SplitSettings, turned: float = 0.0) -> str:
    """By chance that is the same each time. From the end, so that the test stays if the share of validation changes."""
    return _side(1 - (_fraction(f"{settings.seed} episode {first}") + turned) % 1, settings)


def _side(place: float, settings: SplitSettings) -> str:
    if place > 1 - settings.test:
        return _TEST
    return _VALIDATION if place > 1 - settings.test - settings.validation else _TRAINING


def _fraction(text: str) -> float:
    """0 to 1, without 1."""
    return (int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 11) / 2**53
