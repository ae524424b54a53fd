"""Encoders for tests: one that needs no model, and a tiny BERT with random weights, made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.router.encoder import MAX_TOKENS, Vectors

WORDS = ("the", "weather", "rain", "file", "read", "a", "of", "city", "forecast", "disk", "##s", "##ing")


class WordEncoder:
    """Each word points somewhere, always the same way; a text is the sum of its words. Remembers what it was given."""

    def __init__(self, name: str = "words", width: int = 64) -> None:
        self.hash = sha256(name.encode()).hexdigest()
        self.width = width
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Vectors:
        self.encoded += texts
        rows = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in ["", *text.casefold().replace(":", " ").split()[:max_tokens]]:
                seed = int.from_bytes(sha256(f"{self.hash}{word}".encode("utf-8", "surrogatepass")).digest()[:8])
                row += np.random.default_rng(seed).standard_normal(self.width, dtype=np.float32)
            row /= np.linalg.norm(row)
        return rows


def server(name: str, tools: dict[str, str], purpose: str = "") -> ServerRecord:
    records = tuple(
        ToolRecord(server=name, name=tool, written=f"{name}.{tool}", raw={"name": tool, "description": description})
        for tool, description in tools.items()
    )
    return ServerRecord(name=name, written=name, purpose=purpose, tools=records, listing=None)


def tiny_bert(folder: Path, seed: int = 0) -> Path:
    """A folder that `load_encoder` loads: two layers of 16 numbers, 12 words and the letters."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = [mark + letter for mark in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz0123456789.:,"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys([*WORDS, *letters])]
    folder.mkdir(parents=True)
    torch.set_num_threads(1)
    (folder / "vocab.txt").write_text("\n".join(vocabulary), "utf-8")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder
