"""The texts that an encoder reads of servers and tools, and the revision of those that a language model reads.

Above: fusion.py, and the trainer, whose examples must be written alike. Below: the catalogue's records.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.store.rendering import REVISION

RENDERING = "documents-1"
"""Changes with every change of these texts: an adapter trained on others does not fit."""
PROMPT = f"language-1/{REVISION}"
"""The same for what a language model reads (language.py)."""
TOOL_CHARS = 500
SERVER_TOOLS = 12
"""Names of tools that stand in a server's text."""
NAME_CHARS = 100


def tool_document(server: ServerRecord, tool: ToolRecord) -> str:
    """`server tool: description`, at most `TOOL_CHARS` characters."""
    return f"{_name(server.name)} {_name(tool.name)}: {_line(tool.description[:TOOL_CHARS])}"[:TOOL_CHARS]


def server_document(server: ServerRecord) -> str:
    """Its name, what it is for, and its first tools; these often say more."""
    names = ", ".join(_name(tool.name) for tool in islice(server.tools, SERVER_TOOLS))
    return f"{_name(server.name)}: {_line(server.purpose)}. {names}"


def all_documents(servers: Sequence[ServerRecord], learned: Collection[str] | None = None) -> list[str]:
    """Every text that ranking these servers needs embedded, each once. `learned`: configured names; under LoRA tools of
    these servers alone are read."""
    texts = [server_document(server) for server in servers if server.tools]
    read = [server for server in servers if learned is None or server.name in learned]
    texts += [tool_document(server, tool) for server in read for tool in server.tools]
    return list(dict.fromkeys(texts))


def _name(name: str) -> str:
    return _line(name[:NAME_CHARS].replace("_", " "))


def _line(text: str) -> str:
    return " ".join(text.split())
