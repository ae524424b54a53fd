"""What can be said on the broker's socket, and that nothing else can."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.broker import protocol
from proxy.broker.protocol import MAX_REQUEST, Refused, Request, Verb, new_id, parse
from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.source import State

ID = "0123456789abcdef" * 4
REQUESTS = [Request(Verb.OPEN), Request(Verb.ATTACH, ID), Request(Verb.CLOSE, ID)]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.verb)
def test_a_request_is_read_as_it_was_written(request_: Request) -> None:
    line = request_.line()
    assert parse(line.removesuffix(b"\n")) == request_
    assert len(line) <= MAX_REQUEST


@given(st.one_of(st.binary(max_size=100), st.text(max_size=100).map(str.encode)))
def test_whatever_is_read_as_a_request_says_nothing_but_a_verb_and_an_id(line: bytes) -> None:
    try:
        request = parse(line)
    except Refused:
        return
    assert request.line() == line + b"\n"


@given(st.sampled_from(REQUESTS), st.integers(0, 72), st.binary(min_size=1, max_size=8))
def test_a_request_with_anything_in_it_or_around_it_is_none(request: Request, at: int, more: bytes) -> None:
    line = request.line().removesuffix(b"\n")
    changed = line[:at] + more + line[at:]
    with pytest.raises(Refused):
        parse(changed)


def test_ids_differ_and_tell_nothing() -> None:
    ids = {new_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(re.fullmatch("[0-9a-f]{64}", id) for id in ids)


@given(st.one_of(st.none(), st.builds(State, st.booleans(), st.booleans(), st.integers(0, 255))))
def test_how_a_container_ended_is_read_as_it_was_written(state: State | None) -> None:
    assert protocol.read_ended(protocol.ended(state)) == state


def test_other_replies_are_read_as_they_were_written() -> None:
    assert protocol.read_opened(protocol.opened(ID)) == ID
    protocol.read_attached(protocol.attached())


@pytest.mark.parametrize("read", [protocol.read_opened, protocol.read_attached, protocol.read_ended])
def test_a_refusal_is_an_error_in_the_brokers_words(read: Callable[[bytes], object]) -> None:
    with pytest.raises(SandboxError, match=r"^no more$") as caught:
        read(protocol.refusal(Refused("no more")))
    assert not isinstance(caught.value, SandboxBusy)
    with pytest.raises(SandboxBusy, match=r"^not now$"):
        read(protocol.refusal(Refused("not now", busy=True)))
    with pytest.raises(SandboxError, match=r"^x{500}$"):
        read(protocol.refusal(Refused("x" * 10_000)))


NO_REPLIES = st.one_of(
    st.binary(max_size=50),
    st.recursive(
        st.just(False) | st.integers() | st.text(max_size=5),
        lambda inner: st.dictionaries(st.sampled_from(["id", "attached", "ended", "x"]), inner) | st.lists(inner),
    ).map(lambda value: json.dumps(value).encode()),
)


@given(NO_REPLIES)
def test_what_is_no_reply_is_said_to_come_from_no_broker(line: bytes) -> None:
    for read in (protocol.read_opened, protocol.read_attached, protocol.read_ended):
        with pytest.raises(SandboxError, match="is no broker of this version"):
            read(line)
