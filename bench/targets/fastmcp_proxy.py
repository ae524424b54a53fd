"""FastMCP's own proxy as its documentation shows it, for comparison.

`python -m bench.targets.fastmcp_proxy PORT URL` or `... PORT COMMAND ARGUMENT...`; listens at /mcp.
"""

from __future__ import annotations

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


def main() -> None:
    port, *target = sys.argv[1:]
    behind = target[0] if len(target) == 1 else StdioTransport(target[0], target[1:])
    create_proxy(behind, name="proxy").run(
        transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="ERROR"
    )


if __name__ == "__main__":
    main()
