"""How many tokens a text is for a model, by the vocabulary o200k_base.

Above: rows.py. Below: bpe-openai, which brings the vocabulary with it, so that nothing is fetched.
"""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from typing import Any, cast

PIECE = 50_000
"""Characters that are counted at once."""
EXACT = 1_000_000
"""Characters that are counted; what is beyond is taken to be like them."""


class Tokens:
    """Loading the vocabulary takes half a second and 100 MB."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # It reads its vocabulary with a function that Python has renamed.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._encoding: Any = import_module("bpe_openai").get_encoding("o200k_base")
        self.count("The first text takes longer.")

    def count(self, text: str) -> int:
        """Of texts longer than `PIECE`, a few too many; of those longer than `EXACT`, an estimate."""
        counted = sum(self._count(text[start : start + PIECE]) for start in range(0, min(len(text), EXACT), PIECE))
        return counted if len(text) <= EXACT else round(counted * (len(text) / EXACT))

    def of_json(self, value: Any) -> int:
        return self.count(json.dumps(value, separators=(",", ":"), ensure_ascii=False))

    def of_action(self, name: str, arguments: Any) -> int:
        """What the agent wrote: the name, and its arguments as JSON."""
        return self.count(name) + (self.of_json(arguments) if arguments is not None else 0)

    def of_observation(self, result: Any) -> int:
        """What the agent read of a result: its texts, or `structuredContent` where there are none.

        Pictures and sounds count nothing: what they cost differs from model to model.
        """
        texts = list(_texts(result))
        if texts:
            return self.count("\n".join(texts))
        structured = cast("dict[str, Any]", result).get("structuredContent") if isinstance(result, dict) else result
        return self.of_json(structured) if structured is not None else 0

    def _count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text.encode("utf-8", "replace").decode()))


def _texts(result: Any) -> list[str]:
    content = cast("dict[str, Any]", result).get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return []
    texts: list[str] = []
    for block in cast("list[Any]", content):
        if not isinstance(block, dict):
            continue
        known = cast("dict[str, Any]", block)
        resource: Any = known.get("resource")
        within = cast("dict[str, Any]", resource).get("text") if isinstance(resource, dict) else None
        texts += [text for text in (known.get("text"), within) if isinstance(text, str)]
    return texts
