"""The lines that a gateway sends to its writer: one record a line, in ASCII JSON.

Above: recording.py makes them, as fast as it can, on the event loop. Below: recorder.py. rows.py reads them in the
writer. Of a step at the level `metadata`, contents do not even leave the gateway's process.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from proxy.store.recorder import Call, Decision, Ending, Episode, Level, ShadowDecision, Step

UNWRITABLE = "toolatlas/unwritable"
"""Key of what stands in the place of contents that are no JSON, or nested too deeply; its value says why."""
END = b'{"kind":"end"}\n'
"""The gateway ends in the usual way: no more comes."""

# ASCII, so that halves of surrogate pairs, which JSON may hold, need no care. What goes in circles fails all the same.
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_UNICODE = json.JSONEncoder(separators=(",", ":"), check_circular=False, ensure_ascii=False)


def encoded(value: Any) -> bytes:
    """Compact JSON in UTF-8: what sizes and hashes of contents mean."""
    return _UNICODE.encode(value).encode("utf-8", "surrogatepass")


def line_of(record: Any) -> bytes:
    """Raises TypeError, ValueError or RecursionError for what is no JSON."""
    return _ENCODER.encode(record).encode("ascii") + b"\n"


def step_record(step: Step, seq: int) -> bytes:
    """What is to be written of a step, as number `seq` of its stream.

    Contents that are no JSON are replaced by a note of that; a step is never refused for them.
    """
    try:
        return line_of(_step(step, seq))
    except (TypeError, ValueError, RecursionError) as error:
        note = {UNWRITABLE: type(error).__name__}
        call = replace(step.call, arguments=note, result=note) if step.call is not None else None
        return line_of(_step(replace(step, arguments=note, result=note, call=call), seq))


def ending_record(ending: Ending) -> bytes:
    return line_of(
        {
            "kind": "ending",
            "episode": _episode(ending.episode),
            "reason": ending.reason,
            "ended_at": ending.ended_at.isoformat(),
            "outcome": ending.outcome,
            "answer": ending.answer if ending.level is Level.FULL else None,
            "level": ending.level,
        }
    )


def shadow_record(shadow: ShadowDecision) -> bytes:
    return line_of(
        {
            "kind": "shadow",
            "step": shadow.step_id,
            "episode": _episode(shadow.episode),
            "policy": shadow.policy,
            "adapter": shadow.adapter,
            "candidates": shadow.candidates,
            "decided_at": shadow.decided_at.isoformat(),
        }
    )


def gap_record(first: int, last: int) -> bytes:
    """Steps that there was no room for."""
    return line_of({"kind": "gap", "first": first, "last": last, "reason": "overload"})


def _step(step: Step, seq: int) -> dict[str, Any]:
    full = step.level is Level.FULL
    record: dict[str, Any] = {
        "kind": "step",
        "seq": seq,
        "id": step.id,
        "parent": step.parent,
        "episode": _episode(step.episode),
        "mode": step.mode,
        "name": step.name,
        "outcome": step.outcome,
        "started_at": step.started_at.isoformat(),
        "duration_ms": step.duration_ms,
        "catalog": step.catalog,
        "level": step.level,
    }
    if full:
        record["arguments"] = step.arguments
        record["error"] = step.error
        record["result"] = step.result
        if step.revealed:
            record["revealed"] = [[shown.tool, shown.how] for shown in step.revealed]
    elif step.result is not None:
        record["bytes"] = len(encoded(step.result))
    if step.call is not None:
        record["call"] = _call(step.call, step, full)
    if step.decision is not None:
        record["decision"] = _decision(step.decision, full)
    return record


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "agent": episode.agent,
        "mode": episode.mode,
        "client": episode.client,
        "protocol": episode.protocol,
        "began_at": episode.began_at.isoformat(),
        "parent_step": episode.parent_step,
    }


def _call(call: Call, step: Step, full: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "server": call.server,
        "tool": call.tool,
        "written": call.written,
        "started_at": call.started_at.isoformat(),
        "duration_ms": call.duration_ms,
    }
    # The same object is sent once; what is equal is found by the writer.
    if full and call.arguments is not step.arguments:
        record["arguments"] = call.arguments
    if call.result is not step.result and call.result is not None:
        if full:
            record["result"] = call.result
        else:
            record["bytes"] = len(encoded(call.result))
    return record


def _decision(decision: Decision, full: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "policy": decision.policy,
        "adapter": decision.adapter,
        "degraded": decision.degraded,
        "duration_ms": decision.duration_ms,
        "asked": decision.asked,
        "cut": decision.cut,
        "entropy": decision.entropy,
        "sure": decision.sure,
        "explored": decision.explored,
    }
    if full:
        record["query"] = decision.query
        record["task"] = decision.task
        record["servers"] = decision.servers
        record["candidates"] = decision.candidates
        record["shown"] = decision.shown
        record["propensities"] = decision.propensities
    return record
