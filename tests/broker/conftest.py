"""The engine and the image of the sandbox's tests."""

from __future__ import annotations

from tests.sandbox.conftest import engine, image

__all__ = ["engine", "image"]
