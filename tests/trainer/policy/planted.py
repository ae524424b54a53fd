"""Policy rows made by hand, and a causal model for them, of two layers and random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from proxy.router.language_model import LanguageModel, load_language_model
from proxy.store.rendering import REVISION, action
from tests.trainer.data.conftest import TEMPLATE, a_tokenizer
from tests.trainer.data.made import origin
from trainer.data.tokens import Reader
from trainer.rows import PolicyRow, Segment, SegmentKind

TOOLS = ("shop.find_item", "shop.sell", "weather.forecast")


def save_model(folder: Path) -> Path:
    """With a fast tokenizer and a chat template. Its layers are large enough to learn something in a few updates."""
    import torch
    import transformers

    library: Any = transformers
    tokenizer = a_tokenizer(TEMPLATE)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = library.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2_048,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    library.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def fresh(folder: Path) -> LanguageModel:
    return load_language_model(str(folder))


class Maker:
    """Rows in the tokens of one model."""

    def __init__(self, language: LanguageModel) -> None:
        self.reader = Reader(language.tokenizer)

    def context(self, text: str) -> Segment:
        return Segment(SegmentKind.CONTEXT, self.reader.tokens(f"<|im_start|>user\n{text}<|im_end|>\n"))

    def act(self, tool: str, *, ok: bool = True, step: str = "s", key: float = 1.0) -> Segment:
        """`key`: the weight of its first token."""
        tokens = (*self.reader.tokens(action("call_tool", {"tool": tool})), self.reader.end)
        weights = (key, *[1.0] * (len(tokens) - 1)) if ok else ()
        return Segment(SegmentKind.ACT, tokens, weights, step_id=step)

    def row(self, *segments: Segment, number: int = 1, advantage: float = 1.0, **changed: Any) -> PolicyRow:
        values: dict[str, Any] = {
            "id": f"e_{number:03}/1",
            "origin": origin(number, advantage=advantage),
            "rendering": REVISION,
            "tokenizer": self.reader.hash,
            "segments": segments,
        }
        return PolicyRow(**values | changed)

    def log(self, count: int, seed: int) -> list[PolicyRow]:
        """Of two tasks, each with a tool that came out well and one that did not."""
        random = Random(seed)
        rows: list[PolicyRow] = []
        for number in range(count):
            lamp, good = random.random() < 0.5, random.random() < 0.6
            tool = TOOLS[0] if lamp == good else TOOLS[2]
            rows.append(
                self.row(
                    self.context("Where is the lamp?" if lamp else "Will it rain?"),
                    self.act(tool, step=f"s{seed}{number}"),
                    number=seed * 100 + number,
                    advantage=1.0 if good else -1.0,
                )
            )
        return rows


def joined(segments: Sequence[Segment]) -> list[int]:
    return [token for segment in segments for token in segment.tokens]
