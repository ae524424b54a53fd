"""`python -m bench.corpus --out FOLDER [--tasks ID…] [--only PART] [--seed N]`: makes the corpus."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.corpus.running import SEED, choose, make
from bench.corpus.split import Part


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus", description="Makes the corpus of the judge.")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="an empty or missing folder")
    parser.add_argument("--tasks", nargs="+", default=(), metavar="ID", help="only these tasks")
    parser.add_argument("--only", choices=[*Part], type=Part, help="leaves out the other parts")
    parser.add_argument("--seed", type=int, default=SEED, help="of everything drawn by chance (%(default)s)")
    args = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        runs = make(args.out, choose(args.tasks, args.only), args.seed)
    except (ValueError, FileExistsError) as error:
        print(f"bench.corpus: {error}", file=sys.stderr)
        return 2
    for kind, count in Counter(run.kind or "good" for run in runs).items():
        print(f"{kind:20} {count:4}")
    print(f"{len(runs)} runs of {len({run.task for run in runs})} tasks in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
