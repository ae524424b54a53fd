"""Whose call a server's question or message belongs to, where nothing on the wire says so."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from proxy.servers import flights
from proxy.servers.flights import Call, Flights
from proxy.servers.origin import Origin
from tests.fixtures.origins import agent

pytestmark = pytest.mark.anyio

A, B = agent("a"), agent("b")
BY_CREDENTIAL = agent("agent-local", modern=True, one_agent=False)


def call(origin: Origin | None) -> Call:
    return Call("tools/call", {"name": "x"}, 10.0, origin)


def name(found: flights.Addressee | None) -> str | None:
    return None if found is None else found.origin.session


def outside(shared: Flights, *, log: bool = False) -> str | None:
    """Whom the server means when it speaks outside the stream of any call."""
    Flights.enter_none()
    return name(shared.hearer() if log else shared.addressee())


async def test_the_only_agent_of_a_connection_is_meant_also_after_its_call() -> None:
    shared = Flights(None)
    with shared.started(call(A)):
        assert outside(shared) == "a"
    assert outside(shared) == "a"


async def test_once_a_second_agent_has_used_it_nobody_is_asked() -> None:
    shared = Flights(None)
    with shared.started(call(A)):
        pass
    with shared.started(call(B)):
        assert outside(shared) is None


async def test_the_gateways_own_requests_make_nobody_a_user() -> None:
    shared = Flights(None)
    with shared.started(call(None)):
        assert outside(shared) is None
    with shared.started(call(A)):
        assert outside(shared) == "a"


async def test_on_the_stream_of_a_call_its_own_agent_is_meant_whoever_else_is_there() -> None:
    shared = Flights(None)
    with shared.started(call(B)), shared.started(call(A)):
        assert name(shared.addressee()) == "a"


async def test_two_calls_of_one_credential_may_be_of_two_programs() -> None:
    own = Flights(BY_CREDENTIAL)
    with ExitStack() as calls:
        calls.enter_context(own.started(call(BY_CREDENTIAL)))
        assert outside(own) == "agent-local"
        calls.enter_context(own.started(call(BY_CREDENTIAL)))
        assert outside(own) is None


@pytest.mark.parametrize(("late_s", "heard_by"), [(60.0, None), (0.0, "b")])
async def test_a_message_may_still_be_of_the_agent_whose_call_has_just_ended(
    monkeypatch: pytest.MonkeyPatch, late_s: float, heard_by: str | None
) -> None:
    monkeypatch.setattr(flights, "LATE_S", late_s)
    shared = Flights(None)
    with shared.started(call(A)):
        pass
    with shared.started(call(B)):
        assert outside(shared, log=True) == heard_by


async def test_a_message_while_two_agents_have_calls_is_nobodys() -> None:
    shared = Flights(None)
    with shared.started(call(A)), shared.started(call(B)):
        assert outside(shared, log=True) is None
