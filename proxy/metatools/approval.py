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
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, cast

from proxy.catalog.records import ToolRecord
from proxy.errors import Denied
from proxy.metatools.base import Caller

REPLY_WITHIN_S = 600
QUESTION = "approve"
_SEALED = re.compile(r"toolatlas\.([0-9]{1,12})\.([0-9a-f]{64})")


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
        if not caller.modern:
            answer = await caller.ask(question)
        elif "elicitation" not in (caller.capabilities or {}):
            answer = None
        elif (sealed := _SEALED.fullmatch(str(caller.resumed.get("requestState")))) is None:
            return self._asking(tool, arguments, question, caller)
        else:
            answer = self._reply(tool, arguments, caller, int(sealed[1]), sealed[2])
        if answer is None:
            raise Denied(
                f"'{tool.written}' was not run: the user has to allow it and this client cannot ask. "
                f'The gateway\'s owner can set "approve": "never" in the configuration entry of \'{tool.server}\'.'
            )
        if not answer:
            raise Denied(f"'{tool.written}' was not run: the user did not allow it. Do not try again unasked.")
        return None

    def _asking(self, tool: ToolRecord, arguments: Mapping[str, Any], question: str, caller: Caller) -> dict[str, Any]:
        expires = int(self._clock()) + REPLY_WITHIN_S
        return {
            "resultType": "input_required",
            "inputRequests": {QUESTION: {"method": "elicitation/create", "params": elicitation(question)}},
            "requestState": f"toolatlas.{expires}.{self._seal(tool, arguments, caller, expires)}",
        }

    def _reply(self, tool: ToolRecord, arguments: Mapping[str, Any], caller: Caller, expires: int, seal: str) -> bool:
        if expires < self._clock() or not hmac.compare_digest(seal, self._seal(tool, arguments, caller, expires)):
            raise Denied("this approval is expired or belongs to another call; call the tool again to be asked anew")
        replies = caller.resumed.get("inputResponses")
        reply = cast(dict[str, Any], replies).get(QUESTION) if isinstance(replies, dict) else None
        return isinstance(reply, dict) and cast(dict[str, Any], reply).get("action") == "accept"

    def _seal(self, tool: ToolRecord, arguments: Mapping[str, Any], caller: Caller, expires: int) -> str:
        what = json.dumps([tool.server, tool.name, arguments, caller.agent, expires], sort_keys=True)
        return hmac.new(self._key, what.encode("utf-8", "surrogatepass"), sha256).hexdigest()


def elicitation(question: str) -> dict[str, Any]:
    """Parameters of a form without fields: accepting it is the yes."""
    return {"mode": "form", "message": question, "requestedSchema": {"type": "object", "properties": {}}}
