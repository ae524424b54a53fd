"""A causal transformers model that answers conversations, in this process. Blocks while it computes.

Above: proxy/policy/local_model.py, which calls it on a thread. Below: adapters.py and weights.py;
torch and transformers, imported when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, Kind
from proxy.router.weights import model_folder, weights_hash


@dataclass(frozen=True, slots=True)
class Generated:
    """One answer."""

    text: str
    tokens_in: int
    tokens_out: int


class LocalChat:
    """A model and its tokenizer. On a processor it computes in float32, on a GPU in what its weights are in.

    Args:
        name: A folder, or a name that the local cache of models has.
        adapter: A policy that was tuned on this model.

    Raises:
        ConfigurationError: A package is missing, or there is no such model, or it has no chat template; or the adapter
            is for something else.
    """

    def __init__(self, name: str, adapter: Adapter | None = None) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ConfigurationError(
                f"a local model needs the package {error.name}: pip install 'toolatlas[router]'"
            ) from None
        if adapter is not None:
            name = str(model_folder(name))
            _check(adapter, name)
        gpu = torch.cuda.is_available()
        classes: Any = transformers
        try:
            self._tokenizer: Any = classes.AutoTokenizer.from_pretrained(name)
            dtype = "auto" if gpu else torch.float32
            self._model: Any = classes.AutoModelForCausalLM.from_pretrained(name, dtype=dtype).eval()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"the local model {name!r} cannot be loaded: {str(error)[:300]}") from error
        if not self._tokenizer.chat_template:
            raise ConfigurationError(
                f"the local model {name!r} has no chat template: name one that follows instructions"
            )
        if adapter is not None:
            self._model = adapter.merged(self._model).eval()
        if gpu:
            self._model.to("cuda")

    def answer(
        self, messages: Sequence[Mapping[str, str]], most_tokens: int, cancelled: Callable[[], bool]
    ) -> Generated:
        """The likeliest answer, of at most `most_tokens`; ends early once `cancelled` says so."""
        import torch
        import transformers

        classes: Any = transformers
        read = self._tokenizer.apply_chat_template(
            [dict(each) for each in messages], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(self._model.device)
        length = int(read["input_ids"].shape[1])

        def stop(ids: Any, scores: Any, **_: Any) -> Any:
            return torch.full((ids.shape[0],), cancelled(), dtype=torch.bool, device=ids.device)

        with torch.inference_mode():
            made = self._model.generate(
                **read,
                max_new_tokens=most_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id,
                stopping_criteria=classes.StoppingCriteriaList([stop]),
            )
        new = made[0, length:]
        return Generated(self._tokenizer.decode(new, skip_special_tokens=True), length, int(new.shape[0]))


def _check(adapter: Adapter, folder: str) -> None:
    if adapter.kind is not Kind.POLICY:
        raise ConfigurationError(
            f"the adapter {adapter.folder} is a {adapter.kind} of the router; an agent takes a {Kind.POLICY}"
        )
    adapter.check_texts()
    if adapter.base_hash != (found := weights_hash(Path(folder))):
        raise ConfigurationError(
            f"the adapter {adapter.folder} was tuned on another model ({adapter.base_hash[:12]}…, and {folder} is "
            f"{found[:12]}…); name that one with --model, or tune a policy on this one"
        )
