"""What was learned, on disk and on an encoder: a head on the query side, or LoRA on the encoder itself; or LoRA on a
language model that reorders, or on one that works tasks.

Above: fusion.py, language_model.py, local_model.py and the router's process; the trainer, which writes adapters.
Below: encoder.py, safetensors and peft, imported where an adapter is read or written. A folder holds `manifest.json`
and the weights; nothing in it is run.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, cast

import numpy as np

from proxy.errors import ConfigurationError
from proxy.router.documents import PROMPT, RENDERING
from proxy.router.encoder import Encoder, TransformersEncoder, Vectors
from proxy.store.rendering import REVISION

FORMAT = 1
MANIFEST = "manifest.json"
MANIFEST_BYTES = 16 << 20
_HEAD = "head"
"""The name of the only tensor in a head's file."""


class Kind(StrEnum):
    HEAD = "head"
    """`q' = normalise(q + q W)`: queries are turned, documents stay."""
    LORA = "lora"
    """Low-rank changes of the encoder, for queries and documents; those of learned tools, and of servers, are
    embedded anew."""
    SCORER = "scorer"
    """Low-rank changes of the causal model that scores what the encoder found."""
    POLICY = "policy"
    """Low-rank changes of a causal model that works tasks as an agent. It ranks nothing."""


_LORA_FILES = ("adapter_config.json", "adapter_model.safetensors")
_FILES: Mapping[Kind, tuple[str, ...]] = {
    Kind.HEAD: ("head.safetensors",),
    Kind.LORA: _LORA_FILES,
    Kind.SCORER: _LORA_FILES,
    Kind.POLICY: _LORA_FILES,
}
_TEXTS: Mapping[Kind, str] = {
    Kind.HEAD: RENDERING,
    Kind.LORA: RENDERING,
    Kind.SCORER: PROMPT,
    Kind.POLICY: f"policy-1/{REVISION}",
}
"""Revision of the texts that each kind is trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One adapter. Its scores count only for tools of `servers`; those of all others stay the encoder's own."""

    folder: Path
    kind: Kind
    hash: str
    """Of the weights and of the manifest: what the log names."""
    base_hash: str
    """Of the encoder, or the causal model, that it was trained on; on another one it means nothing."""
    rendering: str
    """Revision of the texts that it was trained on."""
    servers: frozenset[str]
    """Configured names of servers that good logs have shown it."""
    facts: Mapping[str, Any]
    """What else the manifest says: data, settings, figures."""
    head: Vectors | None = field(default=None, repr=False, compare=False)
    """`W`, `[d, d]`, of a head."""
    attached: dict[str, Encoder] = field(default_factory=dict[str, Encoder], repr=False, compare=False)
    """By hash of the encoder it was attached to, so that a new catalogue does not attach it again."""

    def check(self, base: Encoder) -> None:
        """Raises ConfigurationError where the adapter was trained on another encoder, or on other texts."""
        if self.kind is Kind.SCORER:
            raise ConfigurationError(
                f"the adapter {self.folder} is for a language model; serve with --router slm:MODEL and name that one"
            )
        if self.kind is Kind.POLICY:
            raise ConfigurationError(
                f"the adapter {self.folder} is for an agent and ranks nothing; `toolatlas agent --adapter` loads it"
            )
        if self.base_hash != base.hash:
            raise ConfigurationError(
                f"the adapter {self.folder} was trained on another encoder ({self.base_hash[:12]}…, not "
                f"{base.hash[:12]}…); name that one with --router-model, or train an adapter on this one"
            )
        self.check_texts()
        if self.head is not None and self.head.shape != (base.width, base.width):
            raise ConfigurationError(f"the head {self.folder} is {self.head.shape}, but vectors have {base.width}")

    def check_texts(self) -> None:
        """Raises ConfigurationError where the adapter was trained on other texts than this version writes."""
        if self.rendering != _TEXTS[self.kind]:
            raise ConfigurationError(
                f"the adapter {self.folder} was trained on other texts ({self.rendering}, not {_TEXTS[self.kind]}); "
                "train it again with this version"
            )

    def encoder(self, base: Encoder) -> Encoder:
        """What embeds documents under this adapter: `base` itself for a head. Made once for each encoder.

        Raises:
            ConfigurationError: As `check` does; or peft is missing, or the weights do not fit.
        """
        self.check(base)
        if self.kind is Kind.HEAD:
            return base
        if base.hash not in self.attached:
            if not isinstance(base, TransformersEncoder):
                raise ConfigurationError(f"the adapter {self.folder} needs an encoder of transformers")
            self.attached[base.hash] = self._attach(base)
        return self.attached[base.hash]

    def turned(self, queries: Vectors) -> Vectors:
        """Query vectors `[n, d]` as the adapter reads them: turned by a head, unchanged where the encoder was."""
        if self.head is None:
            return queries
        turned = queries + queries @ self.head
        return turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), np.float32(1e-9))

    def merged(self, model: Any) -> Any:
        """`model`, a transformers model of its own, with the changes of a LoRA in it: it costs no more than before.

        Raises:
            ConfigurationError: peft is missing, or the weights do not fit.
        """
        try:
            import peft
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "peft is not installed, and this adapter needs it: pip install 'toolatlas[router]'"
            ) from error
        library: Any = peft
        try:
            with warnings.catch_warnings():
                # All that peft says of weights that find no place in the model.
                warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)
                wrapped = library.PeftModel.from_pretrained(model, str(self.folder))
            return wrapped.merge_and_unload(safe_merge=True)
        except (UserWarning, RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
            raise ConfigurationError(f"the adapter {self.folder} does not fit the model: {error}") from error

    def _attach(self, base: TransformersEncoder) -> TransformersEncoder:
        # Of a copy, so that the encoder stays beside it.
        merged = self.merged(copy.deepcopy(base.model))
        hashed = sha256(f"{base.hash} {self.hash}".encode()).hexdigest()
        return TransformersEncoder(merged, base.tokenizer, hashed, base.pooling)


def load_adapter(folder: Path) -> Adapter:
    """The adapter in `folder`, its files checked against its hash.

    Raises:
        ConfigurationError: There is none, it is damaged, or its format is not ours.
    """
    try:
        if (folder / MANIFEST).stat().st_size > MANIFEST_BYTES:
            raise ValueError("the manifest is too long")
        manifest = cast("dict[str, Any]", json.loads((folder / MANIFEST).read_text("utf-8")))
        if manifest["format"] != FORMAT:
            raise ConfigurationError(
                f"the adapter {folder} has format {manifest['format']}, this version knows {FORMAT}"
            )
        kind = Kind(manifest["kind"])
        servers = cast("list[object]", manifest["servers"])
        texts = [manifest["hash"], manifest["base_hash"], manifest["rendering"], *servers]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("names and hashes must be strings")
        if _hash(folder, manifest) != manifest["hash"]:
            raise ConfigurationError(f"the adapter {folder} is damaged: its files are not those that its hash names")
        head = _read_head(folder) if kind is Kind.HEAD else None
    except ConfigurationError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"there is no adapter in {folder} that can be read ({reason})") from error
    own = {"format", "kind", "hash", "base_hash", "rendering", "servers"}
    return Adapter(
        folder=folder,
        kind=kind,
        hash=manifest["hash"],
        base_hash=manifest["base_hash"],
        rendering=manifest["rendering"],
        servers=frozenset(cast("list[str]", servers)),
        facts={name: value for name, value in manifest.items() if name not in own},
        head=head,
    )


def save_adapter(
    folder: Path,
    *,
    base_hash: str,
    servers: Iterable[str],
    head: Vectors | None = None,
    lora: Any = None,
    kind: Kind | None = None,
    rendering: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Adapter:
    """Write an adapter to `folder`, which must not exist, and return it as it is loaded.

    `head`: `W`, `[d, d]`; or `lora`: a `PeftModel` around the encoder's model or, with `kind` `SCORER` or `POLICY`,
    around a causal one. `kind`: by default the one for the encoder. `rendering`: of the texts that it was trained on,
    by default those of this version. `facts`: JSON, for the manifest. The folder appears with everything in it, or not
    at all.

    Raises:
        ValueError: Neither or both of `head` and `lora` are given, or what is given is not of that kind.
        FileExistsError: There is something at `folder`.
    """
    if (head is None) == (lora is None):
        raise ValueError("an adapter is a head or a LoRA")
    if kind is None:
        kind = Kind.LORA if head is None else Kind.HEAD
    elif (kind is Kind.HEAD) == (head is None):
        raise ValueError(f"what is given is not of the kind {kind}")
    if folder.exists():
        raise FileExistsError(f"{folder} exists")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        if head is not None:
            import safetensors.numpy

            library: Any = safetensors.numpy
            library.save_file({_HEAD: np.ascontiguousarray(head, dtype=np.float32)}, draft / _FILES[Kind.HEAD][0])
        else:
            lora.save_pretrained(str(draft), safe_serialization=True)
        manifest: dict[str, Any] = {
            **(facts or {}),
            "format": FORMAT,
            "kind": kind,
            "base_hash": base_hash,
            "rendering": _TEXTS[kind] if rendering is None else rendering,
            "servers": sorted(set(servers)),
        }
        manifest["hash"] = _hash(draft, manifest)
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
        os.rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return load_adapter(folder)


def _hash(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Of all that the adapter does: its manifest without the hash itself, and its weights."""
    said = {name: value for name, value in manifest.items() if name != "hash"}
    digest = sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for name in _FILES[Kind(manifest["kind"])]:
        with (folder / name).open("rb") as file:
            digest.update(f"\n{name} {file_digest(file, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()


def _read_head(folder: Path) -> Vectors:
    import safetensors.numpy

    library: Any = safetensors.numpy
    try:
        head: Vectors = library.load_file(folder / _FILES[Kind.HEAD][0])[_HEAD].astype(np.float32)
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error
    if head.ndim != 2 or head.shape[0] != head.shape[1] or not np.isfinite(head).all():
        raise ValueError("a head is a square matrix of finite numbers")
    return head
