"""A causal transformers model on this machine: how likely it finds each of several texts after one that they share.

Above: language.py; the trainer, which trains adapters on its model. Below: weights.py and adapters.py; torch,
transformers and peft, imported only here and only when a model is loaded.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind
from proxy.router.weights import model_folder, weights_hash

BATCH_TOKENS = 16_384
"""Of one pass, the shared prefix counted for each text: what it bounds is memory."""

Tokens = list[int]


class LanguageModel:
    """A model with its tokenizer, and any number of LoRA adapters beside each other, of which each question names one.

    Several threads may use it; they wait for each other.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str, hashed: str) -> None:
        """`model`: a causal transformers model; `tokenizer`: its tokenizer; `name`: for the log; `hashed`: of its
        files, what adapters name as their base."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self.hash = hashed
        self._lock = threading.Lock()
        self._peft: Any = None
        """A PeftModel around `model` while there are adapters. It puts its layers into `model` itself."""

    @property
    def context(self) -> int:
        """The most tokens that it can read."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2_048)

    def tokens(self, text: str, *, start: bool) -> Tokens:
        """`start`: with the token that the model wants at the start of a text, if it has one."""
        return list(self.tokenizer(text, add_special_tokens=start)["input_ids"])

    def log_likelihoods(
        self, prefix: Sequence[int], texts: Sequence[Sequence[int]], adapter: str | None = None
    ) -> list[float]:
        """For each text the natural logarithm of its probability after `prefix`, which is computed once.

        `prefix` and each text have at least one token. `adapter`: the hash of one that is attached.
        """
        import torch

        likelihoods = [0.0] * len(texts)
        with self._lock, self._under(adapter), torch.inference_mode():
            shared = self._read([prefix], torch, logits_to_keep=1)
            first = shared.logits[0, -1].float().log_softmax(-1)
            for batch in _batches(len(prefix), [len(text) for text in texts]):
                likely = self._after(shared.cache, first, [texts[index] for index in batch], torch)
                for index, value in zip(batch, likely, strict=True):
                    likelihoods[index] = value
        return likelihoods

    def attach(self, adapter: Adapter) -> None:
        """Load a `scorer` beside the others; nothing happens if it is there already.

        Raises:
            ConfigurationError: peft is missing, or the adapter is not for this model.
        """
        if adapter.kind is not Kind.SCORER:
            raise ConfigurationError(
                f"the adapter {adapter.folder} is a {adapter.kind}; a language model takes a {Kind.SCORER}"
            )
        adapter.check_texts()
        if adapter.base_hash != self.hash:
            raise ConfigurationError(
                f"the adapter {adapter.folder} was trained on another model ({adapter.base_hash[:12]}…, not "
                f"{self.hash[:12]}…); name that one, or train an adapter on this one"
            )
        with self._lock:
            if self._peft is None or adapter.hash not in self._peft.peft_config:
                self._load(adapter)

    def detach(self, hashed: str) -> None:
        """Forget the adapter with this hash, if it is attached. Without any, the model is as it was loaded."""
        with self._lock:
            if self._peft is not None and hashed in self._peft.peft_config:
                self._drop(hashed)

    def _read(self, rows: Sequence[Sequence[int]], torch: Any, **more: Any) -> Any:
        longest = max(map(len, rows))
        # Padded on the right: nothing reads what comes later. With which token makes no difference.
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=self.model.device)
        return self.model(input_ids=ids, use_cache=True, **more)

    def _after(self, cache: Any, first: Any, texts: Sequence[Sequence[int]], torch: Any) -> list[float]:
        """`first`: log-probabilities of the token after what `cache` holds."""
        likely = first[torch.tensor([text[0] for text in texts], device=first.device)]
        # The last token is only predicted, never read.
        if (longest := max(len(text) for text in texts) - 1) > 0:
            cache = copy.deepcopy(cache)
            # As in a beam search of which every beam goes on from the same one.
            cache.reorder_cache(torch.zeros(len(texts), dtype=torch.long, device=first.device))
            logits = self._read([text[:-1] or [0] for text in texts], torch, cache=cache).logits.float()
            told = torch.zeros((len(texts), longest), dtype=torch.long)
            real = torch.zeros((len(texts), longest), dtype=torch.bool)
            for row, text in enumerate(texts):
                told[row, : len(text) - 1] = torch.tensor(text[1:], dtype=torch.long)
                real[row, : len(text) - 1] = True
            said = logits.gather(-1, told.to(logits.device).unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
            likely = likely + said.masked_fill(~real.to(logits.device), 0.0).sum(-1)
        return [float(value) for value in likely.tolist()]

    @contextmanager
    def _under(self, adapter: str | None) -> Generator[None]:
        if adapter is not None:
            if self._peft is None or adapter not in self._peft.peft_config:
                raise ValueError(f"no adapter {adapter} is attached")
            self._peft.set_adapter(adapter)
            yield
        elif self._peft is not None:
            with self._peft.disable_adapter():
                yield
        else:
            yield

    def _load(self, adapter: Adapter) -> None:
        try:
            import peft
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "peft is not installed, and this adapter needs it: pip install 'toolatlas[router]'"
            ) from error
        library: Any = peft
        try:
            config = library.PeftConfig.from_pretrained(str(adapter.folder))
            if config.peft_type != library.PeftType.LORA:
                raise ValueError(f"it is a {config.peft_type}, not a LORA")
            config.inference_mode = True
            # First its layers, then its weights: what fails between can be taken out again.
            if self._peft is None:
                self._peft = library.PeftModel(self.model, config, adapter_name=adapter.hash)
            else:
                self._peft.add_adapter(adapter.hash, config)
            weights = library.utils.save_and_load.load_peft_weights(str(adapter.folder), device="cpu")
            told = library.set_peft_model_state_dict(self._peft, weights, adapter_name=adapter.hash)
            lacking = [key for key in told.missing_keys if adapter.hash in key]
            if lacking or told.unexpected_keys:
                raise ValueError(f"{len(lacking)} weights are missing, {len(told.unexpected_keys)} have no place")
            self._peft.eval()
        except (RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
            if self._peft is not None and adapter.hash in self._peft.peft_config:
                self._drop(adapter.hash)
            raise ConfigurationError(f"the adapter {adapter.folder} does not fit {self.name}: {error}") from error

    def _drop(self, hashed: str) -> None:
        if len(self._peft.peft_config) == 1:
            self.model = self._peft.unload()
            self._peft = None
        else:
            # One that is in use cannot go without a warning.
            self._peft.set_adapter(next(each for each in self._peft.peft_config if each != hashed))
            self._peft.delete_adapter(hashed)


def load_language_model(name: str) -> LanguageModel:
    """The causal model of that name: a folder, a package that holds one, or a model of a hub, fetched once.

    On a GPU where there is one, in bfloat16; else in 32 bits, since half the width is many times slower on most CPUs.

    Raises:
        ConfigurationError: A package is missing (the text says which), or there is no such model.
    """
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and a language model needs it: pip install 'toolatlas[router]'"
        ) from error
    folder = model_folder(name)
    classes: Any = transformers
    classes.utils.logging.disable_progress_bar()
    gpu = torch.cuda.is_available()
    try:
        tokenizer = classes.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = classes.AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.bfloat16 if gpu else torch.float32
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"no language model can be loaded from {folder}: {error}") from error
    shown = folder.name if Path(name).expanduser().is_dir() else name
    return LanguageModel(model.to("cuda" if gpu else "cpu"), tokenizer, name=shown, hashed=weights_hash(folder))


def _batches(prefix: int, lengths: Sequence[int]) -> list[list[int]]:
    """Indices of texts of like length, so that little is padding."""
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if batches and (len(batches[-1]) + 1) * (prefix + lengths[index]) <= BATCH_TOKENS:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
