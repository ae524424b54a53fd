"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from functools import cache

import pytest

from proxy.errors import SandboxError
from proxy.sandbox.docker_client import open_engine


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_configure() -> None:
    """Gateways that tests start as processes run no code, unless a test wants that: it would start containers. They
    rank by words alone: a model takes seconds to load. They leave no order to chance."""
    os.environ["TOOLATLAS_SANDBOX"] = "off"
    os.environ["TOOLATLAS_EXPLORE"] = "0"
    os.environ["TOOLATLAS_ROUTER"] = "lexical"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `docker` are skipped where no Docker engine answers, except in CI, where that is a failure."""
    if item.get_closest_marker("docker") and (problem := _no_engine()):
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)


@cache
def _no_engine() -> str:
    """Why there is none; empty where there is one."""
    try:
        open_engine(os.environ, timeout_s=10).close()
    except SandboxError as error:
        return f"containers cannot be tried: {error}"
    return ""
