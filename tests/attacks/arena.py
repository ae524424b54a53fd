"""Where attacks happen: a backend as the gateway uses it, a second task beside the attacking one, and a host to reach.

Above: the tests and the table. Below: proxy/sandbox with its Docker backend, as the gateway uses it; only the engine's
client is wrapped, to take a protection away when that is asked for.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from docker.errors import APIError

from proxy.sandbox.base import Backend, Interpreter, Limits, Reply, Status
from proxy.sandbox.docker import DockerBackend
from proxy.sandbox.docker_client import open_engine
from proxy.sandbox.embedded import EmbeddedBackend
from proxy.sandbox.engine import Engine
from tests.attacks.case import PRELUDE, Attack, Outcome
from tests.attacks.protection import Protection, Weakened, weakened

LIMITS = Limits(grace_s=1.0, warm=1, calls=100)
SURPLUS_S = 45.0
"""For an attack to end, beyond its time limit: containers may have to be started, on machines with other work."""
AT_CREATION = ("user", "environment", "entrypoint", "network_disabled")
"""Options that are the container's; all others are the host configuration's."""
SECRET = "token-of-the-gateway"

START = """
import sys
sys.path.insert(0, "/opt/toolatlas")
import supervisor
exec({statements!r}, vars(supervisor))
supervisor.main()
"""
"""In place of the image's own entry point."""


class Desk:
    """What the code of the attacks may call: `desk.echo`, and `desk.never`, which does not answer. Notes all calls."""

    servers = ("desk",)

    def __init__(self) -> None:
        self.on_extend: Callable[[float], None] = lambda seconds: None
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.opened: list[str] = []
        """Calls of what the agent may not use that were answered."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        self.calls.append((tool, arguments))
        if tool == "desk.never":
            await anyio.sleep_forever()
        if tool == "desk.echo":
            return Reply(True, arguments.get("value"), tool)
        return Reply(False, f"no tool {tool!r:.100}", tool)

    async def look_up(self, what: str, name: str) -> Reply:
        return Reply(
            True, [{"name": "desk", "purpose": "", "tools": 2}] if what == "servers" else f"{what} {name!r:.100}"
        )


@dataclass(frozen=True, slots=True)
class Host:
    """What there is to reach."""

    folder: Path
    port: int
    abstract: str
    bridge: str
    listeners: tuple[socket.socket, ...]

    def connections(self) -> int:
        """Made since the last time that this was asked."""
        found = 0
        for listener in self.listeners:
            with suppress(BlockingIOError):
                while True:
                    listener.accept()[0].close()
                    found += 1
        return found

    def written(self, text: str) -> str:
        """With the placeholders of attacks filled in."""
        places = {
            "@HOST@": str(self.folder),
            "@PORT@": str(self.port),
            "@ABSTRACT@": self.abstract,
            "@BRIDGE@": self.bridge,
            "@SECRET@": SECRET,
        }
        for place, value in places.items():
            text = text.replace(place, value)
        return text


class Arena:
    """One backend, weakened or not. `attack` runs cases one after the other."""

    def __init__(self, backend: Backend, host: Host, logged: Callable[[], int], prelude: str = PRELUDE) -> None:
        """`logged` counts bytes that the engine keeps of what containers wrote."""
        self._backend = backend
        self._host = host
        self._logged = logged
        self._prelude = prelude
        self._attacker: Interpreter | None = None
        self._other: Interpreter | None = None

    async def attack(self, attack: Attack) -> Outcome:
        """What it led to, for the task that ran it and for the host."""
        desk = Desk()
        with anyio.fail_after(attack.timeout_s + SURPLUS_S):
            if attack.other:
                other = await self._other_task()
                prepared = await other.run(attack.other, 10, Desk())
                assert prepared.failure is None, prepared.failure
            self._attacker = self._attacker or await self._backend.open("attacker")
            self._host.connections()
            result = await self._attacker.run(
                self._host.written(f"{self._prelude}\n{attack.code}"), attack.timeout_s, desk
            )
            outside = await anyio.to_thread.run_sync(self._outside)
            if attack.spoils:
                await self._attacker.reset()
            then = await self._attacker.run(attack.then, 10, Desk())
            if then.status is Status.DIED:
                # Hit by something that the attack had left; the run after that must not be.
                then = await self._attacker.run(attack.then, 10, Desk())
            await self._attacker.reset()
        return Outcome(result, then, tuple(desk.calls), outside)

    async def prepare(self) -> None:
        """Open the task beside the attacker's, with variables."""
        await self._other_task()

    async def other_is_untouched(self) -> bool:
        """A task beside the attacker's still has its variables."""
        other = await self._other_task()
        with anyio.fail_after(SURPLUS_S):
            result = await other.run("mine", 10, Desk())
        return (result.value or "").strip("'\"") == "mine" and result.lost_because is None

    async def _other_task(self) -> Interpreter:
        if self._other is None:
            with anyio.fail_after(SURPLUS_S):
                self._other = await self._backend.open("other")
                await self._other.run("mine = 'mine'", 10, Desk())
        return self._other

    def _outside(self) -> str:
        marker = (self._host.folder / "marker").exists()
        return f"connections={self._host.connections()} marker={marker} log={self._logged()}"


@asynccontextmanager
async def arena(image: str, folder: Path, without: tuple[Protection, ...] = ()) -> AsyncIterator[Arena]:
    """An arena whose containers lack some protections."""
    less = weakened(without)
    with ExitStack() as stack:
        host = _host(stack, folder, _bridge_address())
        client = stack.enter_context(closing(open_engine(os.environ)))
        engine = Engine(Weak(client, less, host), None)
        limits = LIMITS if not without else replace(LIMITS, warm=0)
        backend = DockerBackend(limits, engine=engine, image=image, folder=folder / "state")
        async with backend.running():
            yield Arena(backend, host, lambda: _logged(engine, folder / "state" / "owner"))


@asynccontextmanager
async def embedded_arena(folder: Path) -> AsyncIterator[Arena]:
    """An arena without an engine."""
    with ExitStack() as stack:
        host = _host(stack, folder, "127.0.0.1")
        backend = EmbeddedBackend(LIMITS)
        async with backend.running():
            yield Arena(backend, host, lambda: 0, "")


def _logged(engine: Engine, owner: Path) -> int:
    """Of all containers of an owner."""
    logged = 0
    for container in engine.owned(owner.read_text()):
        # An engine without a log says so with an error.
        with suppress(APIError):
            logged += len(engine.client.api.logs(container))
    return logged


class Weak:
    """The engine's client, whose containers are created with other options."""

    def __init__(self, client: Any, less: Weakened, host: Host) -> None:
        self.api = WeakApi(client.api, less, host)
        self.close = client.close


class WeakApi:
    """Its low level; all but creation passes through."""

    def __init__(self, api: Any, less: Weakened, host: Host) -> None:
        self._api = api
        options = _filled(dict(less.options), host)
        self._creation = {name: options[name] for name in options if name in AT_CREATION}
        self._configuration = {name: options[name] for name in options if name not in AT_CREATION}
        if less.supervisor:
            self._creation["entrypoint"] = ["python3", "-I", "-c", START.format(statements=less.supervisor)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create_host_config(self, **options: Any) -> Any:
        known = {name: value for name, value in self._configuration.items() if name[0].islower()}
        raw = {name: value for name, value in self._configuration.items() if name[0].isupper()}
        return {**self._api.create_host_config(**_merged(options, known)), **raw}

    def create_container(self, **options: Any) -> Any:
        return self._api.create_container(**_merged(options, self._creation))


def _merged(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**options, **others}.items() if value is not None}


def _filled(value: Any, host: Host) -> Any:
    if isinstance(value, str):
        return host.written(value)
    if isinstance(value, dict):
        return {_filled(key, host): _filled(each, host) for key, each in value.items()}
    return value


def _host(stack: ExitStack, folder: Path, bridge: str) -> Host:
    public = folder / "host"
    public.mkdir()
    public.chmod(0o777)
    (public / "secret.txt").write_text("\nof the host\n", "utf-8")
    abstract = f"toolatlas-attack-{secrets.token_hex(6)}"
    loopback = _listening(stack, socket.AF_INET, ("127.0.0.1", 0))
    port = loopback.getsockname()[1]
    named = _listening(stack, socket.AF_UNIX, f"\0{abstract}")
    listeners = [loopback, named]
    with suppress(OSError):
        listeners.append(_listening(stack, socket.AF_INET, (bridge, port)))
    return Host(public, port, abstract, bridge, tuple(listeners))


def _listening(stack: ExitStack, family: socket.AddressFamily, address: Any) -> socket.socket:
    listener = stack.enter_context(socket.socket(family))
    listener.bind(address)
    listener.listen()
    listener.setblocking(False)
    return listener


def _bridge_address() -> str:
    """By which containers of the engine's usual network reach the host."""
    with closing(open_engine(os.environ)) as client:
        (config, *_) = client.api.inspect_network("bridge")["IPAM"]["Config"]
        return str(config.get("Gateway", "172.17.0.1"))


def open_path(folder: Path) -> None:
    """Let the user of containers come to `folder`, which a test's own folder does not by itself."""
    for parent in (folder, *folder.parents):
        with suppress(PermissionError):
            if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o001)
