"""`python -m tests.attacks [WORDS]`: every attack, what stopped it, and what it gets without that, as a table.

WORDS keep those whose name holds one of them. Exit code 1 when an attack succeeded, or an ablation did not.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from rich.console import Console
from rich.table import Table

from proxy.errors import SandboxError
from tests.attacks.arena import Arena, arena, embedded_arena, open_path
from tests.attacks.case import Attack, Outcome
from tests.attacks.image import sandbox_image
from tests.attacks.protection import Protection
from tests.attacks.table import ATTACKS, EMBEDDED


async def hardened(image: str, attacks: Sequence[Attack], show: bool) -> dict[str, bool]:
    """By name: whether it was stopped."""
    stopped: dict[str, bool] = {}
    with TemporaryDirectory(prefix="toolatlas-attacks-") as name:
        folder = Path(name)
        open_path(folder)
        async with arena(image, folder) as opened:
            await opened.prepare()
            for attack in attacks:
                outcome = await _outcome(opened, attack)
                stopped[attack.name] = isinstance(outcome, Outcome) and attack.stopped(outcome)
                _progress(
                    attack, "stopped" if stopped[attack.name] else "NOT STOPPED", outcome, show, stopped[attack.name]
                )
            stopped["(the task beside them)"] = await opened.other_is_untouched()
    return stopped


async def on_embedded(attacks: Sequence[Attack], show: bool) -> dict[str, bool]:
    """By name: whether it was stopped."""
    stopped: dict[str, bool] = {}
    with TemporaryDirectory(prefix="toolatlas-attacks-") as name:
        async with embedded_arena(Path(name)) as opened:
            for attack in attacks:
                outcome = await _outcome(opened, attack)
                stopped[attack.name] = isinstance(outcome, Outcome) and attack.stopped(outcome)
                said = "stopped" if stopped[attack.name] else "NOT STOPPED"
                _progress(attack, said, outcome, show, stopped[attack.name])
    return stopped


async def weakened(image: str, attacks: Sequence[Attack], show: bool) -> dict[str, bool]:
    """By name: whether it succeeded without its protection."""
    groups: defaultdict[tuple[Protection, ...], list[Attack]] = defaultdict(list)
    for attack in attacks:
        if attack.removed:
            groups[attack.removed].append(attack)
    won: dict[str, bool] = {}
    for removed, group in groups.items():
        with TemporaryDirectory(prefix="toolatlas-attacks-") as name:
            folder = Path(name)
            open_path(folder)
            async with arena(image, folder, removed) as opened:
                for attack in group:
                    outcome = await _outcome(opened, attack)
                    won[attack.name] = isinstance(outcome, Outcome) and attack.won(outcome)
                    said = "succeeds without it" if won[attack.name] else "DOES NOT SUCCEED WITHOUT IT"
                    _progress(attack, said, outcome, show, won[attack.name])
    return won


async def _outcome(opened: Arena, attack: Attack) -> Outcome | Exception:
    try:
        return await opened.attack(attack)
    except Exception as error:
        # One that broke the arena is a finding, and the others still have to be tried.
        return error


def _progress(attack: Attack, said: str, outcome: Outcome | Exception, show: bool, as_wanted: bool) -> None:
    print(f"{attack.name}: {said}", file=sys.stderr, flush=True)
    if show or not as_wanted:
        print(outcome.said if isinstance(outcome, Outcome) else repr(outcome), file=sys.stderr, flush=True)


def table(attacks: Sequence[Attack], stopped: dict[str, bool], won: dict[str, bool]) -> str:
    rows = Table(title=f"{len(attacks)} attacks")
    for title in ("attack", "tries", "result", "stopped by", "without that"):
        rows.add_column(title, overflow="fold")
    for attack in attacks:
        result = "stopped" if stopped[attack.name] else "NOT STOPPED"
        less = " + ".join(protection.words for protection in attack.removed)
        also = "" if attack.removed in ((), (attack.stopped_by,)) else f" (without: {less})"
        without = ("succeeds" if won[attack.name] else "DOES NOT SUCCEED") + also if attack.removed else attack.reason
        rows.add_row(attack.name, attack.tries, result, attack.stopped_by.words, without)
    console = Console(width=170)
    with console.capture() as captured:
        console.print(rows, markup=False)
    return captured.get()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names; all attacks without")
    parser.add_argument("--show", action="store_true", help="what each attack saw")
    args = parser.parse_args()

    def chosen(every: Sequence[Attack]) -> list[Attack]:
        return [attack for attack in every if not args.words or any(word in attack.name for word in args.words)]

    containers, embedded = chosen(ATTACKS), chosen(EMBEDDED)
    attacks = [*containers, *embedded]
    try:
        image = sandbox_image()
    except SandboxError as error:
        print(f"attacks: {error}", file=sys.stderr)
        return 2
    stopped = anyio.run(hardened, image, containers, args.show) | anyio.run(on_embedded, embedded, args.show)
    won = anyio.run(weakened, image, containers, args.show)
    print(table(attacks, stopped, won))
    bad = [
        name
        for name, good in {**{f"{name} without": good for name, good in won.items()}, **stopped}.items()
        if not good
    ]
    print(
        f"{sum(stopped[attack.name] for attack in attacks)} of {len(attacks)} stopped; "
        f"{sum(won.values())} of {len(won)} "
        f"succeed without what stops them" + (f"; to look at: {', '.join(bad)}" if bad else "")
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
