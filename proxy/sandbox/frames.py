"""The frames between the gateway and the supervisor in a container: JSON objects, one a line, UTF-8, none longer than
`MAX_FRAME`.

Above: sandbox/channel.py. The other side is deploy/sandbox/supervisor.py, which cannot import this and keeps the same
names. Whatever comes out of a container is hostile: unknown operations, missing or ill-typed fields, wrong run ids and
overlong lines end the container.

To the supervisor (container's stdin):

    {"op": "run", "run": 7, "code": "...", "timeout": 30.0, "servers": ["git", "time"], "limits": {...}}
    {"op": "reply", "run": 7, "call": 3, "ok": true, "value": ...}
    {"op": "reply", "run": 7, "call": 3, "ok": false, "value": "text of the error", "tool": "git.log"}
    {"op": "extend", "run": 7, "seconds": 300.0}    the time limit moves, back where it is negative: a person is asked
    {"op": "interrupt", "run": 7}          the agent has cancelled: SIGINT, grace, then SIGKILL and a new child
    {"op": "reset"}                        a new child; answered with "ready"

From the supervisor (container's stdout):

    {"op": "ready", "fresh": true}         a child waits for code; sent at the start and after every new child
    {"op": "call", "run": 7, "call": 3, "tool": "git.log", "arguments": {...}}
    {"op": "look_up", "run": 7, "call": 4, "what": "help", "name": "git"}
    {"op": "done", "run": 7, "status": "ok|error|timeout|cancelled|died", "output": "...", "gap_at": 0, "left_out": 0,
     "value": "..."|null, "failure": {"kind": "...", "message": "...", "traceback": "..."}|null,
     "kept": true, "lost_because": null, "seconds": 0.8}

`limits` of a run: output_kept, grace_s, processes, parallel. Between `run` and `done` the supervisor answers nothing
but calls. After `done` a `ready` with `fresh: true` follows when the child was replaced.
"""

from __future__ import annotations

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one line."""
VERSION = 1
"""Said by the image's label `toolatlas.sandbox.version`; another one is not started."""
