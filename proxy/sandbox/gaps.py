"""What Monty's Python lacks, told in the description of run_python and, where code runs into it, in the error.

Above: embedded.py and monty_run.py. Below: nothing.
"""

from __future__ import annotations

import re

LANGUAGE = "Subset: no yield, del, inheritance, files; few modules; ToolError is RuntimeError."
"""For the tool's description: every agent pays for it, in every conversation. Which modules there are, the error of an
import tells."""

MODULES = (
    *("asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
    *("functools", "hashlib", "itertools", "json", "math", "pathlib", "random", "re", "sys", "time", "tomllib"),
    *("typing", "unicodedata"),
)

_INSTEAD = {
    "statistics": "compute it: sum(values) / len(values), sorted(values)[len(values) // 2]",
    "string": "write the characters out",
    "textwrap": "slice strings, or join lines",
    "enum": "use constants or a dict",
    "abc": "leave it out",
    "fractions": "decimal",
    "operator": "use a lambda",
    "heapq": "bisect, or sorted(values)[:n]",
    "contextlib": "try: … finally: …",
    "calendar": "datetime",
    "zoneinfo": "datetime.timezone",
    "urllib": "call a tool that fetches; split and join strings for addresses",
    "http": "call a tool that fetches",
    "requests": "call a tool that fetches",
    "httpx": "call a tool that fetches",
    "socket": "call a tool",
    "subprocess": "call a tool",
    "shutil": "call a tool for files",
    "glob": "call a tool for files",
    "tempfile": "keep it in a variable",
    "pickle": "json",
    "io": "collect strings in a list and join them; csv takes lists of lines",
    "logging": "print",
    "pprint": "json.dumps(value, indent=2)",
    "html": "str.replace",
    "xml": "re",
    "threading": "parallel(fn, items)",
    "concurrent": "parallel(fn, items)",
    "multiprocessing": "parallel(fn, items)",
    "uuid": "hashlib or random",
    "secrets": "random",
    "difflib": "compare the lines yourself",
    "pandas": "lists of dicts, and csv",
    "numpy": "lists and math",
    "yaml": "re, or a tool",
}

_SYNTAX = (
    ("yield", "generators (`yield`) are not available here; build a list instead"),
    ("class inheritance", "classes cannot inherit here, so no own exceptions: raise RuntimeError, use dicts"),
    ("method decorators", "no @property, @classmethod, @staticmethod here; use methods and functions"),
    ("'del'", "`del` is not available here; assign None, dict.pop(key), list.pop(i)"),
    ("exception groups", "`except*` is not available here; use `except`"),
    ("type aliases", "`type X = …` is not available here; leave it out"),
    ("async for", "`async for` is not available here; use parallel(fn, items)"),
    ("async context managers", "`async with` is not available here"),
    ("Wildcard imports", "`from … import *` is not available here; name what you import"),
    (
        "cannot suspend in this synchronous context",
        "tools cannot be called by functions that sorted, map, filter, min, max and the like call; get the results "
        "first: results = parallel(fn, items), or [fn(item) for item in items]",
    ),
    (
        "An asyncio.Future, a coroutine or an awaitable is required",
        "tools answer at once here and need no await; to call several at a time: parallel(fn, items)",
    ),
    ("can't be awaited", "tools answer at once here and need no await"),
)
_NO_MODULE = re.compile(r"No module named '(\w+)")


def explained(kind: str, message: str) -> str:
    """The message of an exception that code raised, with what to do instead where it met a gap of the language."""
    if kind in ("ModuleNotFoundError", "ImportError") and (found := _NO_MODULE.match(message)):
        module = found[1]
        instead = _INSTEAD.get(module)
        return f"there is no module {module} here; " + (instead or f"there are {', '.join(MODULES)}")
    if kind == "NameError" and re.match(
        r"name '(callable|issubclass|super|vars|globals|exit|input|bytearray)'", message
    ):
        return f"{message}: this interpreter does not have it"
    for part, instead in _SYNTAX:
        if part in message and kind in ("NotImplementedError", "TypeError"):
            return instead
    if kind == "PermissionError":
        return f"{message}; there are no files here, call a tool for them"
    return message
