"""How a value and an error of the agent's code are written. Both may be hostile: their methods are the agent's code."""

import json
import os
from traceback import TracebackException

from hints import hint

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
MESSAGE = 10_000
TRACE_HEAD, TRACE_TAIL = 2_000, 8_000
"""Characters of a traceback that is longer than both."""
PLAIN = frozenset({str, int, float, bool, type(None)})

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def value_text(value: object, longest: int) -> str | None:
    """JSON where the value is plain data and nothing is lost, else its repr; None for None."""
    if value is None:
        return None
    try:
        text = _encode(value) if type(value) in PLAIN or type(value) in (dict, list) else None
    except (TypeError, ValueError, RecursionError):
        text = None
    if text is None or not is_plain(value):
        text = repr_text(value)
    return clean(text[:longest])


def is_plain(value: object) -> bool:
    """Whether JSON gives back the same. Only for values without cycles: json has looked for those."""
    rest = [value]
    while rest:
        item = rest.pop()
        kind = type(item)
        if kind is dict:
            if any(type(key) is not str for key in item):
                return False
            rest.extend(item.values())
        elif kind is list:
            rest.extend(item)
        elif kind not in PLAIN:
            return False
    return True


def repr_text(value: object) -> str:
    try:
        # A subclass of str may come back, with methods of its own.
        return clean(repr(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"<{kind_of(value)} object, whose repr failed with {kind_of(error)}>"


def failure(error: BaseException, servers: dict, processes: int) -> dict:
    """Kind, message and traceback of an error, as the supervisor takes them."""
    kind = kind_of(error)
    try:
        message = clean(cut(str(error), MESSAGE, 0))
    except KeyboardInterrupt:
        raise
    except BaseException:
        message = "(its message cannot be shown)"
    try:
        trace = trace_text(error)
    except (Exception, SystemExit):
        trace = f"{kind}: {message}"
    if note := hint(error, servers, processes):
        trace = f"{trace.rstrip()}\nHint: {note}\n"
    return {"kind": kind, "message": message, "traceback": trace}


def kind_of(value: object, name=type.__dict__["__name__"].__get__) -> str:
    """The name of its class, in which no metaclass has a say."""
    return clean(name(type(value)))[:200]


def trace_text(error: BaseException) -> str:
    """The frames of the agent's own code, of this error and those before it."""
    summary = TracebackException(type(error), error, error.__traceback__, compact=True)
    _keep_own_frames(summary)
    # Each part first: a message may be as large as memory.
    parts = [cut(part, TRACE_HEAD, TRACE_TAIL) for part in summary.format()]
    return cut(clean("".join(parts)), TRACE_HEAD, TRACE_TAIL)


def _keep_own_frames(summary: TracebackException) -> None:
    rest = [summary]
    while rest:
        part = rest.pop()
        part.stack[:] = [frame for frame in part.stack if _is_own(frame.filename)]
        rest.extend(inner for inner in (part.__cause__, part.__context__, *(part.exceptions or ())) if inner)


def _is_own(filename: str) -> bool:
    return not filename.startswith((HERE, LIBRARY, "<frozen "))


def cut(text: str, head: int, tail: int) -> str:
    """Its start and its end, with the number of characters between."""
    if len(text) <= head + tail:
        return text
    left_out = len(text) - head - tail
    return f"{text[:head]}\n… {left_out:,} characters left out …\n{text[len(text) - tail :]}"


def clean(text: str) -> str:
    """Without lone surrogates, which no UTF-8 can carry."""
    return str.encode(text, "utf-8", "backslashreplace").decode()
