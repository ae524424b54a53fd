"""A gateway whose own tasks have crashed ends, instead of living on and answering nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
import uvicorn
from fastapi import FastAPI

from proxy.commands.serve import GatewayServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("crashes", [True, False])
async def test_a_crash_after_the_start_ends_the_process(crashes: bool) -> None:
    started = anyio.Event()

    async def crash() -> None:
        raise RuntimeError("a defect")

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            if crashes:
                tasks.start_soon(crash)
            started.set()
            yield

    server = GatewayServer(uvicorn.Config(FastAPI(lifespan=life), port=0, lifespan="on", log_config=None))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            await started.wait()
            if not crashes:
                server.should_exit = True
    assert server.crashed is crashes
