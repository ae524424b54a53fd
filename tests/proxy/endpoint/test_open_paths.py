"""What an address of the gateway answers to everybody is known, and no page of it takes anything from another site."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.proxy.endpoint.test_http import serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect"])
async def test_there_are_no_pages_of_a_framework(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path, {}) as (base, _, _), httpx2.AsyncClient() as http:
        assert (await http.get(base + path)).status_code == 404
