"""Settings in, model out.

Above: the commands, and app.py. Below: the two kinds of models, each imported where it is made.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from proxy.errors import ConfigurationError
from proxy.policy.base import Model, Variant
from proxy.policy.limits import WorkLimits
from proxy.policy.local_model import LocalModel
from proxy.policy.openai_model import OpenAIModel
from proxy.settings import ModelSettings


@asynccontextmanager
async def opened(settings: ModelSettings, limits: WorkLimits) -> AsyncGenerator[Model]:
    """The model, closed in the end.

    Raises:
        ConfigurationError: A package is missing, or there is no such local model.
    """
    model: Model
    if settings.url is None:
        model = LocalModel(settings, limits.output_tokens)
    else:
        model = OpenAIModel(settings, limits.output_tokens)
    try:
        yield model
    finally:
        await model.close()


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
