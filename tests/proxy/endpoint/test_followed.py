"""How much one agent can have the gateway follow for it."""

from __future__ import annotations

import copy
from pathlib import Path

import httpx2
import pytest

from proxy.endpoint.changes import MAX_FOLLOWED
from tests.fixtures.running import entry
from tests.proxy.endpoint.test_http import ACCEPT, serving
from tests.proxy.endpoint.test_token_servers_told import LISTEN, VERSION

pytestmark = pytest.mark.anyio


async def test_a_stream_that_would_follow_too_much_is_refused_before_anything_is_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = copy.deepcopy(LISTEN)
    asked["params"]["notifications"]["resourceSubscriptions"] = [f"x:{n}" for n in range(MAX_FOLLOWED + 1)]
    headers = {**ACCEPT, "mcp-protocol-version": VERSION, "mcp-method": "subscriptions/listen"}
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), httpx2.AsyncClient() as http:
        answer = await http.post(f"{base}/mcp", json=asked, headers=headers, timeout=10)
    assert f"at most {MAX_FOLLOWED}" in answer.text
    assert "subscription to a resource cannot be kept" not in caplog.text
