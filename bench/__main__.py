"""`python -m bench NAME [--json OUT]`: measures the product, prints a table, writes the same as JSON.

Each NAME is a module `bench.NAME` with `add_arguments(parser)`, `run(args) -> dict` and `table(result) -> str`. A
result with the key `failed` makes the exit code 1; `Missing` and files that are not there make it 2.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from bench.measure import Missing, machine

BENCHES = {
    "tokens": "what an agent's context pays for the gateway, and for all tools without it",
    "overhead": "latency and processor time that the gateway adds to a call, beside other proxies",
    "cold": "a start with nothing cached: first answer, first search, all listed",
    "search": "how often search_tools finds the tools that a task needs",
    "routing": "how well and how fast routers find the servers and tools of tasks",
    "stubs": "the Python stubs of all tools of a catalogue: valid, exact, and how long",
    "sandbox": "what a run of code costs, and what it saves against calls one by one",
    "store": "what the log costs those who are served, and how fast a large one is read",
    "learn": "what learning from simulated traffic is worth, and the whole way to an adapter that serves",
    "judge": "whether rewards tell good runs from defective ones, and how fast they come",
    "online": "whether a tiny policy gets better by tasks that it works through the live gateway (GRPO)",
    "agent": "turns and tokens of the agent loop in each variant, over published servers",
    "soak": "many agents while servers are killed: no call lost, none mixed up, nothing left behind",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one bench and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures the product.")
    benches = parser.add_subparsers(dest="bench", required=True, metavar="NAME")
    modules: dict[str, ModuleType] = {}
    for name, purpose in BENCHES.items():
        bench = benches.add_parser(name, help=purpose, description=purpose)
        bench.add_argument("--json", type=Path, metavar="OUT", help="also write the result here")
        try:
            modules[name] = importlib.import_module(f"bench.{name}")
        except ModuleNotFoundError as error:
            bench.set_defaults(missing=f"{error.name} is not installed")
        else:
            modules[name].add_arguments(bench)
    args = parser.parse_args(arguments)
    if args.json is not None and not args.json.parent.is_dir():
        parser.error(f"there is no folder {args.json.parent} to write {args.json.name} into")
    try:
        if "missing" in args:
            raise Missing(f"{args.missing}; install the dependency group: pip install --group bench -e .")
        facts = machine()
        result = {"bench": args.bench, **modules[args.bench].run(args), "machine": facts}
    except (Missing, FileNotFoundError) as error:
        print(f"bench {args.bench}: {error}", file=sys.stderr)
        return 2
    print(modules[args.bench].table(result))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if "failed" in result:
        print(f"bench {args.bench}: {result['failed']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # Also when CI ends it, what it started has to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
