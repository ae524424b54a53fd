"""How the router's process is started, which the gateway does before it has imported its own modules.

Above: process.py, and cli.py, which is there first. Below: the standard library, and settings that cost nothing to
import. What a process needs most is its libraries and its model: it reads them while the gateway reads its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from proxy.router.weights import DEFAULT_ENCODER

EMBEDDINGS = "embeddings.db"
"""The file of embeddings in the cache's folder."""
SECOND_SHARE = 0.7
"""Of a search's budget: what a model behind a URL may take of it, so that without its answer there still is one."""
API_KEY = "TOOLATLAS_ROUTER_API_KEY"
"""The variable with the key of such a URL: a command line would show it to everybody."""
_INHERITED = frozenset(
    {
        API_KEY,
        *("HOME", "LOGNAME", "PATH", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "VIRTUAL_ENV", "USERPROFILE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
_INHERITED_PREFIXES = ("LC_", "XDG_", "PYTHON", "LD_", "DYLD_", "HF_", "HUGGINGFACE_", "TORCH", "CUDA_", "NVIDIA_")
"""The secrets of servers and agents, which the gateway's environment may hold, are nothing to a model's libraries."""


def worker_command(encoder: str, cache: Path, second: str | None = None, budget_s: float = 1.0) -> list[str]:
    """`encoder`: what `load_encoder` takes; `cache`: the file of embeddings; `second`: what reorders, as `second_of`
    takes it, for searches with that budget."""
    within = [] if second is None else [second, f"{budget_s * SECOND_SHARE:g}"]
    # -P: what lies in the current folder is not imported.
    return [sys.executable, "-P", "-m", "proxy.router.worker", encoder, str(cache), str(os.getpid()), *within]


def missing_second(second: str | None) -> str | None:
    """Which package a second stage lacks beside those of the encoder, and how to get it."""
    if second is not None and second.startswith("endpoint:") and importlib.util.find_spec("openai") is None:
        return f"openai is not installed, and --router {second} needs it: pip install 'toolatlas[judge]'"
    return None


def launch(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the program; both of its pipes are the caller's.

    Raises:
        OSError: It cannot be started.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(os.environ),
        # Neither Ctrl-C in the terminal nor the end of the gateway's process group is for it.
        start_new_session=True,
    )


class Launched:
    """A process that was started before it was known which one is needed, if any."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raises OSError where it cannot be started."""
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = launch(command)

    def take(self, command: Sequence[str]) -> subprocess.Popen[bytes] | None:
        """The process, once, if this is what it runs."""
        if tuple(command) != self._command:
            return None
        process, self._process = self._process, None
        return process

    def end(self) -> None:
        """Of the process, unless it was taken."""
        if (process := self._process) is not None:
            self._process = None
            process.kill()
            process.communicate()


def launched_early(arguments: Sequence[str], environ: Mapping[str, str], cache_dir: Path) -> Launched | None:
    """The process that `toolatlas ARGUMENTS` is going to need, as far as that can be told before they are parsed; a
    wrong guess costs some processor time and nothing else. None where there is to be none.
    """
    if "serve" not in arguments[:1] or "--help" in arguments:
        return None
    # What is chosen by options comes when it is needed.
    chosen = environ.get("TOOLATLAS_ROUTER") or "auto"
    if any(argument.startswith("--router") for argument in arguments) or chosen not in ("auto", "fused"):
        return None
    if any(importlib.util.find_spec(package) is None for package in ("torch", "transformers")):
        return None
    try:
        return Launched(
            worker_command(environ.get("TOOLATLAS_ROUTER_MODEL") or DEFAULT_ENCODER, cache_dir / EMBEDDINGS)
        )
    except OSError:
        # Whoever starts it again says what is wrong.
        return None


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: value for name, value in own.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    return inherited | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
