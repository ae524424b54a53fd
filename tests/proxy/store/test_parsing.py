"""What is said of a line that cannot be imported."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from proxy.store.exporting import line_of
from proxy.store.parsing import BadLine, LineParser

PARSER = LineParser()
TIME = "2026-11-30T12:00:00+00:00"


def step(id: str, seq: int, **changed: Any) -> dict[str, Any]:
    return {
        "id": id,
        "parent_id": None,
        "stream": "r_1",
        "seq": seq,
        "mode": "search",
        "name": "call_tool",
        "arguments": {},
        "outcome": "ok",
        "error": None,
        "observation": {"content": []},
        "observation_size": {"whole_bytes": 14, "kept_bytes": 14, "hash": "b" * 64},
        "action_tokens": 1,
        "observation_tokens": 2.0,
        "revealed": [["shop.find", "name"]],
        "catalog": "c" * 64,
        "level": "full",
        "started_at": TIME,
        "duration_ms": 1,
        "call": None,
        "decision": None,
        **changed,
    }


CALL = {
    "server": "shop",
    "tool": "find",
    "written": "shop.find",
    "outcome": "ok",
    "started_at": TIME,
    "duration_ms": 1,
}
DECISION = {
    "policy": "lexical",
    "adapter": None,
    "query": "lamp",
    "task": None,
    "servers": None,
    "candidates": [["shop.find", 1.5]],
    "shown": ["shop.find"],
    "propensities": [1],
    "degraded": None,
    "catalog": "c" * 64,
    "decided_at": TIME,
    "duration_ms": 1,
}
ENDING = {
    "reason": "finished",
    "ended_at": TIME,
    "outcome": "done",
    "answer": None,
    "task": None,
    "task_source": None,
    "level": "full",
    "steps": 3,
    "calls": 1,
    "failures": 0,
    "tokens_seen": 9,
    "tokens_eager": None,
}
JUDGEMENT = {
    "id": "j_1",
    "rubric_hash": "f" * 64,
    "judge": "checks",
    "prompt_hash": None,
    "seed": None,
    "verdicts": [{"criterion": "a"}],
    "repeat": 0,
    "scope": "calls",
    "unrewarded": None,
    "credits": {},
    "batch": None,
    "subtotals": {},
    "reward": 0.5,
    "cost": None,
    "created_at": TIME,
}
LABEL = {
    "id": "l_1",
    "step_id": None,
    "rubric_hash": None,
    "criterion": None,
    "labeller": "ann",
    "value": 1,
    "note": None,
    "created_at": TIME,
}
EPISODE = line_of(
    "episode",
    {
        "id": "e_1",
        "stream": "r_1",
        "agent": "local",
        "mode": "search",
        "client": None,
        "protocol": None,
        "rendering": 1,
        "catalog": "c" * 64,
        "began_at": TIME,
        "steps": [step("s_1", 1, decision=DECISION), step("s_2", 2), step("s_a", 3, call=CALL)],
        "ending": ENDING,
        "judgements": [JUDGEMENT],
        "labels": [LABEL],
    },
)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda e: e.update(schema="other/9"), "schema: this version reads 'toolatlas.trajectory/1', not"),
        (lambda e: e.pop("schema"), "schema: this version reads 'toolatlas.trajectory/1', not None"),
        (lambda e: e.update(kind="poem"), 'kind: "poem" is not one of'),
        (lambda e: e.pop("agent"), '"agent" is a required property'),
        (lambda e: e.update(colour="red"), "Additional properties are not allowed ('colour' was unexpected)"),
        (lambda e: e.update(id="é"), "id: "),
        (lambda e: e.update(id=""), "id: "),
        (lambda e: e.update(id="x" * 41), "id: "),
        (lambda e: e.update(began_at="yesterday"), "began_at: "),
        (lambda e: e.update(began_at="2026-11-30T12:00:60Z"), "began_at: "),
        (lambda e: e.update(began_at="0001-01-01T00:00:00+10:00"), "began_at: "),
        (lambda e: e["steps"][0].update(seq=-1), "steps[0].seq: -1 is less than the minimum of 0"),
        (lambda e: e["steps"][0].update(seq=2**31), "steps[0].seq: "),
        (lambda e: e["steps"][0].update(seq=1.5), "steps[0].seq: "),
        (lambda e: e["steps"][2]["call"].pop("server"), 'steps[2].call: "server" is a required property'),
        (lambda e: e["steps"][0]["decision"].update(propensities=[2]), "steps[0].decision.propensities[0]: "),
        (lambda e: e["steps"][1].update(id="s_a"), "steps[2].id: another step of the episode is s_a, too"),
        (lambda e: e["steps"][1].update(seq=3), "steps[2].seq: another step of the episode has this number"),
        (lambda e: e["judgements"][0].update(reward=1.5), "judgements[0].reward: "),
        (lambda e: e["labels"][0].update(value="good"), 'labels[0].value: "good" is not of types "null", "number"'),
        (lambda e: e["ending"].update(steps=None), "ending.steps: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(change: Any, why: str) -> None:
    value = json.loads(EPISODE)
    assert PARSER.parse(EPISODE.encode()).kind == "episode"
    change(value)
    with pytest.raises(BadLine, match=f"^{re.escape(why)}"):
        PARSER.parse(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"[]", "it is no JSON object"),
        (b'{"a": NaN}', "it is no JSON: NaN is no number"),
        (b'{"a": 1e999}', "it is no JSON: 1e999 is greater"),
        (b'{"a": "\xff"}', "it is no JSON: "),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"schema": "toolatlas.trajectory/1", "kind": ' + b"[" * 500 + b"]" * 500 + b"}", "it cannot be checked"),
    ],
)
def test_what_is_no_line_at_all_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=f"^{re.escape(why)}"):
        PARSER.parse(raw)
