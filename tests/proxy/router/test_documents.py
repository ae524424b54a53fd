"""The texts that an encoder reads of servers and tools."""

from __future__ import annotations

from proxy.router.documents import SERVER_TOOLS, TOOL_CHARS, all_documents, server_document, tool_document
from tests.proxy.router.encoders import server

FILES = server("local_files", {"read_text": "Read  a\n\ttext.", "write": ""}, purpose="Files of a disk")


def test_a_tool_is_its_server_its_name_and_what_it_does() -> None:
    assert tool_document(FILES, FILES.tools[0]) == "local files read text: Read a text."


def test_a_server_is_what_it_is_for_and_its_first_tools() -> None:
    assert server_document(FILES) == "local files: Files of a disk. read text, write"
    many = server("many", {f"tool{number:02}": "" for number in range(30)})
    assert server_document(many).endswith(f"tool{SERVER_TOOLS - 1:02}")


def test_every_text_is_there_once_and_none_is_long() -> None:
    long = server("l" * 5_000, {"t" * 5_000: "d" * 5_000, "t" * 5_001: "d" * 5_000})
    texts = all_documents([FILES, long, server("empty", {})])
    assert len(texts) == len(set(texts)) == 5  # The two long tools read alike.
    assert max(map(len, texts)) <= TOOL_CHARS
