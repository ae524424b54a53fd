"""A process that uses a login as a gateway does, beside others that do the same: prints the token it ends up with."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from proxy.servers.configfile import parse
from proxy.servers.logins import LoginStore
from proxy.servers.oauth_tokens import Tokens
from proxy.servers.sealing import Sealer


async def renew(folder: Path, url: str, issuer: str, refused: str) -> str:
    (server,) = parse({"mcpServers": {"srv": {"url": url, "oauth": {"allowed_origins": [issuer]}}}}, {}).servers
    tokens = Tokens(server, LoginStore(folder / "logins", Sealer(folder / "secret.key", {})))
    return await tokens.after_refusal(refused)


if __name__ == "__main__":
    print(anyio.run(renew, Path(sys.argv[1]), *sys.argv[2:]))
