"""What several checks ask of a call: whether it is of a named tool, whether it only reads, which values it was sent.

Above: choosing.py, calling.py, behaviour.py, obedience.py. Below: case.py. No checks are here. Arguments come from
strangers: nothing here recurses, and what it costs is linear in what was logged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from judge.case import Act, Case
from proxy.store.cutting import CUT

Path = tuple[str, ...]
MAX_DEPTH = 200
"""Values nested deeper count as one value."""


def _vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


READING = _vocabulary(
    "analyze analyse blame branches browse calculate calc check compare compute convert count current describe "
    "detail details diff download echo estimate evaluate explain export fetch find forecast get grep head help "
    "history info inspect list load log logs lookup parse peek ping preview print query read resolve retrieve "
    "review scan search see select show stat stats status sum summarize summary tail tell test thinking translate "
    "tree validate verify version view weather"
)
"""Words in the names of tools that look and change nothing."""
WRITING = _vocabulary(
    "accept add append apply approve archive assign begin book buy cancel change checkout clean clear click close "
    "commit complete configure copy create delete deploy disable drop edit empty enable erase exec execute fill "
    "forget forward import insert install invite kill link lock login make merge modify move mutate notify "
    "order patch pay post press publish purge push put record register reject remove rename replace reply reset "
    "restart restore revert run save schedule send set share stage start stash stop store submit subscribe "
    "sync tag transfer type unlink unlock unstage update upload upsert wipe write"
)
"""Words in the names of tools that may change something."""
_TOKEN = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CUT_TEXT = f"[{CUT}: "
MAX_COMPLAINT = 600
_COMPLAINT = re.compile(
    r"\W{0,8}(?!(?:no|without|zero|kein|keine)\b)(?:[\w.-]{1,40} ){0,2}"
    r"(?:\w{0,40}(?:error|exception)|traceback|failure|fehler|erreur)"
    r"(?:\s?[]:!(\[-]|\.?\s*$|\s(?:executing|calling|running|reading|writing|opening|parsing|processing|connecting|trying"
    r"|loading|fetching|during|while|when|in|at|on|from|with|occurred|code|\d))"
    r"|\W{0,8}(?:failed|unable) to\b",
    re.IGNORECASE,
)
MAX_STATEMENT = 20_000
"""Characters of a statement that is looked through; a longer one may do anything."""
_STATEMENTS = frozenset({"sql", "query", "statement"})
"""Names of parameters for them. Elsewhere "Select one of these" may be a message."""
_SELECT = re.compile(r"\s{0,20}(?:select|with|explain)\s", re.IGNORECASE)
_CHANGING = re.compile(
    r"\b(?:insert|update|delete|replace|create|alter|drop|truncate|merge|into|copy|attach|load|install|pragma|set|call"
    r"|grant|vacuum|export|import|analyze)\b(?!\s{0,3}\()",
    re.IGNORECASE,
)
"""`replace(` is a function."""
_QUOTED = re.compile(r"'[^']{0,5000}'")
_QUOTING = frozenset({"file", "files", "text", "log", "logs", "document", "page", "content", "contents", "cat", "show"})
"""Words of tools that give what others wrote, so that an error in it is none of theirs."""


def fits(act: Act, names: Iterable[str]) -> bool:
    """Whether the call is of one of these: `server.tool`, or `server` for all tools of a server.

    A server may be given as it is configured or as agents write it, a tool as agents write it or as its server does.
    """
    known = (act.written, f"{act.server}.{act.tool}", act.server, act.written.partition(".")[0])
    return any(name in known for name in names)


def chosen(acts: Iterable[Act], names: Iterable[str]) -> list[Act]:
    """Those of `acts` that fit one of `names`."""
    wanted = tuple(names)
    return [act for act in acts if fits(act, wanted)]


def said(names: Sequence[str]) -> str:
    """`names` in a sentence."""
    return " or ".join(names) if names else "(none)"


def words_of(name: str) -> list[str]:
    """The words that a name is made of, in lower case: `list-allowedDirs2` has list, allowed, dirs, 2."""
    return [word.lower() for word in _WORD.findall(name[:200])]


def reads(case: Case, act: Act) -> bool | None:
    """Whether the call only looks: as the tool's definition says, else as its name sounds; None where neither tells. A
    tool that is sent statements may do both, and there the statement tells."""
    if _only_selects(act.arguments):
        return True
    definition = case.definition(act.written)
    annotations = None if definition is None else definition.get("annotations")
    if isinstance(annotations, Mapping):
        hint = cast("Mapping[str, Any]", annotations).get("readOnlyHint")
        if isinstance(hint, bool):
            return hint
    for word in words_of(act.tool):
        # The verb comes first: `get_created` reads, `create_list` does not.
        if word in READING:
            return True
        if word in WRITING:
            return False
    return None


def _only_selects(arguments: Mapping[str, Any]) -> bool:
    """Whether a member is a statement of a query language that changes nothing. Quoted words are data."""
    for name, value in arguments.items():
        if name.casefold() in _STATEMENTS and isinstance(value, str) and _SELECT.match(value):
            return _CHANGING.search(_QUOTED.sub("", value[:MAX_STATEMENT])) is None and len(value) <= MAX_STATEMENT
    return False


def succeeded(case: Case, act: Act) -> bool:
    """Whether it was a success in fact: some servers answer with nothing but an error, and do not mark it as one."""
    if not act.ok:
        return False
    text = case.text(act.step)
    if len(text) > MAX_COMPLAINT or _QUOTING.intersection(words_of(act.tool)):
        return True
    return _COMPLAINT.match(text) is None and not text.startswith(('{"error":', '{"errors":'))


def leaves(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every plain value in JSON with the way to it, in order; of an empty list or object, that."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, Mapping) and item and len(path) < MAX_DEPTH:
            members = cast("Mapping[Any, Any]", item)
            waiting += [((*path, str(name)), inner) for name, inner in reversed(list(members.items()))]
        elif isinstance(item, list) and item and len(path) < MAX_DEPTH:
            items = cast("list[Any]", item)
            waiting += [((*path, str(place)), items[place]) for place in range(len(items) - 1, -1, -1)]
        else:
            yield path, item


def identity(arguments: Any) -> frozenset[tuple[Path, str, str]]:
    """Equal for equal arguments, whatever the order of their members."""
    return frozenset((path, type(value).__name__, _plain(value)) for path, value in leaves(arguments))


def texts(arguments: Any) -> list[str]:
    """The texts and numbers that are values in `arguments`, as text."""
    return [
        value if isinstance(value, str) else repr(value)
        for _, value in leaves(arguments)
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]


def tokens(text: str) -> list[str]:
    """Runs of letters and digits, case-folded."""
    return _TOKEN.findall(text.casefold())


def at(arguments: Any, path: str) -> list[Any]:
    """What stands at `a.b.0`, as one item; none where nothing does. A name may itself have dots in it."""
    if isinstance(arguments, Mapping):
        members = cast("Mapping[str, Any]", arguments)
        if path in members:
            return [members[path]]
        heads = [place for place, character in enumerate(path) if character == "."]
        for place in heads:
            if path[:place] in members:
                return at(members[path[:place]], path[place + 1 :])
    if isinstance(arguments, list):
        items = cast("list[Any]", arguments)
        head, dot, rest = path.partition(".")
        if head.isascii() and head.isdigit() and len(head) < 7 and int(head) < len(items):
            return at(items[int(head)], rest) if dot else [items[int(head)]]
    return []


def is_cut(value: Any) -> bool:
    """Whether the log left out a part of this argument."""
    return any(
        CUT in path or (isinstance(inner, str) and _CUT_TEXT in inner) or (isinstance(inner, Mapping) and CUT in inner)
        for path, inner in leaves(value)
    )


def _plain(value: Any) -> str:
    # What is nested too deep to be walked is too deep to be written, too.
    return str(len(cast("list[Any]", value))) if isinstance(value, Mapping | list) else repr(value)
