"""Whether an episode may be shown to an endpoint: what servers answered leaves this machine only where that is allowed.

Above: model_judge.py, writing/by_model.py. Below: case.py. As in the log, it is calls that make an episode a server's:
what a search tells of a tool is no content. A call that came to no tool counts for the server that its name begins
with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from judge.case import Case
from judge.model.endpoint import Endpoint
from judge.scripted import Scripted
from proxy.store.trajectory import TrajectoryStep

ALL = "*"
UNKNOWN = "(not known)"
"""Stands for the server of a call that was never written, or not so that one could read it."""
CALL = "call_tool"
"""The meta-tool that takes the name of a tool."""
_SEPARATOR = re.compile(r"\.|__")


def servers_of(case: Case) -> frozenset[str]:
    """Configured names of the servers that the episode called, or meant to call. None of what was written by hand:
    canaries and the gold set hold nobody's contents, and no judge goes without them."""
    if isinstance(case.trajectory, Scripted):
        return frozenset()
    called = {act.server for act in case.acts}
    configured = {} if case.catalogue is None else {each.written: each.name for each in case.catalogue.servers}
    for step in case.trajectory.every_step():
        if step.call is None and (meant := _meant(step)) is not None:
            called.add(configured.get(meant, meant))
    return frozenset(called | {UNKNOWN} if case.trajectory.lost else called)


def _meant(step: TrajectoryStep) -> str | None:
    """The server, as the agent wrote it, that a call was for which came to no tool."""
    name, arguments = step.name, step.arguments
    if name == CALL:
        if not isinstance(arguments, Mapping):
            # Models send arguments as text, too, and not always so that one could read it.
            return UNKNOWN
        name = str(cast("Mapping[str, Any]", arguments).get("tool"))
    server, *tool = _SEPARATOR.split(name, maxsplit=1)
    return server if tool else None


def withheld(endpoint: Endpoint, servers: frozenset[str], permitted: frozenset[str]) -> frozenset[str]:
    """Those of `servers` that `endpoint` may not see; empty where it may be asked."""
    return servers - permitted if endpoint.remote and ALL not in permitted else frozenset()
