"""The health check of the daemons with a Unix socket: exit code 0 when somebody listens at the path that is given.

The kernel is asked, not the daemon: that would be one more visitor to check and to log every few seconds.
"""

import sys
from pathlib import Path

LISTENS = 0x10000
"""Among the flags of a socket."""


def main(path: str) -> int:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        columns = line.split(maxsplit=7)
        if columns[7:] == [path] and int(columns[3], 16) & LISTENS:
            return 0
    print(f"nobody listens at {path}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
