"""One small model for all tests of this folder, loaded anew by each that changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer.policy.planted import Maker, fresh, save_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("policies") / "small")


@pytest.fixture(scope="session")
def make(folder: Path) -> Maker:
    return Maker(fresh(folder))
