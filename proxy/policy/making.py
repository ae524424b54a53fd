"""Settings in, model out.

Above: the commands, and app.py. Below: the two kinds of models, each imported where it is made.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from proxy.errors import ConfigurationError
from proxy.policy.base import Model, Variant
from proxy.policy.limits import WorkLimits
from proxy.policy.local_model import LocalModel
from proxy.policy.openai_model import OpenAIModel
from proxy.router.adapters import Adapter, load_adapter
from proxy.settings import ModelSettings


@asynccontextmanager
async def opened(settings: ModelSettings, limits: WorkLimits, adapter: Adapter | None = None) -> AsyncGenerator[Model]:
    """The model, under a policy adapter if one is given, closed in the end.

    Raises:
        ConfigurationError: A package is missing, or there is no such local model; or the adapter is for something else.
    """
    model: Model
    if settings.url is None:
        model = LocalModel(settings, limits.output_tokens, adapter)
    elif adapter is not None:
        raise ConfigurationError(
            "an adapter is loaded onto a model in this process; an endpoint has to load it itself, under a name of "
            "its own, which --model then names"
        )
    else:
        model = OpenAIModel(settings, limits.output_tokens)
    try:
        yield model
    finally:
        await model.close()


def adapter_named(said: str, folder: Path) -> Adapter:
    """A folder that holds an adapter, or the beginning of the hash of one in `folder`.

    Raises:
        ConfigurationError: There is none, or there are several, or it is damaged.
    """
    if (path := Path(said).expanduser()).is_dir():
        return load_adapter(path)
    found = [each for each in folder.glob("*") if each.name.startswith(said) and each.is_dir()]
    if len(found) != 1:
        how_many = "no adapter" if not found else f"{len(found)} adapters"
        raise ConfigurationError(f"{how_many} in {folder} begin with {said!r}; `toolatlas adapters list` shows them")
    return load_adapter(found[0])


def check_remote(settings: ModelSettings) -> None:
    """Raises ConfigurationError where a gateway could not have the model work tasks."""
    if settings.url is None:
        raise ConfigurationError(
            f"--agent-model {settings.model} needs --agent-url: inside the gateway a model would slow everybody down; "
            "serve it with vLLM, Ollama or llama.cpp, and name its address"
        )
    if importlib.util.find_spec("openai") is None:
        raise ConfigurationError("--agent-url needs the openai package: pip install 'toolatlas[judge]'")


def variant_of(name: str) -> Variant:
    """Raises ConfigurationError for anything but the four variants."""
    if name not in list(Variant):
        raise ConfigurationError(f"the variant is one of {', '.join(Variant)}, not {name!r}")
    return Variant(name)
