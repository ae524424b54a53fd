"""What a gateway sent becomes what is kept: redacted, cut, with sizes, hashes and tokens. No more reaches the disk.

Above: intake.py. Below: redaction.py, cutting.py, tokens.py. The records that come out lie in the journal until
shipping.py makes rows of tables.py of them; times are still text in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, cast

from proxy.store.cutting import Clean, cut, shortened, without_payloads
from proxy.store.records import UNWRITABLE, encoded
from proxy.store.redaction import Redactor
from proxy.store.tokens import Tokens

KEPT_BYTES = 64 << 10
"""Of one set of arguments, and of one result."""
TEXT_LIMIT = 16_000
"""Characters of an error, a query, a task or an answer."""
NESTED = 500
"""Levels of contents. Whoever reads them has Python's usual stack for it, and something else on that."""
DEFINITION_BYTES = 256 << 10
_CATALOGUE = ""
"""What definitions are redacted with in the place of an episode."""

Record = dict[str, Any]


class Rows:
    """Makes them one by one. Used by one thread."""

    def __init__(self, redactor: Redactor, tokens: Tokens) -> None:
        self._redactor = redactor
        self._tokens = tokens

    def of(self, record: Record) -> Record:
        """What is kept of a record of records.py. Contents that cannot be worked on are replaced by a note of it."""
        makers = {
            "step": self._step,
            "ending": self._ending,
            "shadow": self._shadow,
            "definition": self._definition,
            "snapshot": self._snapshot,
        }
        if (make := makers.get(record["kind"])) is None:
            return record
        try:
            return make(record)
        except (RecursionError, ValueError, TypeError, AttributeError) as error:
            if record["kind"] != "step":
                raise
            return self._step(_without_contents(record, {UNWRITABLE: type(error).__name__}))

    def _step(self, record: Record) -> Record:
        episode = record["episode"]
        of = episode["id"]
        call: Record | None = record.get("call")
        full = record["level"] == "full"
        arguments, result, error = record.get("arguments"), record.get("result"), record.get("error")
        # What is recognized here by the name that it stands under is recognized in the result without it, too.
        kept_arguments = self._arguments(of, arguments)
        observation, size, kept, digest = self._contents(of, result)
        # The name of a tool that is known is no secret; what an agent made up may hold one.
        name = record["name"] if call is not None else self._text(of, record["name"])
        step = {
            "id": record["id"],
            "episode_id": of,
            "parent_id": record["parent"],
            "seq": record["seq"],
            "mode": record["mode"],
            "name": name,
            "arguments": kept_arguments,
            "outcome": record["outcome"],
            "error": self._text(of, error),
            "observation": observation,
            "observation_bytes": size if full else record.get("bytes"),
            "observation_kept": kept if full else (0 if "bytes" in record else None),
            "observation_hash": digest,
            "action_tokens": self._tokens.of_action(record["name"], arguments) if full else None,
            "observation_tokens": self._tokens.of_observation(result) if full and result is not None else None,
            "revealed": record.get("revealed"),
            "catalog": record["catalog"][:64],
            "level": record["level"],
            "started_at": record["started_at"],
            "duration_ms": record["duration_ms"],
        }
        kept_record: Record = {
            "kind": "step",
            "seq": record["seq"],
            "episode": self._episode(episode) | {"catalog": step["catalog"]},
            "step": step,
        }
        if call is not None:
            kept_record["call"] = self._call(of, call, record)
        if (decision := record.get("decision")) is not None:
            kept_record["decision"] = self._decision(of, decision)
        return kept_record

    def _episode(self, episode: Record) -> Record:
        protocol = episode["protocol"]
        return {
            "id": episode["id"],
            "agent": episode["agent"],
            "mode": episode["mode"],
            "client": self._text(episode["id"], episode["client"]),
            "protocol": protocol[:32] if protocol is not None else None,
            "began_at": episode["began_at"],
            "parent_step": episode["parent_step"],
        }

    def _call(self, of: str, call: Record, step: Record) -> Record:
        arguments = call.get("arguments")
        if arguments is not None and encoded(arguments) == encoded(step.get("arguments")):
            arguments = None
        full = step["level"] == "full"
        kept_arguments = self._arguments(of, arguments)
        result, size, kept, digest = self._contents(of, call.get("result"))
        return {
            "server": call["server"],
            "tool": call["tool"],
            "written": call["written"],
            "arguments": kept_arguments,
            "result": result,
            "result_bytes": size if full else call.get("bytes"),
            "result_kept": kept if full else (0 if "bytes" in call else None),
            "result_hash": digest,
            "outcome": step["outcome"],
            "started_at": call["started_at"],
            "duration_ms": call["duration_ms"],
        }

    def _decision(self, of: str, decision: Record) -> Record:
        return {
            "policy": decision["policy"][:64],
            "adapter": decision["adapter"],
            "query": self._text(of, decision.get("query")),
            "task": self._text(of, decision.get("task")),
            "servers": decision.get("servers"),
            "candidates": decision.get("candidates"),
            "shown": decision.get("shown"),
            "propensities": decision.get("propensities"),
            "degraded": decision["degraded"],
            "duration_ms": decision["duration_ms"],
            "asked": decision["asked"],
            "cut": decision["cut"],
            "entropy": decision["entropy"],
            "sure": decision["sure"],
            "explored": decision["explored"],
        }

    def _shadow(self, record: Record) -> Record:
        return record | {"episode": self._episode(record["episode"]), "policy": record["policy"][:64]}

    def _ending(self, record: Record) -> Record:
        outcome = record["outcome"]
        return record | {
            "episode": self._episode(record["episode"]),
            "answer": self._text(record["episode"]["id"], record["answer"]),
            "outcome": outcome[:16] if outcome is not None else None,
        }

    def _definition(self, record: Record) -> Record:
        tokens = self._tokens.of_json(record["definition"])
        definition = cut(record["definition"], DEFINITION_BYTES, self._cleaner(_CATALOGUE))
        return record | {"definition": self._redactor.value(_CATALOGUE, definition), "tokens": tokens}

    def _snapshot(self, record: Record) -> Record:
        tokens = self._tokens.count(record["introduction"])
        return record | {
            "servers": self._redactor.value(_CATALOGUE, record["servers"]),
            "introduction": self._redactor.text(_CATALOGUE, record["introduction"]),
            "introduction_tokens": tokens,
        }

    def _text(self, of: str, text: str | None) -> str | None:
        return shortened(text, TEXT_LIMIT, self._cleaner(of)) if text is not None else None

    def _cleaner(self, of: str) -> Clean:
        return partial(self._redactor.text, of)

    def _arguments(self, of: str, arguments: Any) -> Any:
        return self._contents(of, arguments)[0]

    def _contents(self, of: str, value: Any) -> tuple[Any, int | None, int | None, str | None]:
        """What is kept of it, the size of the whole, of what is kept, and the hash of the whole."""
        if value is None:
            return None, None, None, None
        whole = encoded(value)
        if _is_nested_deeper(value, NESTED):
            return {UNWRITABLE: RecursionError.__name__}, len(whole), 0, self._redactor.digest(whole)
        short = self._short(of, value, whole)
        kept = self._redactor.value(of, short)
        # Redaction changes the length as well; it is no cut.
        kept_bytes = len(whole) if short is value else min(len(whole), len(encoded(kept)))
        return kept, len(whole), kept_bytes, self._redactor.digest(whole)

    def _short(self, of: str, value: Any, whole: bytes) -> Any:
        """The very same value where nothing of it has to be left out."""
        if b'"data":"' in whole or b'"blob":"' in whole:
            light = without_payloads(value, self._redactor.digest)
            value = value if light == value else light
        elif len(whole) <= KEPT_BYTES:
            return value
        return cut(value, KEPT_BYTES, self._cleaner(of))


def _is_nested_deeper(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        level = [inner for each in level for inner in _within(each)]
        if not level:
            return False
    return True


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _without_contents(step: Record, note: Record) -> Record:
    bare = step | {"arguments": note, "result": note, "error": None}
    if "call" in step:
        bare["call"] = {name: item for name, item in step["call"].items() if name not in ("arguments", "result")}
    bare.pop("decision", None)
    return bare
