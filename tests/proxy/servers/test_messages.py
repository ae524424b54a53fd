"""Reading and checking single messages; what this means for calls is shown in tests/proxy/test_fidelity.py."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from proxy.errors import InvalidArguments
from proxy.servers.messages import ExactWriter, checked, read_message

pytestmark = pytest.mark.anyio


def test_a_message_is_read_as_it_is() -> None:
    message = read_message('{"jsonrpc":"2.0","id":7,"result":{"v":9007199254740993,"w":[1.0,"\u2028"]}}'.encode())
    assert message == JSONRPCResponse(jsonrpc="2.0", id=7, result={"v": 2**53 + 1, "w": [1.0, "\u2028"]})


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        ('{"jsonrpc":"2.0","id":"a","result":{"v":NaN}}', "a"),
        ('{"jsonrpc":"2.0","id":7,"result":{"v":"\\ud800"}}', 7),
        ('{"jsonrpc":"2.0","id":7,"result":{"v":' + "1" * 5000 + "}}", 7),
        ('{"jsonrpc":"2.0","id":7,"error":"broken"}', 7),
        ('{"jsonrpc":"2.0","id":7,"result":' + '{"id":1,"v":' * 3000 + "1" + "}" * 3000 + "}", 7),
        ('{"result":{"v":[1,]},"jsonrpc":"2.0","id":7}', 7),
        ('{"jsonrpc":"2.0","result":{"v":[1,]},"id":7}', 7),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_for_its_request(line: str, answered: int | str) -> None:
    message = read_message(line)
    assert isinstance(message, JSONRPCError)
    assert message.id == answered
    assert "cannot be handed on" in message.error.message


@pytest.mark.parametrize(
    "line",
    [
        *("", "starting up", "{}", "[]", "7", '{"level":"info","id":7}', '{"jsonrpc":"2.0","id":true,"result":NaN}'),
        *('{"jsonrpc":"2.0","id":7,"method":"x","params":{"v":NaN}}', '{"jsonrpc":"2.0","id":7,"result":{"v":'),
        '{"note":"id","jsonrpc":"2.0","result":{},,"x":{"id":7}}',
    ],
)
def test_a_line_that_answers_nothing_is_no_message(line: str) -> None:
    assert read_message(line) is None


def test_an_event_that_the_sdk_could_not_read_is_an_error_for_its_request() -> None:
    with pytest.raises(ValidationError) as caught:
        jsonrpc_message_adapter.validate_json('{"jsonrpc":"2.0","id":7,"result":{"v":"\\ud800"}}')
    item = checked(caught.value)
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCError)
    assert item.message.id == 7
    assert checked(error := ValueError("other")) is error


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
async def test_a_number_that_json_does_not_have_is_neither_taken_nor_sent(number: float) -> None:
    taken = checked(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result={"v": [number]})))
    assert isinstance(taken, SessionMessage)
    assert isinstance(taken.message, JSONRPCError)
    send, receive = anyio.create_memory_object_stream[SessionMessage](1)
    async with ExactWriter(send) as writer, receive:
        with pytest.raises(InvalidArguments, match="beyond the range"):
            await writer.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="x", params={"v": number})))
        good = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=2, method="x", params={"v": 10**400}))
        await writer.send(good)
        assert await receive.receive() is good
        assert json.loads(good.message.model_dump_json())["params"] == {"v": 10**400}
