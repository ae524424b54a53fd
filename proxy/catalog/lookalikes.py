"""Names that a reader takes for others: letters of other scripts, invisible characters, a server's name in a tool's.

Above: the gateway and `toolatlas doctor` report them; permission.py denies them along. Below: names.py and text.py. No
such name ever leads to another's tool (catalog.py resolves names exactly); this is about whoever reads them.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from proxy.catalog.names import OWN_TOOLS, squashed
from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.catalog.text import printable

# Letters of Cyrillic, Greek, Armenian and Latin extensions that most fonts draw like a Latin one, each before its twin.
_TWINS = (
    "аaеeоoрpсcуyхxѕsіiјjһhԁdԛqԝwѵvүyкkмmтtнhвbгrпnиuзz АAВBЕEЅSІIЈJКKМMНHОOРPСCТTХXҮYԌGԚQԜW "
    "αaεeιiκkνvοoρpτtυuχxγyωwηnϲcσo ΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧX ıiɑaɡgɩiɴnօoսuհhոnցgյjℓl"
).replace(" ", "")
_LETTERS = str.maketrans(_TWINS[::2], _TWINS[1::2])
_TAKEN_FOR = str.maketrans("0135$|i", "olessll")
MAX_REPORTED = 20


def plain(name: str) -> str:
    """`name` in the Latin letters that it looks like; upper and lower case stay apart."""
    composed = unicodedata.normalize("NFKD", printable(name)).translate(_LETTERS)
    return "".join(character for character in composed if not unicodedata.combining(character))


def skeleton(name: str) -> str:
    """What names that are taken for each other have in common."""
    return squashed(plain(name).casefold().translate(_TAKEN_FOR).replace("rn", "m").replace("vv", "w"))


@dataclass(frozen=True, slots=True)
class Lookalike:
    """One tool whose name can be taken for another's."""

    text: str
    """A sentence that names both."""
    serious: bool
    """Whether nobody comes to such a name by chance."""


def lookalikes(servers: Sequence[ServerRecord]) -> list[Lookalike]:
    """Tools whose names look like the gateway's own, like another server's tool, or like both names of one.

    That two servers have the same name for a tool, in any usual spelling, is common; their own names tell them apart.
    """
    return list(islice(_reports(servers), MAX_REPORTED))


def _reports(servers: Sequence[ServerRecord]) -> Iterator[Lookalike]:
    own = {skeleton(name): name for name in OWN_TOOLS}
    full = {squashed(tool.written): tool for server in servers for tool in server.tools}
    alike: defaultdict[str, dict[str, list[ToolRecord]]] = defaultdict(dict)
    for server in servers:
        for tool in server.tools:
            exact, seen = _exact(tool.name), skeleton(tool.name)
            alike[seen].setdefault(exact, []).append(tool)
            if (name := own.get(seen)) is not None:
                yield Lookalike(f"{_named(tool)} looks like the gateway's own {name}", exact != squashed(name))
            if (other := full.get(exact)) is not None and other.server != tool.server:
                yield Lookalike(f"{_named(tool)} bears the full name of {other.written}", True)
    for spellings in alike.values():
        first, *others = spellings.values()
        for tools in others:
            if {tool.server for tool in tools} != {tool.server for tool in first}:
                several = (", ".join(_named(tool) for tool in group[:3]) for group in (tools, first))
                yield Lookalike(" can be taken for ".join(several), True)


def _named(tool: ToolRecord) -> str:
    return tool.written if tool.written.endswith(f".{tool.name}") else f"{tool.written} ({tool.name[:60]!a})"


def _exact(name: str) -> str:
    """A name without regard to its style, but with every letter what it is."""
    return squashed(unicodedata.normalize("NFC", name))
