"""A gateway as a process whose stdio servers run at a host: `gateway.py FOLDER PORT SOCKET`.

In FOLDER lies its mcp.json; its state goes there too.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import uvicorn

from proxy.app import build
from proxy.hosting.client import HostClient
from proxy.servers.transports import open_transport
from proxy.settings import Settings
from tests.fixtures.running import LOOPBACK


def main(folder: str, port: str, socket: str) -> None:
    here = Path(folder)
    settings = Settings(config=here / "mcp.json", state_dir=here / "state", cache_dir=here / "cache")
    transport = partial(open_transport, host=HostClient(Path(socket)))
    uvicorn.run(build(settings, os.environ, transport=transport).http, host=LOOPBACK, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
