"""The user's yes counts for the call that was asked about, and for no other."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from mcp.shared.exceptions import NoBackChannelError

from proxy.catalog.records import ToolRecord
from proxy.errors import Denied
from proxy.metatools.approval import QUESTION, REPLY_WITHIN_S, Approvals
from proxy.metatools.base import Caller
from tests.fixtures.origins import agent as origin

pytestmark = pytest.mark.anyio
TOOL = ToolRecord(server="files", name="delete", written="files.delete", raw={"name": "delete"})
ARGUMENTS = {"path": "/tmp/x", "deep": {"a": [1, "2"]}}
ACCEPT = {QUESTION: {"action": "accept", "content": {}}}


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def modern(resumed: Mapping[str, Any] | None = None, agent: str = "alice") -> Caller:
    return Caller(agent=agent, origin=origin(modern=True, capabilities={"elicitation": {}}), resumed=resumed or {})


async def state_of(approvals: Approvals, arguments: Mapping[str, Any] = ARGUMENTS) -> str:
    asking = await approvals.ensure(TOOL, arguments, "Allow?", modern())
    assert asking is not None
    return asking["requestState"]


async def reply(
    approvals: Approvals,
    state: str,
    *,
    tool: ToolRecord = TOOL,
    arguments: Mapping[str, Any] = ARGUMENTS,
    agent: str = "alice",
    responses: Any = ACCEPT,
) -> dict[str, Any] | None:
    resumed = {"requestState": state, "inputResponses": responses}
    return await approvals.ensure(tool, arguments, "Allow?", modern(resumed, agent))


async def test_a_modern_client_gets_the_question_as_the_answer() -> None:
    asking = await Approvals().ensure(TOOL, ARGUMENTS, "Allow files.delete?", modern())
    assert asking is not None
    assert asking["resultType"] == "input_required"
    request = asking["inputRequests"][QUESTION]
    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == "Allow files.delete?"


async def test_a_yes_allows_the_call_that_was_asked_about() -> None:
    approvals = Approvals()
    assert await reply(approvals, await state_of(approvals)) is None


async def test_the_order_of_arguments_does_not_matter() -> None:
    approvals = Approvals()
    turned = dict(reversed(ARGUMENTS.items()))
    assert list(turned) != list(ARGUMENTS)
    assert await reply(approvals, await state_of(approvals), arguments=turned) is None


OTHER_TOOL = replace(TOOL, name="delete_all")
OTHER_SERVER = replace(TOOL, server="mail")


@pytest.mark.parametrize(
    "changed",
    [
        {"tool": OTHER_TOOL},
        {"tool": OTHER_SERVER},
        {"arguments": {**ARGUMENTS, "path": "/"}},
        {"arguments": {**ARGUMENTS, "deep": {"a": ["1", "2"]}}},
        {"arguments": {}},
        {"agent": "mallory"},
    ],
)
async def test_a_yes_to_one_call_allows_no_other(changed: dict[str, Any]) -> None:
    approvals = Approvals()
    state = await state_of(approvals)
    with pytest.raises(Denied, match="belongs to another call"):
        await reply(approvals, state, **changed)


async def test_a_yes_counts_until_it_expires_and_its_time_cannot_be_changed() -> None:
    clock = Clock()
    approvals = Approvals(clock)
    state = await state_of(approvals)
    clock.now += REPLY_WITHIN_S
    assert await reply(approvals, state) is None
    clock.now += 1
    with pytest.raises(Denied, match="expired"):
        await reply(approvals, state)
    *prefix, expires, seal = state.split(".")
    with pytest.raises(Denied, match="expired"):
        await reply(approvals, f"{'.'.join(prefix)}.{int(expires) + 1000}.{seal}")


async def test_another_process_seals_differently() -> None:
    with pytest.raises(Denied, match="call the tool again"):
        await reply(Approvals(), await state_of(Approvals()))


@pytest.mark.parametrize(
    "responses",
    [
        None,
        "accept",
        {},
        {QUESTION: "accept"},
        {QUESTION: {"action": "decline"}},
        {QUESTION: {"action": "cancel"}},
        {"other": {"action": "accept"}},
    ],
)
async def test_anything_but_a_plain_yes_is_a_no(responses: Any) -> None:
    approvals = Approvals()
    with pytest.raises(Denied, match="did not allow it"):
        await reply(approvals, await state_of(approvals), responses=responses)


@pytest.mark.parametrize(
    "state",
    [
        "",
        "a server's own state",
        "toolatlas.",
        "toolatlas..",
        "toolatlas.²." + "0" * 64,
        "toolatlas.9999999999.é",
        "toolatlas.9999999999.\ud800",
        "toolatlas." + "9" * 5000 + "." + "0" * 64,
        base64.b64encode(b"toolatlas.1.2").decode(),
        7,
        {"toolatlas": 1},
    ],
)
async def test_a_state_that_is_not_ours_is_no_yes_and_the_user_is_asked(state: Any) -> None:
    asking = await reply(Approvals(), state)
    assert asking is not None
    assert asking["resultType"] == "input_required"


async def test_a_forged_seal_is_refused() -> None:
    with pytest.raises(Denied):
        await reply(Approvals(), "toolatlas.asked.9999999999." + "0" * 64)


async def test_arguments_that_are_no_valid_text_can_be_sealed() -> None:
    approvals = Approvals()
    arguments = {"path": "\ud800"}
    assert await reply(approvals, await state_of(approvals, arguments), arguments=arguments) is None


@pytest.mark.parametrize("capabilities", [{}, {"sampling": {}}, {"elicitation": {"url": {}}}])
async def test_a_modern_client_without_forms_is_told_the_setting(capabilities: dict[str, Any]) -> None:
    caller = replace(modern(), origin=origin(modern=True, capabilities=capabilities))
    with pytest.raises(Denied, match=r'"approve": "never".*\'files\''):
        await Approvals().ensure(TOOL, ARGUMENTS, "Allow?", caller)


@pytest.mark.parametrize(
    ("answer", "said"), [("accept", None), ("decline", "did not allow it"), ("cancel", "did not allow it")]
)
async def test_a_client_with_a_session_is_asked_in_the_middle_of_the_call(answer: str, said: str | None) -> None:
    asked: list[tuple[str, str]] = []

    async def ask(method: str, params: Mapping[str, Any], on_progress: object) -> dict[str, Any]:
        asked.append((method, params["message"]))
        return {"action": answer}

    caller = Caller(agent="alice", origin=origin(capabilities={"elicitation": {}}, ask=ask))
    if said is None:
        assert await Approvals().ensure(TOOL, ARGUMENTS, "Allow?", caller) is None
    else:
        with pytest.raises(Denied, match=said):
            await Approvals().ensure(TOOL, ARGUMENTS, "Allow?", caller)
    assert asked == [("elicitation/create", "Allow?")]


async def test_a_client_with_a_session_that_cannot_be_reached_cannot_be_asked() -> None:
    async def ask(method: str, params: Mapping[str, Any], on_progress: object) -> dict[str, Any]:
        raise NoBackChannelError(method)

    caller = Caller(agent="alice", origin=origin(capabilities={"elicitation": {}}, ask=ask))
    with pytest.raises(Denied, match="cannot ask"):
        await Approvals().ensure(TOOL, ARGUMENTS, "Allow?", caller)


async def test_a_yes_is_given_once_though_the_server_asks_more() -> None:
    approvals = Approvals()
    asking = {"resultType": "input_required", "inputRequests": {"k": {}}, "requestState": "the server's"}
    carried = approvals.carried(TOOL, ARGUMENTS, modern(), asking)
    assert carried["inputRequests"] == asking["inputRequests"]
    again = modern({"requestState": carried["requestState"], "inputResponses": {"k": {"action": "accept"}}})
    assert await approvals.ensure(TOOL, ARGUMENTS, "Allow?", again) is None
    assert approvals.left_for_server(again) == {
        "requestState": "the server's",
        "inputResponses": {"k": {"action": "accept"}},
    }


async def test_a_yes_that_was_carried_holds_for_no_other_call() -> None:
    approvals = Approvals()
    state = approvals.carried(TOOL, ARGUMENTS, modern(), {"resultType": "input_required"})["requestState"]
    with pytest.raises(Denied, match="another call"):
        await approvals.ensure(TOOL, {"path": "/"}, "Allow?", modern({"requestState": state}))
    with pytest.raises(Denied, match="another call"):
        await approvals.ensure(TOOL, ARGUMENTS, "Allow?", modern({"requestState": state}, "eve"))
    with pytest.raises(Denied, match="another call"):
        await approvals.ensure(TOOL, ARGUMENTS, "Allow?", modern({"requestState": state[:-4] + "IjEi"}))


async def test_a_reply_to_the_gateways_own_question_is_not_for_the_server() -> None:
    assert (
        Approvals().left_for_server(modern({"requestState": await state_of(Approvals()), "inputResponses": ACCEPT}))
        == {}
    )
