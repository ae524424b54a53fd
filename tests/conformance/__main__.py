"""`python -m tests.conformance`: prints the suite's results, direct against through the gateway.

The exit code is 0 when both revisions pass both ways, else 1, with what is missing through the gateway.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.conformance.comparison import compare, gaps, table
from tests.conformance.suite import REVISIONS
from tests.fixtures.served import served


def main() -> int:
    """Runs everything and returns the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(folder) as both:
            comparisons = [compare(both, revision, folder) for revision in REVISIONS]
    print(table(comparisons))
    missing = [f"{each.revision} {line}" for each in comparisons for line in gaps(each)]
    for line in missing:
        print(line, file=sys.stderr)
    failed = any(each.direct.exit_code or each.gateway.exit_code for each in comparisons)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
