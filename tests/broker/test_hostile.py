"""The broker's process with a real engine: nothing hostile is said to the engine, and what is started is the template.

The engine is reached over a relay that notes every byte the broker sends to it.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy.broker.protocol import MAX_REQUEST
from proxy.sandbox.base import Limits
from proxy.sandbox.engine import GATEWAY, OWNER, Engine
from tests.broker.running import BrokerProcess, WatchedEngine, at_its_end, broker_process, reply, say, short_folder

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_bytes=128 * 2**20, cpus=0.5, processes=40, disk_bytes=2**20, files=500, interpreters=2)
OPTIONS = [
    f"--sandbox-limit={name}={getattr(LIMITS, name)}"
    for name in ("memory_bytes", "cpus", "processes", "disk_bytes", "files", "interpreters")
]


@dataclass(frozen=True, slots=True)
class Place:
    broker: BrokerProcess
    way: WatchedEngine
    engine: Engine
    bystander: str
    """A container of somebody else, by the engine's name."""

    @property
    def path(self) -> Path:
        return self.broker.path

    def inspect(self, container: str) -> dict[str, Any]:
        return self.engine.client.api.inspect_container(container)


@pytest.fixture(scope="module")
def place(engine: Engine, image: str) -> Iterator[Place]:
    with ExitStack() as held:
        folder = held.enter_context(short_folder())
        way = WatchedEngine(folder)
        held.callback(way.close)
        bystander: str = engine.client.api.create_container(image, stdin_open=True)["Id"]
        held.callback(engine.remove, bystander)
        engine.client.api.start(bystander)
        broker = held.enter_context(broker_process(folder, *OPTIONS, DOCKER_HOST=way.url))
        # It looks for what others have left, at the beginning and end of its trial, and at its beginning.
        limit = time.monotonic() + 20
        while way.asked.count(b"/containers/json?") < 3:
            assert time.monotonic() < limit, "it has not looked"
        yield Place(broker, way, engine, bystander)


HOSTILE = {
    "privileges": b"open --privileged\n",
    "privileges as JSON": b'{"verb": "open", "privileged": true}\n',
    "capabilities": b"open --cap-add=ALL\n",
    "a mount": b"open -v /:/host\n",
    "a mount as JSON": b'{"verb": "open", "HostConfig": {"Binds": ["/:/host"]}}\n',
    "the engine's socket": b"open /var/run/docker.sock\n",
    "a device": b"open --device /dev/sda\n",
    "another image": b"open alpine\n",
    "another image by its hash": b"open sha256:" + b"0" * 64 + b"\n",
    "this image by its name": b"open toolatlas-sandbox\n",
    "a command": b"open sh -c id\n",
    "an environment": b"open -e LD_PRELOAD=/tmp/x\n",
    "a network": b"open --network=host\n",
    "a user": b"open -u 0\n",
    "more memory": b"open memory_bytes=1000000000000\n",
    "the namespace of processes": b"open --pid=host\n",
    "another runtime": b"open --runtime=runc\n",
    "a label": b"open toolatlas.sandbox.owner=x\n",
    "a field behind an id": b"attach " + b"0" * 64 + b" tty=1\n",
    "attach without an id": b"attach\n",
    "attach to any": b"attach *\n",
    "attach by a path": b"attach ../../containers/json\n",
    "an id that is short": b"attach " + b"0" * 63 + b"\n",
    "an id that is long": b"attach " + b"0" * 65 + b"\n",
    "an id in capitals": b"attach " + b"A" * 64 + b"\n",
    "an id that was guessed": b"attach " + b"0" * 64 + b"\n",
    "close of what was guessed": b"close " + b"0" * 64 + b"\n",
    "close of all": b"close *\n",
    "the engine's API: list": b"GET /containers/json HTTP/1.1\r\nHost: docker\r\n\r\n",
    "the engine's API: create": b'POST /v1.41/containers/create HTTP/1.1\r\nHost: d\r\n\r\n{"Image": "alpine"}',
    "the engine's API: version": b"GET /version\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    **{f"verb {verb}": f"{verb}\n".encode() for verb in ("exec", "list", "inspect", "build", "pull", "stop", "prune")},
    "verb in capitals": b"OPEN\n",
    "two verbs": b"open;close\n",
    "two requests": b"open\nopen\n",
    "a space in front": b" open\n",
    "a space behind": b"open \n",
    "a carriage return": b"open\r\n",
    "a zero": b"open\0\n",
    "no UTF-8": b"\xff\xfe\xfd\n",
    "nothing": b"\n",
    "an empty object": b"{}\n",
    "a number": b"1\n",
    "deep JSON": b"[" * MAX_REQUEST + b"\n",
    "a long line": b"open" + b" " * 1_000 + b"\n",
    "a very long line": b"x" * 2_000_000 + b"\n",
    "no end": b"x" * 10_000,
}


@pytest.mark.parametrize("request_", [pytest.param(each, id=name) for name, each in HOSTILE.items()])
def test_a_hostile_request_is_refused_and_the_engine_hears_nothing(request_: bytes, place: Place) -> None:
    before, heard = place.inspect(place.bystander), len(place.way.asked)
    answer, connected = say(place.path, request_)
    with connected:
        assert set(answer) == {"error", "busy"}
        assert at_its_end(connected)
    assert place.way.asked[heard:] == b""
    assert place.broker.containers(place.engine) == set()
    assert place.inspect(place.bystander) == before


@pytest.mark.parametrize("verb", ["attach", "close"])
def test_another_container_cannot_be_reached_by_the_engines_name_for_it(verb: str, place: Place) -> None:
    before, heard = place.inspect(place.bystander), len(place.way.asked)
    answer, connected = say(place.path, f"{verb} {place.bystander}\n".encode())
    connected.close()
    assert f"nothing to {verb}" in answer["error"]
    assert place.way.asked[heard:] == b""
    assert place.inspect(place.bystander) == before


def test_nor_its_own_container_by_the_engines_name(place: Place) -> None:
    opened, keeper = say(place.path, b"open\n")
    with keeper:
        (own,) = place.broker.containers(place.engine)
        for verb in ("attach", "close"):
            answer, connected = say(place.path, f"{verb} {own}\n".encode())
            connected.close()
            assert f"nothing to {verb}" in answer["error"]
        assert place.inspect(own)["State"]["Running"] is True
        close(keeper, opened["id"])


def test_what_is_opened_is_the_template_and_the_engine_is_asked_for_nothing_else(
    place: Place, engine: Engine, image: str
) -> None:
    heard = len(place.way.asked)
    answer, keeper = say(place.path, b"open\n")
    attached, streams = say(place.path, f"attach {answer['id']}\n".encode())
    assert attached == {"attached": True}
    (own,) = place.broker.containers(engine)
    found = place.inspect(own)
    with keeper, streams:
        close(keeper, answer["id"])
    assert place.broker.containers(engine) == set()
    asked = re.findall(rb"(?:GET|POST|PUT|DELETE|HEAD) /(?:v[0-9.]+/)?(\S+) HTTP", bytes(place.way.asked[heard:]))
    allowed = rf"containers/create|containers/{own}/(attach|start|json)(\?\S*)?|containers/{own}(\?\S*)?"
    assert asked
    assert [each for each in asked if not re.fullmatch(allowed, each.decode())] == []
    # The same as of a gateway that reaches the engine itself; and that, in short, is:
    template = engine.start(image, LIMITS, {OWNER: "", GATEWAY: ""})
    direct = place.inspect(template.id)
    template.close()
    engine.remove(template.id)
    assert found["HostConfig"] == direct["HostConfig"]
    assert found["Mounts"] == direct["Mounts"] == []
    for config in (found["Config"], direct["Config"]):
        assert set(config["Labels"]) >= {OWNER, GATEWAY}
        for own_to_each in ("Hostname", "Labels"):
            del config[own_to_each]
    assert found["Config"] == direct["Config"]
    assert (found["Image"], found["Config"]["User"]) == (direct["Image"], "10001:10001")
    host = found["HostConfig"]
    assert (host["Privileged"], host["NetworkMode"], host["ReadonlyRootfs"]) == (False, "none", True)
    assert (host["CapDrop"], host["CapAdd"], host["SecurityOpt"]) == (["ALL"], None, ["no-new-privileges"])
    assert not host["Binds"]
    assert not host["Devices"]
    assert (host["PidMode"], host["IpcMode"], host["UsernsMode"]) == ("", "private", "")
    assert (host["Memory"], host["MemorySwap"]) == (LIMITS.memory_bytes, LIMITS.memory_bytes)
    assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, LIMITS.processes)


def test_whoever_opens_without_end_gets_so_many(place: Place) -> None:
    most = LIMITS.interpreters + LIMITS.warm + 8
    with ExitStack() as held:
        answers = []
        for _ in range(most + 3):
            answer, keeper = say(place.path, b"open\n")
            held.enter_context(keeper)
            answers.append(answer)
        assert sum("id" in each for each in answers) == most
        assert all(each["busy"] for each in answers[most:])
        assert len(place.broker.containers(place.engine)) == most
    until_none_is_left(place)


def test_many_connections_that_say_nothing_do_not_hold_up_the_others_for_ever(place: Place) -> None:
    with ExitStack() as held:
        for _ in range(200):
            idle = held.enter_context(socket.socket(socket.AF_UNIX))
            with suppress(BlockingIOError):  # More than wait to be accepted.
                idle.setblocking(False)
                idle.connect(str(place.path))
        answer, refused = say(place.path, b"open\n")
        refused.close()
        assert answer["busy"]
    answer = {}
    while "id" not in answer:
        answer, keeper = say(place.path, b"open\n")
        keeper.close()
    until_none_is_left(place)


def close(keeper: socket.socket, id: str) -> None:
    """And wait until the broker has nothing more to ask of the engine."""
    keeper.sendall(f"close {id}\n".encode())
    assert reply(keeper) == {"ended": None}
    assert at_its_end(keeper)


def until_none_is_left(place: Place) -> None:
    limit = time.monotonic() + 20
    while place.broker.containers(place.engine):
        assert time.monotonic() < limit, "containers are left"
