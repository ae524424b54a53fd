"""The image of the sandbox, for all tests of attacks."""

from __future__ import annotations

import pytest

from tests.attacks import image


@pytest.fixture(scope="session")
def sandbox_image() -> str:
    return image.sandbox_image()
