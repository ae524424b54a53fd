"""Asking the user before a tool runs, in both protocol eras.

Initialize-era clients are asked in the middle of the call. A 2026-07-28 client gets the question as the call's answer
and retries the call with the user's reply; what was asked is sealed into `requestState`, so that the gateway keeps
nothing and a reply to one question cannot approve another call.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, cast

import anyio
from mcp.shared.exceptions import MCPError

from proxy.catalog.records import ToolRecord
from proxy.errors import Denied
from proxy.metatools.base import Caller
from proxy.servers.peer import ANSWER_WITHIN_S

REPLY_WITHIN_S = 600
QUESTION = "approve"
_ASKED = re.compile(r"toolatlas\.asked\.([0-9]{1,12})\.([0-9a-f]{64})")
_ALLOWED = re.compile(r"toolatlas\.allowed\.([0-9]{1,12})\.([0-9a-f]{64})\.([A-Za-z0-9_=-]*)")
"""What a server that asks further questions wants back, behind the user's yes."""


class Approvals:
    """One per gateway process; replies of another process's questions are not accepted."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock

    async def ensure(
        self, tool: ToolRecord, arguments: Mapping[str, Any], question: str, caller: Caller
    ) -> dict[str, Any] | None:
        """None when the user has allowed this call; for a 2026-07-28 client perhaps the result that asks first.

        Raises:
            Denied: The user refused, or this client cannot ask.
        """
        state = str(caller.resumed.get("requestState"))
        if not caller.origin.modern:
            answer = await _put(question, caller)
        elif (allowed := _ALLOWED.fullmatch(state)) is not None:
            self._check_seal(allowed[2], tool, arguments, caller, int(allowed[1]), allowed[3])
            answer = True
        elif not _can_be_asked(caller, question):
            answer = None
        elif (asked := _ASKED.fullmatch(state)) is None:
            return self._asking(tool, arguments, question, caller)
        else:
            self._check_seal(asked[2], tool, arguments, caller, int(asked[1]), None)
            answer = _reply(caller)
        if answer is None:
            raise Denied(
                f"'{tool.written}' was not run: the user has to allow it and this client cannot ask. "
                f'The gateway\'s owner can set "approve": "never" in the configuration entry of \'{tool.server}\'.'
            )
        if not answer:
            raise Denied(f"'{tool.written}' was not run: the user did not allow it. Do not try again unasked.")
        return None

    def left_for_server(self, caller: Caller) -> dict[str, Any]:
        """What of an allowed call's replies is for the server: nothing, unless it has asked something since."""
        allowed = _ALLOWED.fullmatch(str(caller.resumed.get("requestState")))
        if allowed is None:
            return {}
        resumed = {key: value for key, value in caller.resumed.items() if key != "requestState"}
        state = json.loads(urlsafe_b64decode(allowed[3]))
        return resumed if state is None else {**resumed, "requestState": state}

    def carried(
        self, tool: ToolRecord, arguments: Mapping[str, Any], caller: Caller, asking: dict[str, Any]
    ) -> dict[str, Any]:
        """A question of the server with the user's yes to the call kept in its state, so that it is given once."""
        state = urlsafe_b64encode(json.dumps(asking.get("requestState")).encode()).decode()
        expires = int(self._clock()) + REPLY_WITHIN_S
        seal = self._seal(tool, arguments, caller, expires, state)
        return {**asking, "requestState": f"toolatlas.allowed.{expires}.{seal}.{state}"}

    def _asking(self, tool: ToolRecord, arguments: Mapping[str, Any], question: str, caller: Caller) -> dict[str, Any]:
        expires = int(self._clock()) + REPLY_WITHIN_S
        return {
            "resultType": "input_required",
            "inputRequests": {QUESTION: {"method": "elicitation/create", "params": elicitation(question)}},
            "requestState": f"toolatlas.asked.{expires}.{self._seal(tool, arguments, caller, expires, None)}",
        }

    def _check_seal(
        self,
        seal: str,
        tool: ToolRecord,
        arguments: Mapping[str, Any],
        caller: Caller,
        expires: int,
        state: str | None,
    ) -> None:
        expected = self._seal(tool, arguments, caller, expires, state)
        if expires < self._clock() or not hmac.compare_digest(seal, expected):
            raise Denied("this approval is expired or belongs to another call; call the tool again to be asked anew")

    def _seal(
        self, tool: ToolRecord, arguments: Mapping[str, Any], caller: Caller, expires: int, state: str | None
    ) -> str:
        what = json.dumps([tool.server, tool.name, arguments, caller.agent, expires, state], sort_keys=True)
        return hmac.new(self._key, what.encode("utf-8", "surrogatepass"), sha256).hexdigest()


async def _put(question: str, caller: Caller) -> bool | None:
    """Ask in the middle of the call: the answer, or None when the agent cannot be asked."""
    if not _can_be_asked(caller, question):
        return None
    try:
        with anyio.fail_after(ANSWER_WITHIN_S):
            answer = await caller.origin.ask("elicitation/create", elicitation(question), None)
    except MCPError:
        return None
    except TimeoutError:
        return False
    return answer.get("action") == "accept"


def _can_be_asked(caller: Caller, question: str) -> bool:
    try:
        caller.origin.check("elicitation/create", elicitation(question))
    except MCPError:
        return False
    return True


def _reply(caller: Caller) -> bool:
    replies = caller.resumed.get("inputResponses")
    reply = cast(dict[str, Any], replies).get(QUESTION) if isinstance(replies, dict) else None
    return isinstance(reply, dict) and cast(dict[str, Any], reply).get("action") == "accept"


def elicitation(question: str) -> dict[str, Any]:
    """Parameters of a form without fields: accepting it is the yes."""
    return {"mode": "form", "message": question, "requestedSchema": {"type": "object", "properties": {}}}
