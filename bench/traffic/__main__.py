"""`python -m bench.traffic --catalog FILE --tasks FILE --episodes N --database URL`: makes simulated traffic.

`--check-rewards --database URL` says instead how far the rewards of `judge run` separate what was simulated as good.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.measure import Missing
from bench.traffic.checking import Separation, separations
from bench.traffic.running import BAD, Made, make_traffic
from proxy.errors import ConfigurationError
from proxy.store.database import read_url, sqlite_path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        labels: Path = args.labels or labels_beside(args.database)
        if args.check_rewards:
            _print_separations(uvloop.run(separations(args.database, labels)))
            return 0
        if args.catalog is None or args.tasks is None:
            parser.error("traffic needs --catalog and --tasks")
        made = uvloop.run(
            make_traffic(
                args.catalog,
                args.tasks,
                args.database,
                episodes=args.episodes,
                seed=args.seed,
                agents=args.agents,
                bad=args.bad,
                router=args.router,
                poison=args.poison,
                stuffed=args.stuffed,
                labels=labels,
                folder=args.keep,
            )
        )
    except (Missing, ConfigurationError, RuntimeError) as error:
        print(f"bench.traffic: {error}", file=sys.stderr)
        return 2
    _print_made(made, labels)
    return 0


def labels_beside(database: str) -> Path:
    """Where the simulator's labels of a log are kept.

    Raises:
        Missing: The log is no file.
    """
    url = read_url(database)
    if url.drivername != "sqlite":
        raise Missing(
            "--labels says where the simulator's own labels are kept; only a SQLite log has a place beside it"
        )
    return Path(f"{sqlite_path(url)}.labels.jsonl")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.traffic", description="Simulated agents work tasks through the real gateway."
    )
    parser.add_argument("--database", required=True, metavar="URL", help="the log: sqlite:///FILE or postgresql://…")
    parser.add_argument("--catalog", type=Path, metavar="FILE", help="JSON lines, one tool a line")
    parser.add_argument("--tasks", type=Path, metavar="FILE", help="JSON lines: text, needed_servers, needed_tools")
    parser.add_argument("--episodes", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all that is left to chance (%(default)s)")
    parser.add_argument("--agents", type=int, default=8, metavar="K", help="credentials; one agent more comes without")
    parser.add_argument("--bad", type=float, default=BAD, metavar="SHARE", help="bad decisions (%(default)s)")
    parser.add_argument("--router", default="fused", help="the gateway's: fused or lexical (%(default)s)")
    parser.add_argument("--poison", type=float, default=0.0, metavar="SHARE", help="episodes by the poisoner")
    parser.add_argument("--stuffed", action="store_true", help="with a server that names all words and praises itself")
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help="what the simulator knows; beside the log if not given"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep state and logs of the gateway there")
    parser.add_argument("--check-rewards", action="store_true", help="only say how far rewards separate good from bad")
    return parser


def _print_made(made: Made, labels: Path) -> None:
    print("simulated traffic:")
    for name, count in made.counts().items():
        print(f"  {name:24} {count:8,}")
    if made.left_out:
        print(f"  {made.left_out} tasks need tools that the catalogue lacks, and were left out")
    print("  processor seconds:", ", ".join(f"{part} {spent:.1f}" for part, spent in made.cpu_s.items()))
    print(
        f"in {made.seconds:.0f} s, {len(made.episodes) / max(made.seconds, 1e-9):.1f} episodes a second; "
        f"labels in {labels}"
    )


def _print_separations(found: Sequence[Separation]) -> None:
    table = Table("rubric", "scope", "good", "bad", "no reward", "mean good", "mean bad", "AUC", title="simulated")
    for each in found:
        numbers = [each.good, each.bad, each.unrewarded]
        figures = ["-" if value is None else f"{value:.3f}" for value in (each.mean_good, each.mean_bad, each.auc)]
        table.add_row(each.rubric, each.scope, *map(str, numbers), *figures)
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
