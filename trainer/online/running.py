"""A run of training online, wired: model, gateway, log and judge in; trained weights in a folder out.

Above: commands/online.py. Below: grpo.py, live.py. With `accelerate launch` every process runs this, with rollouts and
connections of its own; the first one writes what is said of the run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from judge.judging import Judge
from proxy.errors import ConfigurationError
from proxy.files import replace_file
from proxy.policy.client_world import connected
from proxy.store.database import Database
from trainer.data.tokens import Reader
from trainer.loop.devices import Device
from trainer.online.grpo import Told, Trained, train
from trainer.online.live import LivePlay
from trainer.online.settings import OnlineSettings

FACTS = "online.json"
MOST_TASKS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineRun:
    """What a run is made of."""

    model: str
    """Folder, or a name that the local cache of models has."""
    tasks: tuple[str, ...]
    gateway: str
    """Its MCP endpoint."""
    token: str | None
    database: str
    """The log that this gateway writes."""
    folder: Path
    device: Device
    settings: OnlineSettings


def run_online(run: OnlineRun, make_judge: Callable[[], Judge], *, resume: bool = False, told: Told) -> Trained:
    """Train, and leave weights, tokenizer and `online.json` in `run.folder`.

    Raises:
        ConfigurationError: As `train` does; the model or the gateway is not there; or the folder holds another run.
        Refused: The judge cannot be trusted.
    """
    if (run.folder / FACTS).exists():
        raise ConfigurationError(f"{run.folder} holds a run that has ended; name another folder")
    if (run.folder / "checkpoints").exists() != resume:
        which = "nothing to resume" if resume else "a run that was begun: --resume goes on with it"
        raise ConfigurationError(f"{run.folder} holds {which}")
    tokenizer = _tokenizer(run.model)
    reader = Reader(tokenizer)
    decode = partial(tokenizer.decode, skip_special_tokens=True)

    def open_world(client: str) -> Any:
        return connected(run.gateway, run.settings.variant, run.token, client_name=client)

    with start_blocking_portal() as portal:
        # Of the loop on which they are used.
        database = portal.call(partial(Database, run.database, statement_s=None))
        judge = portal.call(make_judge)
        try:
            play = LivePlay(portal, open_world, database, judge, reader, decode, run.settings)
            trained = train(
                run.model,
                tokenizer,
                run.tasks,
                play,
                run.settings,
                run.device,
                run.folder,
                resume=resume,
                told=told,
            )
        finally:
            portal.call(judge.close)
            portal.call(database.close)
    if trained.first:
        facts = json.dumps(_facts(run, judge.name, trained), indent=2, ensure_ascii=False)
        replace_file(run.folder / FACTS, f"{facts}\n".encode())
    return trained


def read_tasks(path: Path) -> tuple[str, ...]:
    """Tasks in users' words, each once: JSON lines with `task` or `text`, or lines of plain text.

    Raises:
        ConfigurationError: The file cannot be read, or holds none.
    """
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the tasks in {path} cannot be read: {error}") from error
    tasks = tuple(dict.fromkeys(_task(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)))
    if not tasks or len(tasks) > MOST_TASKS:
        raise ConfigurationError(f"{path} holds {len(tasks):,} tasks; it takes 1 to {MOST_TASKS:,}")
    return tasks


def _task(line: str, where: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        said: Any = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where}: no JSON") from error
    task = said.get("task", said.get("text"))
    if not isinstance(task, str) or not task.strip():
        raise ConfigurationError(f"{where}: it has no `task` and no `text`")
    return task


def _tokenizer(model: str) -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "transformers is not installed, and training needs it: pip install 'toolatlas[trainer]'"
        ) from error
    library: Any = transformers
    try:
        return library.AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the model {model!r} cannot be loaded: {str(error)[:300]}") from error


def _facts(run: OnlineRun, judge: str, trained: Trained) -> dict[str, Any]:
    rewards = [None if math.isnan(each) else each for each in trained.rewards]
    return {
        "version": version("toolatlas"),
        "model": run.model,
        "tasks": len(run.tasks),
        "tasks_hash": sha256("\n".join(run.tasks).encode()).hexdigest(),
        "judge": judge,
        "device": str(run.device),
        "settings": asdict(run.settings),
        "updates": trained.updates,
        "rewards": rewards,
        "left_out": dict(trained.left_out),
    }
