"""What goes over between the gateway and the router's process comes out as it went in."""

from __future__ import annotations

import json

import pytest

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.router.base import History, Query
from proxy.router.frames import (
    MAX_BYTES,
    MAX_HISTORY,
    Unframed,
    frame,
    query_of,
    server_of,
    told_query,
    told_server,
)
from proxy.router.lexical import MAX_QUERY_CHARS, LexicalRouter
from tests.fixtures.routed import SUBJECTS, VERBS, catalog


def test_messages_come_whole_however_the_bytes_are_cut() -> None:
    messages = [{"kind": "a", "text": "é \ud800 " * 50}, {"kind": "b"}, {"kind": "c", "n": [1, 2, 3]}]
    content = b"".join(frame(message) for message in messages)
    for size in (1, 3, 7, 1000):
        unframed = Unframed()
        got = [each for at in range(0, len(content), size) for each in unframed.take(content[at : at + size])]
        assert got == messages


@pytest.mark.parametrize("content", [(MAX_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\2[]", b"\0\0\0\1{"])
def test_bytes_that_are_no_messages_are_told(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(Unframed().take(content))


def test_a_server_that_went_over_is_ranked_like_the_one_it_was() -> None:
    servers = catalog().servers
    copies = [server_of(json.loads(json.dumps(told_server(server)))) for server in servers]
    original, copied = LexicalRouter(servers), LexicalRouter(copies)
    for query in [f"{verb} {subject}" for verb in VERBS for subject in SUBJECTS] + ["which recipes, strange query"]:
        assert copied.rank(Query(query), 50) == original.rank(Query(query), 50)


@pytest.mark.parametrize("properties", ["none", ["a"], {"deep": [[[]]]}, {"a": {"description": 5}}, {"b": None}])
def test_a_schema_that_is_none_does_not_stop_a_server_from_going_over(properties: object) -> None:
    tool = ToolRecord("s", "t", "s.t", {"name": "t", "description": 3, "inputSchema": {"properties": properties}})
    record = ServerRecord("s", "s", "purpose", (tool,), None)
    query = Query("a b deep t")
    copy = server_of(json.loads(frame(told_server(record))[4:]))
    assert LexicalRouter([copy]).rank(query, 5) == LexicalRouter([record]).rank(query, 5)


def test_a_query_goes_over_with_all_that_it_says() -> None:
    query = Query("text", "task", frozenset({"b", "a"}), History(("s",), ("a.x",), ("a.y", "a.z")), "episode")
    assert query_of(json.loads(json.dumps(told_query(query)))) == query


def test_of_an_endless_query_only_what_is_read_goes_over() -> None:
    query = Query("t" * 10**6, "u" * 10**6, None, History(tuple("v" * 10**5 for _ in range(200))))
    told = query_of(told_query(query))
    assert (len(told.text), len(told.task or "")) == (MAX_QUERY_CHARS, MAX_QUERY_CHARS)
    assert len(told.history.searched) == MAX_HISTORY
    assert len(frame(told_query(query))) < (MAX_HISTORY + 2) * MAX_QUERY_CHARS + 10_000
