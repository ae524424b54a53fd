"""Adapters on disk and on an encoder: what is refused, and that the encoder stays beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind, load_adapter, save_adapter
from proxy.router.base import Query
from proxy.router.documents import RENDERING, all_documents, tool_document
from proxy.router.embeddings import EmbeddingCache, missing
from proxy.router.encoder import TransformersEncoder, load_encoder
from proxy.router.fusion import FusedRouter
from tests.proxy.router.encoders import WordEncoder, server, tiny_bert

pytest.importorskip("peft")
# peft asks transformers for something under its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")

FILES = server("files", {"read": "read a file of the disk", "write": "write a file"})
WEATHER = server("weather", {"forecast": "the forecast of rain for a city", "now": "the weather of a city"})
BOTH = [FILES, WEATHER]


def head_at(folder: Path, base: WordEncoder, servers: list[str], scale: float = 0.2) -> Adapter:
    head = np.random.default_rng(3).standard_normal((base.width, base.width), dtype=np.float32) * np.float32(scale)
    return save_adapter(folder, base_hash=base.hash, servers=servers, head=head, facts={"decisions": 12})


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TransformersEncoder:
    return load_encoder(str(tiny_bert(tmp_path_factory.mktemp("models") / "tiny")))


def lora_at(
    folder: Path, base: TransformersEncoder, servers: list[str], *, changes: bool = True, **more: Any
) -> Adapter:
    import copy

    import peft
    import torch

    config = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=not changes)
    torch.manual_seed(1)
    model: Any = peft.get_peft_model(copy.deepcopy(base.model), config)
    return save_adapter(folder, base_hash=base.hash, servers=servers, lora=model, **more)


def scores(router: FusedRouter, text: str) -> dict[str, float]:
    return {found.tool: round(found.score, 4) for found in router.rank(Query(text), 9)}


def test_an_adapter_is_read_as_it_was_written(tmp_path: Path) -> None:
    base = WordEncoder()
    written = head_at(tmp_path / "deep" / "head", base, ["weather", "files", "weather"])
    assert load_adapter(tmp_path / "deep" / "head") == written
    assert (written.kind, written.servers) == (Kind.HEAD, {"weather", "files"})
    assert written.facts == {"decisions": 12}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["head"]
    with pytest.raises(FileExistsError):
        head_at(tmp_path / "deep" / "head", base, [])
    with pytest.raises(ValueError, match="a head or a LoRA"):
        save_adapter(tmp_path / "none", base_hash="", servers=[])
    assert not (tmp_path / "none").exists()


def test_two_adapters_that_differ_in_anything_have_two_hashes(tmp_path: Path) -> None:
    base = WordEncoder()
    adapters = [
        head_at(tmp_path / "a", base, ["weather"]),
        head_at(tmp_path / "b", base, ["files"]),
        head_at(tmp_path / "c", base, ["files"], scale=0.1),
    ]
    assert len({adapter.hash for adapter in adapters}) == 3


def _rewritten(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def _flipped(folder: Path) -> None:
    path = folder / "head.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_flipped, "is damaged"),
        (_rewritten(servers=["files", "weather", "more"]), "is damaged"),
        (_rewritten(format=2), "has format 2"),
        (_rewritten(kind="magic"), "no adapter"),
        (_rewritten(servers=[1]), "no adapter"),
        (_rewritten(servers=None), "no adapter"),
        (lambda folder: (folder / "manifest.json").write_text("[" * 100_000), "no adapter"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "no adapter"),
        (lambda folder: (folder / "manifest.json").unlink(), "no adapter"),
        (lambda folder: (folder / "head.safetensors").unlink(), "no adapter"),
    ],
)
def test_what_is_no_sound_adapter_is_refused(damage: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    head_at(tmp_path / "head", WordEncoder(), ["files"])
    damage(tmp_path / "head")
    with pytest.raises(ConfigurationError, match=said):
        load_adapter(tmp_path / "head")


def test_a_head_of_numbers_that_are_none_is_refused(tmp_path: Path) -> None:
    head = np.full((4, 4), np.nan, dtype=np.float32)
    with pytest.raises(ConfigurationError, match="finite"):
        save_adapter(tmp_path / "head", base_hash="", servers=[], head=head)


def test_an_adapter_of_another_encoder_of_other_texts_or_of_a_language_model_is_refused(
    tmp_path: Path, tiny: TransformersEncoder
) -> None:
    base, cache = WordEncoder(), EmbeddingCache(None)
    adapter = head_at(tmp_path / "head", base, ["files"])
    with pytest.raises(ConfigurationError, match="another encoder"):
        FusedRouter(BOTH, WordEncoder("other"), cache, adapter)
    earlier = f"{RENDERING}-earlier"
    of_others = save_adapter(tmp_path / "old", base_hash=base.hash, servers=[], head=adapter.head, rendering=earlier)
    with pytest.raises(ConfigurationError, match="other texts"):
        FusedRouter(BOTH, base, cache, of_others)
    scorer = lora_at(tmp_path / "scorer", tiny, ["files"], kind=Kind.SCORER)
    assert load_adapter(tmp_path / "scorer") == scorer
    with pytest.raises(ConfigurationError, match="is for a language model"):
        FusedRouter(BOTH, tiny, cache, scorer)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "a head or a LoRA"),
        ({"head": np.eye(2), "lora": object()}, "a head or a LoRA"),
        ({"head": np.eye(2), "kind": Kind.SCORER}, "not of the kind scorer"),
        ({"lora": object(), "kind": Kind.HEAD}, "not of the kind head"),
    ],
)
def test_what_is_no_adapter_of_that_kind_is_not_written(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        save_adapter(tmp_path / "adapter", base_hash="b", servers=[], **given)
    assert list(tmp_path.iterdir()) == []


def test_a_head_of_another_width_is_refused(tmp_path: Path) -> None:
    wide, narrow = WordEncoder(width=64), WordEncoder(width=32)
    adapter = head_at(tmp_path / "head", wide, ["files"])
    with pytest.raises(ConfigurationError, match="vectors have 32"):
        adapter.check(narrow)


def test_a_head_of_zeros_changes_nothing(tmp_path: Path) -> None:
    base, cache = WordEncoder(), EmbeddingCache(None)
    adapter = save_adapter(
        tmp_path / "head", base_hash=base.hash, servers=["files", "weather"], head=np.zeros((64, 64), np.float32)
    )
    router = FusedRouter(BOTH, base, cache, adapter)
    assert router.adapter == adapter.hash
    assert scores(router, "rain") == pytest.approx(scores(FusedRouter(BOTH, base, cache), "rain"), abs=1e-3)


def test_a_head_moves_scores_and_no_document_is_embedded_for_it(tmp_path: Path) -> None:
    base, cache = WordEncoder(), EmbeddingCache(None)
    plain = scores(FusedRouter(BOTH, base, cache), "rain in a city")
    adapter = head_at(tmp_path / "head", base, ["files", "weather"])
    base.encoded.clear()
    router = FusedRouter(BOTH, base, cache, adapter)
    assert base.encoded == []
    assert scores(router, "rain in a city") != plain


def test_an_adapter_that_has_seen_no_server_here_changes_nothing(tmp_path: Path) -> None:
    base, cache = WordEncoder(), EmbeddingCache(None)
    adapter = head_at(tmp_path / "head", base, ["elsewhere"], scale=3)
    assert scores(FusedRouter(BOTH, base, cache, adapter), "rain") == scores(FusedRouter(BOTH, base, cache), "rain")


def test_lora_embeds_for_itself_and_leaves_the_encoder_as_it_was(tmp_path: Path, tiny: TransformersEncoder) -> None:
    cache = EmbeddingCache(None)
    texts = all_documents(BOTH)
    before = tiny.encode(texts)
    plain = scores(FusedRouter(BOTH, tiny, cache), "the rain")
    adapter = lora_at(tmp_path / "lora", tiny, ["files", "weather"])
    own = adapter.encoder(tiny)
    assert own.hash != tiny.hash
    assert adapter.encoder(tiny) is own
    assert missing(own, cache, texts) == texts
    adapted = scores(FusedRouter(BOTH, tiny, cache, adapter), "the rain")
    assert missing(own, cache, texts) == []
    assert adapted != plain
    assert not np.allclose(own.encode(texts), before, atol=1e-3)
    assert np.array_equal(tiny.encode(texts), before)
    # Both at once, in turns, without a trace of each other.
    again = FusedRouter(BOTH, tiny, cache, adapter)
    assert scores(FusedRouter(BOTH, tiny, cache), "the rain") == plain
    assert scores(again, "the rain") == adapted


@pytest.mark.parametrize("servers", [["files"], ["files", "weather"]])
def test_lora_that_changes_nothing_leaves_all_scores_whatever_it_has_learned(
    tmp_path: Path, tiny: TransformersEncoder, servers: list[str]
) -> None:
    nothing = lora_at(tmp_path / "lora", tiny, servers, changes=False)
    plain, adapted = (FusedRouter(BOTH, tiny, EmbeddingCache(None), each) for each in (None, nothing))
    assert scores(adapted, "the rain") == pytest.approx(scores(plain, "the rain"), abs=1e-3)
    assert len(set(scores(plain, "the rain").values())) == 4


def test_of_tools_lora_embeds_only_those_that_it_has_learned(tmp_path: Path, tiny: TransformersEncoder) -> None:
    cache = EmbeddingCache(None)
    adapter = lora_at(tmp_path / "lora", tiny, ["weather"])
    router = FusedRouter(BOTH, tiny, cache, adapter)
    lacking = missing(adapter.encoder(tiny), cache, all_documents(BOTH))
    assert lacking == [tool_document(FILES, tool) for tool in FILES.tools]
    assert missing(adapter.encoder(tiny), cache, all_documents(BOTH, adapter.servers)) == []
    assert scores(router, "the rain") != scores(FusedRouter(BOTH, tiny, cache), "the rain")


def test_lora_that_does_not_fit_its_encoder_is_refused(tmp_path: Path, tiny: TransformersEncoder) -> None:
    adapter = lora_at(tmp_path / "lora", tiny, [])
    words = WordEncoder()
    elsewhere = save_adapter(tmp_path / "head", base_hash=words.hash, servers=[], head=np.zeros((64, 64), np.float32))
    assert elsewhere.encoder(words) is words
    tiny_with_other_name = TransformersEncoder(tiny.model.encoder, tiny.tokenizer, adapter.base_hash)
    with pytest.raises(ConfigurationError, match="does not fit"):
        adapter.encoder(tiny_with_other_name)
