"""A running gateway follows the registry: what is promoted there is served, what is rolled back goes at once.

Above: app.py, which runs it; pages, which show what it found. Below: store/registry.py, serving.py and adapters.py. An
adapter lies in the folder of adapters under its hash. One that is missing, half-written, damaged or made for another
encoder is refused: what was in force stays, the log says so once, and it is tried again when its files change or the
router's process is started again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from proxy.errors import ConfigurationError
from proxy.router.adapters import load_adapter
from proxy.router.serving import Serving
from proxy.store.database import Database
from proxy.store.registry import SHORT, Followed, InForce, in_force, roll_back

logger = logging.getLogger("toolatlas.router")

FOLLOW_S = 5.0
"""How often the registry is read."""
_Print = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of an adapter's files."""
_State = tuple[_Print, int]
"""The same with the number of starts of the process: what is other now may go well now."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    state: _State
    """As it was before it was tried."""


class Following:
    """Use `run` as a task of the gateway."""

    def __init__(
        self, serving: Serving, database: Database, folder: Path, *, every_s: float = FOLLOW_S, by: str = "gateway"
    ) -> None:
        """`folder`: of adapters. `by`: who the registry names for what this gateway takes back by itself."""
        self._serving = serving
        self._database = database
        self._folder = folder
        self._every_s = every_s
        self._by = by
        self._wanted = InForce()
        self._problem: str | None = None
        self._refused: dict[str, _Refusal] = {}
        self._withdrawn: dict[str, str] = {}
        """Hash -> why it is not to be served any more, though the registry may not say so yet."""
        self._target: InForce = InForce()
        """What is taken up, or was."""
        self._under_way = anyio.CancelScope()
        self._finished = anyio.Event()
        """What was to be taken up is, as far as it could be."""
        self._finished.set()
        self._woken = anyio.Event()
        """The registry is to be read, or written, now."""
        self._news = anyio.Event()
        """There may be something to follow."""

    @property
    def state(self) -> Followed:
        roles = self._serving.roles
        serving = InForce(
            active=roles.active and roles.active.name,
            shadow=roles.shadow and roles.shadow.name,
            canary=roles.canary and roles.canary.name,
            share=roles.share,
        )
        refused = {hashed: refusal.reason for hashed, refusal in self._refused.items()}
        return Followed(wanted=self._wanted, serving=serving, refused=refused, problem=self._problem)

    def withdraw(self, hashed: str, reason: str) -> None:
        """Serve without this adapter from now on, and roll it back in the registry. May be called from anywhere on the
        event loop, and does not wait."""
        if hashed not in self._withdrawn:
            logger.warning("the adapter %s is taken back: %s", hashed[:SHORT], reason)
            self._withdrawn[hashed] = reason
            self._news.set()
            self._woken.set()

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as tasks:
            # Apart from what is done about it: what is withdrawn goes at once, also while no database answers.
            tasks.start_soon(self._read_on)
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                await self._follow(tasks)

    async def _read_on(self) -> None:
        while True:
            self._woken = anyio.Event()
            await self._read()
            self._news.set()
            with anyio.move_on_after(self._every_s):
                await self._woken.wait()

    async def _read(self) -> None:
        try:
            for hashed, reason in tuple(self._withdrawn.items()):
                await roll_back(self._database, reason, by=self._by, hashed=hashed, usable=self._has)
            self._wanted = wanted = await in_force(self._database)
        except Exception as error:
            # The database is away, or of a new log there are no tables yet; the writer of the log says so.
            logger.debug("the registry of adapters cannot be read: %s", error)
            self._problem = str(error) or type(error).__name__
            return
        self._problem = None
        for hashed in self._withdrawn.keys() - {wanted.active, wanted.shadow, wanted.canary}:
            del self._withdrawn[hashed]

    async def _follow(self, tasks: anyio.abc.TaskGroup) -> None:
        """Begin to take up what is wanted now, unless that is under way, or done as far as it can be."""
        target: InForce = self._wanted.without(self._withdrawn)
        if target == self._target and (not self._finished.is_set() or not self._mended()):
            return
        self._under_way.cancel()
        await self._finished.wait()
        self._target, self._under_way, self._finished = target, anyio.CancelScope(), anyio.Event()
        tasks.start_soon(self._take, target, self._under_way, self._finished)

    def _mended(self) -> bool:
        """Whether something of what was refused may be loaded by now."""
        return any(refusal.state != self._state(hashed) for hashed, refusal in self._refused.items())

    def _state(self, hashed: str) -> _State:
        return _print(self._folder / hashed), self._serving.process.health.starts

    async def _take(self, target: InForce, scope: anyio.CancelScope, finished: anyio.Event) -> None:
        wanted = [each for each in (target.active, target.canary, target.shadow) if each is not None]
        self._refused = {hashed: refusal for hashed, refusal in self._refused.items() if hashed in wanted}
        try:
            with scope:
                # What has to go goes before anything is loaded, which may take minutes.
                await self._serve(target)
                for hashed in wanted:
                    if not self._in_force(hashed):
                        await self._load(hashed, target)
        finally:
            finished.set()

    async def _load(self, hashed: str, target: InForce) -> None:
        folder, state = self._folder / hashed, self._state(hashed)
        try:
            await anyio.to_thread.run_sync(check_adapter, folder)
            loaded = await self._serving.process.load(folder)
            if loaded != hashed:
                raise ConfigurationError(f"the adapter in {folder} was exchanged for {loaded[:SHORT]}")
            await self._serve(target, hashed)
        except ConfigurationError as error:
            known = self._refused.get(hashed)
            if known is None or known.reason != str(error):
                logger.error("the adapter %s is not served: %s", hashed[:SHORT], error)
            self._refused[hashed] = _Refusal(str(error), state)
        else:
            self._refused.pop(hashed, None)
        finally:
            if not self._in_force(hashed):
                self._serving.process.drop(folder)

    async def _serve(self, target: InForce, loaded: str | None = None) -> None:
        """With what is in force or `loaded` of the target. Until its active one is, stays the one that it replaces."""

        def path(hashed: str | None) -> Path | None:
            if hashed is None or not (hashed == loaded or self._in_force(hashed)):
                return None
            return self._folder / hashed

        now = self._serving.roles.active
        active, canary = path(target.active), path(target.canary)
        if target.active is not None and active is None and now is not None and now.name in target.former:
            active = now
        share = 0.0 if canary is None else target.share
        await self._serving.set_adapters(active, path(target.shadow), canary, share)

    def _in_force(self, hashed: str) -> bool:
        return self._folder / hashed in self._serving.roles.folders

    def _has(self, hashed: str) -> bool:
        try:
            check_adapter(self._folder / hashed)
        except ConfigurationError:
            return False
        return True


def check_adapter(folder: Path) -> None:
    """Raises ConfigurationError where this is not the adapter that the name of its folder says."""
    adapter = load_adapter(folder)
    if adapter.hash != folder.name:
        raise ConfigurationError(f"the adapter in {folder} is another one, {adapter.hash[:SHORT]}")


def _print(folder: Path) -> _Print:
    try:
        found = [(file.name, file.stat()) for file in folder.iterdir()]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found))
