"""A call that waits for its agent's reply is given up when the agent does not come back, and somebody is told."""

from __future__ import annotations

import anyio
import pytest

from proxy.endpoint import parking
from proxy.endpoint.parking import ParkableCall, Parking
from proxy.errors import Denied

pytestmark = pytest.mark.anyio


async def test_a_call_whose_agent_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "KEEP_S", 0.05)
    given_up = anyio.Event()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            waiting = Parking(tasks.start_soon)
            call = ParkableCall("agent", "what")
            call.on_given_up = given_up.set
            waiting.begin(call, lambda: call.ask("elicitation/create", {}, None))
            asked = await waiting.answer(call)
            assert asked["resultType"] == "input_required"
            await given_up.wait()
    again = ParkableCall("agent", "what")
    with pytest.raises(Denied, match="expired"):
        waiting.taken_up(again, {"requestState": asked["requestState"], "inputResponses": {}})


async def test_a_call_that_waits_when_the_gateway_ends_is_given_up_once() -> None:
    given_up: list[str] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            waiting = Parking(tasks.start_soon)
            call = ParkableCall("agent", "what")
            call.on_given_up = lambda: given_up.append("call")
            waiting.begin(call, lambda: call.ask("elicitation/create", {}, None))
            assert (await waiting.answer(call))["resultType"] == "input_required"
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert given_up == ["call"]
