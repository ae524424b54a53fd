"""Frames over a real socket, with the engine's wrapping, from a supervisor that has been taken over."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from proxy.sandbox import exchange
from proxy.sandbox.base import Limits, Reply, RunResult, Status
from proxy.sandbox.channel import BrokenFrame, Channel, ChannelClosed, encode
from proxy.sandbox.exchange import Exchange, Overdue
from proxy.sandbox.frames import MAX_FRAME
from proxy.sandbox.incoming import MAX_FAILURE, MAX_NAME
from tests.sandbox.conftest import Tools, until

pytestmark = pytest.mark.anyio

LIMITS = Limits(grace_s=0.4)
DONE: dict[str, Any] = {
    "op": "done",
    "run": 1,
    "status": "ok",
    "output": "",
    "gap_at": 0,
    "left_out": 0,
    "value": None,
    "failure": None,
    "kept": True,
    "lost_because": None,
    "seconds": 0.1,
}
CALL: dict[str, Any] = {"op": "call", "run": 1, "call": 1, "tool": "s.echo", "arguments": {"value": 1}}


def wrapped(payload: bytes, stream: int = 1) -> bytes:
    return struct.pack(">BxxxI", stream, len(payload)) + payload


def frame(value: Any) -> bytes:
    return wrapped(json.dumps(value).encode() + b"\n")


class Peer:
    """The container's side of a channel, in the test's hands."""

    def __init__(self, ours: socket.socket) -> None:
        ours.setblocking(False)
        self._socket = ours
        self._read = b""

    async def send(self, data: bytes) -> None:
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def receive(self) -> dict[str, Any]:
        while b"\n" not in self._read:
            try:
                got = self._socket.recv(1 << 20)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                continue
            assert got, "the gateway has closed the channel"
            self._read += got
        line, self._read = self._read.split(b"\n", 1)
        return json.loads(line)

    def has_nothing(self) -> bool:
        """Whether the gateway has sent nothing that was not received."""
        with suppress(BlockingIOError):
            self._read += self._socket.recv(1 << 20)
        return not self._read

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Channel, Peer]]:
    theirs, ours = socket.socketpair()
    channel, peer = Channel(theirs, theirs.close), Peer(ours)
    try:
        with anyio.fail_after(30):
            yield channel, peer
    finally:
        channel.close()
        peer.close()


async def answered(
    *sent: bytes, limits: Limits = LIMITS, timeout_s: float = 10.0
) -> tuple[RunResult, list[dict[str, Any]]]:
    """What run 1 comes to if a supervisor sends all that, and what the supervisor got before it did so."""
    got: list[dict[str, Any]] = []
    async with connected() as (channel, peer):

        async def supervise() -> None:
            got.append(await peer.receive())
            for data in sent:
                await peer.send(data)
                if b'"call"' in data or b'"look_up"' in data:
                    got.append(await peer.receive())

        outcome: RunResult | Exception
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervise)
            try:
                outcome = await Exchange(channel, 1, limits, Tools(), timeout_s).perform("1")
            except (ChannelClosed, Overdue) as error:
                outcome = error
            tasks.cancel_scope.cancel()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome, got


async def test_a_frame_arrives_in_whatever_pieces_it_comes() -> None:
    async with connected() as (channel, peer):
        line = json.dumps({"op": "x", "text": "é" * 10}, ensure_ascii=False).encode() + b"\n"
        whole = wrapped(line[:5]) + wrapped(b"noise", stream=2) + wrapped(line[5:] + line)
        for at in range(len(whole)):
            await peer.send(whole[at : at + 1])
            channel.alive()
        assert [(await channel.receive())[0]["text"] for _ in range(2)] == ["é" * 10] * 2
        assert channel.last_words == "noise"


async def test_frames_sent_at_the_same_time_do_not_mix() -> None:
    big = "x" * 1_000_000
    async with connected() as (channel, peer):
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(channel.send, encode({"number": number, "text": big}))
            got = [await peer.receive() for _ in range(6)]
        assert sorted(each["number"] for each in got) == list(range(6))


async def test_a_frame_whose_sender_was_cancelled_half_way_is_not_torn() -> None:
    big = "x" * 4_000_000
    async with connected() as (channel, peer):
        with anyio.move_on_after(0.1) as limit:
            await channel.send(encode({"text": big}))
        assert limit.cancelled_caught, "the whole frame fitted into the socket"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.send, encode({"text": "next"}))
            assert [len((await peer.receive())["text"]) for _ in range(2)] == [len(big), 4]


async def test_closing_wakes_whoever_waits() -> None:
    async with connected() as (channel, _peer):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(ChannelClosed):
                    await channel.receive()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            channel.close()
        assert not channel.alive()


async def test_a_peer_that_is_gone_is_noticed_without_waiting() -> None:
    async with connected() as (channel, peer):
        assert channel.alive()
        peer.close()
        assert not channel.alive()
        with pytest.raises(ChannelClosed):
            await channel.receive()


HOSTILE = {
    "no wrapping": b'{"op": "ready", "fresh": true}\n',
    "another stream": wrapped(b"{}\n", stream=9),
    "an endless payload": struct.pack(">BxxxI", 1, MAX_FRAME + 1),
    "no JSON": wrapped(b"no\n"),
    "no object": wrapped(b"[1]\n"),
    "no UTF-8": wrapped(b'{"op": "\xff"}\n'),
    "deep nesting": wrapped(b'{"a":' * 100_000 + b"\n"),
    "a huge number": wrapped(b'{"op": ' + b"9" * 10_000 + b"}\n"),
    "no operation": frame({}),
    "an unknown operation": frame({"op": "open_shell"}),
    "a list as operation": frame({"op": []}),
    "another run": frame({**DONE, "run": 2}),
    "a run of another type": frame({**DONE, "run": True}),
    "no status": frame({**DONE, "status": None}),
    "an unknown status": frame({**DONE, "status": "fine"}),
    "no output": frame({**DONE, "output": None}),
    "a negative gap": frame({**DONE, "left_out": -1}),
    "a gap of another type": frame({**DONE, "gap_at": 1.5}),
    "a value that is none": frame({**DONE, "value": [1]}),
    "kept of another type": frame({**DONE, "kept": "yes"}),
    "a failure without fields": frame({**DONE, "failure": {}}),
    "a call without a number": frame({**CALL, "call": None}),
    "a call of another run": frame({**CALL, "run": 7}),
    "arguments that are none": frame({**CALL, "arguments": []}),
    "a tool of another type": frame({**CALL, "tool": {"a": 1}}),
    "a look-up without a name": frame({"op": "look_up", "run": 1, "call": 1, "what": "help"}),
    "ready of another type": frame({"op": "ready", "fresh": "yes"}),
}


@pytest.mark.parametrize("sent", [pytest.param(sent, id=name) for name, sent in HOSTILE.items()])
async def test_what_no_supervisor_sends_ends_the_container(sent: bytes) -> None:
    with pytest.raises(BrokenFrame):
        await answered(sent)


async def test_a_line_without_end_ends_the_container() -> None:
    async with connected() as (channel, peer):

        async def flood() -> None:
            while True:
                await peer.send(wrapped(b"x" * 1_000_000))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            with pytest.raises(BrokenFrame, match="more than"):
                await channel.receive()
            tasks.cancel_scope.cancel()


async def test_what_is_too_long_is_cut_and_what_has_no_utf_8_replaced() -> None:
    limits = replace(LIMITS, output_kept=10)
    failure = {"kind": "E\ud800", "message": "m" * 2 * MAX_FAILURE, "traceback": "t" * 2 * MAX_FAILURE + "last"}
    done = {**DONE, "output": "o" * 20, "gap_at": 9, "value": "v\ud800" * 20, "failure": failure}
    result, _ = await answered(frame(done), limits=limits)
    assert (result.output.text, result.value) == ("o" * 10, "v?" * 5)
    assert result.failure
    assert result.failure.kind == "E?"
    assert (len(result.failure.message), len(result.failure.traceback)) == (MAX_FAILURE, MAX_FAILURE)
    assert result.failure.traceback.endswith("last")


async def test_a_call_is_answered_and_counted() -> None:
    result, got = await answered(frame({**CALL, "call": 5}), frame(DONE))
    assert got[1] == {"op": "reply", "run": 1, "call": 5, "ok": True, "value": 1}
    assert (result.status, result.calls) == (Status.OK, 1)


async def test_a_name_without_end_is_cut_before_anybody_looks_for_it() -> None:
    _, got = await answered(frame({**CALL, "tool": "x" * 100_000}), frame(DONE))
    assert not got[1]["ok"]
    assert len(got[1]["tool"]) == MAX_NAME


REFUSED = {
    "too long": ({"value": "x" * 2_000}, "most"),
    "half a surrogate pair": ({"value": "\ud800"}, "surrogate"),
    "NaN": ({"value": float("nan")}, "NaN"),
}


@pytest.mark.parametrize(("arguments", "words"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
async def test_arguments_that_no_server_can_get_are_refused_in_the_code(arguments: dict[str, Any], words: str) -> None:
    limits = replace(LIMITS, argument_bytes=1_000)
    result, got = await answered(frame({**CALL, "arguments": arguments}), frame(DONE), limits=limits)
    assert not got[1]["ok"]
    assert words in got[1]["value"]
    assert result.calls == 0


async def test_a_result_that_is_too_large_is_an_error_in_the_code() -> None:
    limits = replace(LIMITS, value_bytes=1_000)
    call = {**CALL, "arguments": {"value": "x" * 998}}
    _, got = await answered(frame(call), frame({**call, "arguments": {"value": "x" * 999}}), frame(DONE), limits=limits)
    assert got[1]["ok"]
    assert not got[2]["ok"]
    assert got[2]["tool"] == "s.echo"
    assert "1,001 bytes" in got[2]["value"]


async def test_one_run_makes_so_many_calls_and_no_more() -> None:
    limits = replace(LIMITS, calls=2)
    look_up = {"op": "look_up", "run": 1, "call": 9, "what": "help", "name": "s"}
    result, got = await answered(*[frame(CALL)] * 3, *[frame(look_up)] * 3, frame(DONE), limits=limits)
    assert [each["ok"] for each in got[1:]] == [True, True, False, True, True, False]
    assert "may make 2 tool calls" in got[3]["value"]
    assert result.calls == 2


async def test_large_arguments_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PENDING_BYTES", 3_000)
    tools, limits = Tools(), replace(LIMITS, parallel=1)
    async with connected() as (channel, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Exchange(channel, 1, limits, tools, 10.0).perform, "1")
            await peer.receive()
            call = {**CALL, "tool": "s.hang", "arguments": {"value": "x" * 1_000}}
            for _ in range(3):
                await peer.send(frame(call))
            refused = await peer.receive()
            assert "too many large calls" in refused["value"]
            await peer.send(frame(DONE))
    assert [tool for tool, _ in tools.made] == ["s.hang"]


async def test_who_sends_without_reading_is_not_read_from_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of calls beyond the limit fills the way back, and then nothing more is taken in."""
    monkeypatch.setattr(exchange, "SLACK_S", 0.1)
    limits = replace(LIMITS, calls=1)
    async with connected() as (channel, peer):
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await peer.send(frame({**CALL, "tool": "x" * 400}))
                sent += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            with pytest.raises(Overdue):
                await Exchange(channel, 1, limits, Tools(), 0.1).perform("1")
            tasks.cancel_scope.cancel()
        assert sent < 50_000


async def test_a_supervisor_that_does_not_report_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SLACK_S", 0.1)
    with pytest.raises(Overdue):
        await answered(timeout_s=0.1)


async def test_a_call_outstanding_at_the_deadline_is_cancelled_and_answered_after_the_interrupt() -> None:
    tools, limits = Tools(), replace(LIMITS, grace_s=1.6)
    async with connected() as (channel, peer):
        async with anyio.create_task_group() as tasks:

            async def perform() -> None:
                result = await Exchange(channel, 1, limits, tools, 0.2).perform("1")
                assert result.status is Status.TIMEOUT

            tasks.start_soon(perform)
            await peer.receive()
            await peer.send(frame({**CALL, "tool": "s.hang"}))
            await until(lambda: tools.cancelled == 1, "the call is cancelled")
            assert peer.has_nothing()
            reply = await peer.receive()
            assert not reply["ok"]
            assert "time of the run is over" in reply["value"]
            assert tools.cancelled == 1
            await peer.send(frame({**DONE, "status": "timeout"}))


@pytest.mark.parametrize("obeys", [True, False])
async def test_cancelling_interrupts_and_waits_for_the_report(obeys: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SLACK_S", 0.1)
    tools = Tools()
    async with connected() as (channel, peer):
        run = Exchange(channel, 1, LIMITS, tools, 10.0)
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as supervisor:

            async def supervise() -> None:
                assert (await peer.receive())["op"] == "run"
                await peer.send(frame({**CALL, "tool": "s.hang"}))
                await tools.began.wait()
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    assert await peer.receive() == {"op": "interrupt", "run": 1}
                    # Threads of the code that wait for their call get an answer too.
                    assert not (await peer.receive())["ok"]
                    if obeys:
                        await peer.send(frame({**DONE, "status": "cancelled"}))

            supervisor.start_soon(supervise)
            await run.perform("1")
        assert tools.cancelled == 1
        assert (run.settled is not None) is obeys


async def test_a_call_that_raises_is_no_answer() -> None:
    class Faulty(Tools):
        async def call(self, tool: str, arguments: Any) -> Reply:
            raise ZeroDivisionError

    async with connected() as (channel, peer):
        await peer.send(frame(CALL))
        with pytest.raises(ExceptionGroup) as raised:
            await Exchange(channel, 1, LIMITS, Faulty(), 10.0).perform("1")
        assert raised.group_contains(ZeroDivisionError)


async def test_a_new_interpreter_before_the_report_is_noticed() -> None:
    async with connected() as (channel, peer):
        await peer.send(frame({"op": "ready", "fresh": True}) + frame(DONE))
        run = Exchange(channel, 1, LIMITS, Tools(), 10.0)
        await run.perform("1")
        assert run.fresh
        await until(channel.alive, "the channel is usable")


async def test_a_report_that_came_just_before_the_cancelling_is_enough() -> None:
    class Slow(Tools):
        """Takes its time to be cancelled, and by then the agent has cancelled too."""

        async def call(self, tool: str, arguments: Any) -> Reply:
            self.began.set()
            try:
                await anyio.sleep_forever()
            finally:
                tasks.cancel_scope.cancel()

    tools = Slow()
    async with connected() as (channel, peer):
        run = Exchange(channel, 1, LIMITS, tools, 10.0)
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as supervisor:

            async def supervise() -> None:
                await peer.receive()
                await peer.send(frame(CALL))
                await tools.began.wait()
                await peer.send(frame(DONE))

            supervisor.start_soon(supervise)
            await run.perform("1")
        assert run.settled is not None
        assert run.settled.status is Status.OK
        assert peer.has_nothing(), "there was nothing to interrupt"


async def test_frames_that_are_there_already_leave_the_others_their_turn() -> None:
    """Else no deadline would hold against a container that never stops sending."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    ready = frame({"op": "ready", "fresh": True})
    count = 100_000 // len(ready)
    async with connected() as (channel, peer):
        await peer.send(ready * count)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turns)
            for _ in range(count):
                await channel.receive()
            assert turns > 0
            tasks.cancel_scope.cancel()
