"""Made-up queries that keep what the untrained router knew: sentences of tools' own descriptions, their names removed.

Above: training.py. Below: the catalogue. Each asks for the tool that it describes. They are made of tools of servers
that no good log has shown: those of the others have real queries, and these hold that the learned tools do not take
what is asked of anybody else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from random import Random

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.router.base import Query
from proxy.router.sentences import split_sentences
from trainer.ranking.examples import Example

READ_CHARS = 500
FIRST = 3
"""Sentences of a description that are taken; later ones are formats and examples."""
MIN_WORDS, MAX_WORDS = 4, 30


def replayed(
    servers: Sequence[ServerRecord], learned: Collection[str], *, count: int, weight: float, seed: int
) -> list[Example]:
    """At most `count` examples, of as many different tools, drawn by `seed`; the same for the same arguments."""
    random = Random(seed)
    tools = [(server, tool) for server in servers if server.name not in learned for tool in server.tools]
    random.shuffle(tools)
    made: list[Example] = []
    for server, tool in tools:
        if len(made) == count:
            break
        if sentences := nameless(server, tool):
            made.append(Example(query=Query(random.choice(sentences)), right={tool.written: weight}))
    return made


def nameless(server: ServerRecord, tool: ToolRecord) -> list[str]:
    """Its first sentences without its name and its server's, those that still say something."""
    text = tool.description[:READ_CHARS]
    for name in (server.name, tool.name, re.sub(r"[_:.-]", " ", tool.name)):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", text, flags=re.IGNORECASE)
    words = [sentence.split()[:MAX_WORDS] for sentence in split_sentences(text)[:FIRST]]
    return [" ".join(each) for each in words if len(each) >= MIN_WORDS]
