"""The lines of an exported log, as JSON Schema: what exporting.py writes and importing.py accepts.

Below: recorder.py, rubrics.py and tables.py, which the limits follow. `toolatlas episodes schema` prints it. A change
that a reader of the old form would misunderstand is a new number in `SCHEMA`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from proxy.store.recorder import EndReason, Level, Outcome
from proxy.store.rubrics import Attached

SCHEMA = "toolatlas.trajectory/1"

_Schema = dict[str, Any]
ANY: _Schema = {}
"""Values of agents, servers and judges: these, and every OBJECT, are not looked into."""
WORDS: _Schema = {"type": "string"}
"""What agents, servers and people said."""
OBJECT: _Schema = {"type": "object"}
TIME: _Schema = {"type": "string", "format": "date-time"}
# The databases keep four bytes.
WHOLE: _Schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
NUMBER: _Schema = {"type": "number", "minimum": -1e300, "maximum": 1e300}
SHARE: _Schema = {"type": "number", "minimum": 0, "maximum": 1}
STRINGS: _Schema = {"type": "array", "items": WORDS}
CANDIDATES: _Schema = {
    "type": "array",
    "items": {"type": "array", "prefixItems": [WORDS, NUMBER], "items": False, "minItems": 2},
}
"""Tools with their scores."""


def schema() -> _Schema:
    """JSON Schema (2020-12) of one line."""
    kinds = {
        "stream": _stream(),
        "definition": _definition(),
        "snapshot": _snapshot(),
        "rubric": _rubric(),
        "episode": _episode(),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a toolatlas trajectory file",
        "type": "object",
        "required": ["schema", "kind"],
        "properties": {"schema": {"const": SCHEMA}, "kind": {"enum": list(kinds)}},
        # One after the other, so that an error speaks of the kind that the line says it is.
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": {"$ref": f"#/$defs/{kind}"}}
            for kind in kinds
        ],
        "$defs": {
            **{kind: _with_head(kind, shape) for kind, shape in kinds.items()},
            "step": _step(),
            "call": _call(),
            "decision": _decision(),
            "shadow": _shadow(),
            "size": _closed(whole_bytes=WHOLE, kept_bytes=WHOLE, hash=_or_null(_short(64))),
            "ending": _ending(),
            "judgement": _judgement(),
            "label": _label(),
        },
    }


def _stream() -> _Schema:
    gap = _closed(first_seq=WHOLE, last_seq=WHOLE, reason=_short(32), reported_at=TIME)
    return _closed(id=_short(40), replica=_short(64), version=_short(32), began_at=TIME, gaps=_list(gap))


def _definition() -> _Schema:
    return _closed(hash=_short(64), server=WORDS, tool=WORDS, definition=OBJECT, tokens=WHOLE)


def _snapshot() -> _Schema:
    return _closed(
        hash=_short(64),
        taken_at=TIME,
        servers=_list(_closed(name=WORDS, written=WORDS, purpose=WORDS)),
        tools=_list(_pair(WORDS, _short(64))),
        introduction=_or_null(WORDS),
        introduction_tokens=WHOLE,
        eager_tokens=WHOLE,
    )


def _rubric() -> _Schema:
    attachment = _closed(scope=_enum(Attached), target=_or_null(_short(40)), attached_at=TIME)
    return _closed(
        hash=_short(64),
        writer=WORDS,
        content=OBJECT,
        created_at=TIME,
        attachments=_list(attachment),
        sources=_list(_short(40)),
    )


def _episode() -> _Schema:
    return _closed(
        # Lines of before it was noted have none.
        optional={"parent_step": _or_null(_short(40))},
        id=_short(40),
        stream=_short(40),
        agent=WORDS,
        mode=_short(16),
        client=_or_null(WORDS),
        protocol=_or_null(_short(32)),
        rendering={**WHOLE, "minimum": 1},
        catalog=_short(64),
        began_at=TIME,
        steps=_list(_ref("step")),
        ending=_or_null(_ref("ending")),
        judgements=_list(_ref("judgement")),
        labels=_list(_ref("label")),
    )


def _step() -> _Schema:
    return _closed(
        id=_short(40),
        parent_id=_or_null(_short(40)),
        stream=_short(40),
        seq=WHOLE,
        mode=_short(16),
        name=WORDS,
        arguments=ANY,
        outcome=_enum(Outcome),
        error=_or_null(WORDS),
        observation=ANY,
        observation_size=_or_null(_ref("size")),
        action_tokens=_or_null(WHOLE),
        observation_tokens=_or_null(WHOLE),
        revealed=_list(_pair(WORDS, WORDS)),
        catalog=_short(64),
        level=_enum(Level),
        started_at=TIME,
        duration_ms=NUMBER,
        call=_or_null(_ref("call")),
        decision=_or_null(_ref("decision")),
    )


def _call() -> _Schema:
    return _closed(
        optional={"arguments": ANY, "result": ANY, "result_size": _ref("size")},
        server=WORDS,
        tool=WORDS,
        written=WORDS,
        outcome=_enum(Outcome),
        started_at=TIME,
        duration_ms=NUMBER,
    )


def _decision() -> _Schema:
    return _closed(
        # Lines of before these were noted have none of them.
        optional={
            "asked": _or_null(WHOLE),
            "cut": _or_null(WHOLE),
            "entropy": _or_null(NUMBER),
            "sure": _or_null({"type": "boolean"}),
            "explored": _or_null({"type": "boolean"}),
            "shadow": _or_null(_ref("shadow")),
        },
        policy=_short(64),
        adapter=_or_null(_short(64)),
        query=_or_null(WORDS),
        task=_or_null(WORDS),
        servers=_or_null(STRINGS),
        candidates=_or_null(CANDIDATES),
        shown=_or_null(STRINGS),
        propensities=_or_null(_list(SHARE)),
        degraded=_or_null(WORDS),
        catalog=_short(64),
        decided_at=TIME,
        duration_ms=NUMBER,
    )


def _shadow() -> _Schema:
    return _closed(policy=_short(64), adapter=_or_null(_short(64)), candidates=CANDIDATES, decided_at=TIME)


def _ending() -> _Schema:
    return _closed(
        reason=_enum(EndReason),
        ended_at=TIME,
        outcome=_or_null(_short(16)),
        answer=_or_null(WORDS),
        task=_or_null(WORDS),
        task_source=_or_null(_short(16)),
        level=_enum(Level),
        steps=WHOLE,
        calls=WHOLE,
        failures=WHOLE,
        tokens_seen=WHOLE,
        tokens_eager=_or_null(WHOLE),
    )


def _judgement() -> _Schema:
    return _closed(
        id=_short(40),
        rubric_hash=_short(64),
        # It is part of a key, whose length PostgreSQL bounds.
        judge={**WORDS, "maxLength": 500},
        prompt_hash=_or_null(_short(64)),
        seed=_or_null({"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}),
        verdicts=_list(OBJECT),
        subtotals=OBJECT,
        reward=_or_null(SHARE),
        cost=_or_null(OBJECT),
        created_at=TIME,
        repeat=WHOLE,
        scope=_short(48),
        unrewarded=_or_null(WORDS),
        credits=_or_null(OBJECT),
        batch=_or_null(_short(40)),
    )


def _label() -> _Schema:
    return _closed(
        id=_short(40),
        step_id=_or_null(_short(40)),
        rubric_hash=_or_null(_short(64)),
        criterion=_or_null(_short(64)),
        labeller=WORDS,
        value=_or_null(SHARE),
        note=_or_null(WORDS),
        created_at=TIME,
    )


def _closed(optional: _Schema | None = None, **properties: _Schema) -> _Schema:
    """An object with these members and no others."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": {**properties, **(optional or {})},
        "additionalProperties": False,
    }


def _with_head(kind: str, shape: _Schema) -> _Schema:
    properties = {"schema": {"const": SCHEMA}, "kind": {"const": kind}, **shape["properties"]}
    return {**shape, "required": ["schema", "kind", *shape["required"]], "properties": properties}


def _short(most: int) -> _Schema:
    """Our own ids, hashes and words: printable ASCII, so that every database keeps them as they are."""
    return {"type": "string", "maxLength": most, "pattern": r"^[\x20-\x7e]+$"}


def _enum(values: type[StrEnum]) -> _Schema:
    return {"enum": [value.value for value in values]}


def _list(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _pair(first: _Schema, second: _Schema) -> _Schema:
    return {"type": "array", "prefixItems": [first, second], "items": False, "minItems": 2}


def _or_null(shape: _Schema) -> _Schema:
    if isinstance(kind := shape.get("type"), str):
        return {**shape, "type": [kind, "null"]}
    # Not `anyOf`: its errors do not say which member of the object is wrong.
    return {"if": {"type": "object"}, "then": shape, "else": {"type": "null"}}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/$defs/{name}"}
