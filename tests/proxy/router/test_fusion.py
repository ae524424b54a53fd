"""What the fused ranking finds, and what it never does."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxy.catalog.records import ServerRecord
from proxy.router.adapters import save_adapter
from proxy.router.base import Query
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import TransformersEncoder, load_encoder
from proxy.router.fusion import FusedRouter
from tests.proxy.router.encoders import WordEncoder, server

FILES = server(
    "files",
    {
        "read_text": "Return the content of a document on disk",
        "remove": "Delete a document",
        "search": "Find documents",
    },
)
WEATHER = server(
    "weather",
    {
        "get_forecast": "Temperature and precipitation of the coming days",
        "search": "Find stations",
        "now": "Conditions",
    },
    purpose="Meteorological data",
)
MAIL = server("mail", {"send": "Deliver a message to somebody", "inbox": "List received messages"})
ALL = [FILES, WEATHER, MAIL]
OTHERS = [
    server(
        "git", {"commit": "Record changes of a repository", "log": "History of a branch", "push": "Publish commits"}
    ),
    server("sql", {"query": "Run a statement against the database", "tables": "List tables and their columns"}),
    server("music", {"play": "Play a song", "playlists": "List playlists of a listener", "skip": "Skip this song"}),
    server("maps", {"geocode": "Coordinates of an address", "route": "Directions between two places"}),
    server("money", {"convert": "Convert an amount between currencies", "rates": "Exchange rates of a day"}),
    server(
        "papers", {"arxiv": "Search preprints", "cite": "Citations of an article", "authors": "Works of a scientist"}
    ),
    server("chess", {"move": "Best move in a position", "rating": "Rating of a player"}),
]


@pytest.fixture(scope="module")
def encoder() -> TransformersEncoder:
    pytest.importorskip("torch")
    import torch

    torch.set_num_threads(1)  # As in the router's process; on a busy machine two are slower than one.
    return load_encoder()


def fused(servers: Sequence[ServerRecord] = ALL, encoder: Any = None) -> FusedRouter:
    return FusedRouter(servers, encoder or WordEncoder(), EmbeddingCache(None))


def found(router: FusedRouter, text: str, limit: int = 9, /, **query: Any) -> list[str]:
    return [ranked.tool for ranked in router.rank(Query(text, **query), limit)]


def test_what_is_meant_is_found_where_no_word_is_shared(encoder: TransformersEncoder) -> None:
    router = fused(encoder=encoder)
    assert found(router, "Will it rain in Oslo tomorrow?")[0] == "weather.get_forecast"
    assert found(router, "erase my old letter.txt")[0] == "files.remove"
    assert found(router, "write an email to my boss")[0] == "mail.send"


def test_a_long_task_finds_the_tools_of_each_of_its_sentences(encoder: TransformersEncoder) -> None:
    text = (
        "Hi there! I am planning a hike on Saturday, so tell me how warm it will get. My notes are in the file "
        "packing.txt, please read it.\nThen send Anna a message with what she should bring. Thanks!"
    )
    first = found(fused([*ALL, *OTHERS], encoder), text, 6)
    assert set(first) >= {"weather.get_forecast", "files.read_text", "mail.send"}


def test_a_name_that_is_said_comes_first_whatever_it_means() -> None:
    assert found(fused(), "weather.now deliver a message to somebody")[0] == "weather.now"
    assert found(fused(), "get_forecast to deliver a message")[0] == "weather.get_forecast"


def test_only_the_servers_that_were_asked_for_are_ranked() -> None:
    router = fused()
    assert found(router, "find documents", servers=frozenset({"mail"})) == found(
        router, "find documents", servers=frozenset({"mail", "gone"})
    )
    assert set(found(router, "find documents", servers=frozenset({"mail"}))) == {"mail.send", "mail.inbox"}
    assert found(router, "find documents", servers=frozenset()) == []


def test_the_order_within_some_servers_is_that_of_all() -> None:
    router = fused()
    whole = [tool for tool in found(router, "find documents") if not tool.startswith("mail.")]
    assert found(router, "find documents", servers=frozenset({"files", "weather"})) == whole


def test_a_limit_cuts_and_changes_no_order() -> None:
    router = fused()
    whole = found(router, "message")
    assert len(whole) == 8
    for limit in range(9):
        assert found(router, "message", limit) == whole[:limit]


def test_equal_tools_stand_in_the_order_of_their_names() -> None:
    twins = [server(name, {"one": "the same", "two": "the same"}) for name in ("b", "a")]
    ranked = FusedRouter(twins, WordEncoder(), EmbeddingCache(None)).rank(Query("unrelated"), 4)
    for left, right in pairwise(ranked):
        assert (-left.score, left.tool) < (-right.score, right.tool)


def test_of_two_tools_alike_the_one_of_the_fitting_server_comes_first() -> None:
    courts = server(
        "z", {"search": "Search records", "rulings": "Rulings of a court", "verdicts": "Verdicts of a court"}
    )
    soups = server("a", {"search": "Search records", "soups": "Soups of a country", "spices": "Spices of a soup"})
    ranked = found(fused([courts, soups, *OTHERS]), "search records about rulings and verdicts of a court")
    assert ranked.index("z.search") < ranked.index("a.search")


def test_a_tool_that_fits_one_sentence_beats_one_that_fits_a_little_to_all() -> None:
    class Pointing:
        """Each text points where its first known word does, and `Find` a little to everywhere."""

        hash, width = "pointing", 4

        def encode(self, texts: Sequence[str], max_tokens: int = 0) -> np.ndarray[Any, Any]:
            places = {"Temperature": 0, "warm": 0, "Deliver": 1, "greet": 1, "Find": 2}
            near = [next((places[word] for word in text.split() if word in places), 3) for text in texts]
            vectors = np.eye(4, dtype=np.float32)
            vectors[2] = 0.5
            return vectors[near]

    # No word of it stands in any document: only the encoder can tell.
    ranked = found(fused(encoder=Pointing()), "How warm becomes tomorrow maybe? Please greet Anna kindly.")
    assert ranked.index("weather.get_forecast") < ranked.index("weather.search")


def test_what_the_user_said_weighs_less_than_the_query() -> None:
    router = fused()
    assert found(router, "delete a document", task="deliver a message to somebody")[0] == "files.remove"
    plain, with_task = found(router, "find"), found(router, "find", task="Deliver a message to somebody")
    assert with_task.index("mail.send") < plain.index("mail.send")


def test_servers_are_ranked_by_their_tools_and_by_what_they_say(encoder: TransformersEncoder) -> None:
    router = fused(encoder=encoder)
    assert router.rank_servers(Query("is it sunny outside"), 2)[0] == "weather"
    assert len(router.rank_servers(Query("is it sunny outside"), 9)) == 3
    assert router.rank_servers(Query("x"), 0) == []


@pytest.mark.parametrize(
    "text", ["", " \n\t", "?", "\ud800", "a" * 100_000, "\n".join("word " * 5 for _ in range(5_000))]
)
def test_no_text_breaks_it(text: str) -> None:
    assert len(found(fused(), text)) == 8


def test_catalogues_with_next_to_nothing_in_them() -> None:
    assert found(fused([server("empty", {})]), "x") == []
    assert found(fused([]), "x") == []
    assert fused([]).rank_servers(Query("x"), 3) == []
    assert found(fused([server("one", {"tool": ""}), server("none", {})]), "x") == ["one.tool"]


def test_threads_get_the_answers_of_one() -> None:
    router = fused()
    queries = [Query(f"{word} documents {number}") for number in range(20) for word in ("find", "send")]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: router.rank(query, 5), queries)) == [
            fused().rank(query, 5) for query in queries
        ]


def test_a_text_that_comes_again_is_read_once() -> None:
    encoder = WordEncoder()
    router = fused(encoder=encoder)
    router.rank(Query("first", task="what the user said of it"), 5)
    read = len(encoder.encoded)
    router.rank(Query("second", task="what the user said of it"), 5)
    assert encoder.encoded[read:] == ["second"]


def test_with_a_head_a_text_is_read_as_often_as_without(tmp_path: Path) -> None:
    encoder = WordEncoder()
    turn = np.random.default_rng(0).normal(0, 0.3, (encoder.width, encoder.width)).astype(np.float32)
    servers = [
        server("files", {"read": "read a file", "write": "write a file"}),
        server("mail", {"send": "send a letter", "search": "search letters"}),
        server("music", {"play": "play a song"}),
    ]
    adapter = save_adapter(tmp_path / "head", base_hash=encoder.hash, servers=["files"], head=turn)
    plain, adapted = (FusedRouter(servers, encoder, EmbeddingCache(None), each) for each in (None, adapter))
    query, read = Query("look at the paper", task="Read what the letter says."), list[list[str]]()
    scores = list[dict[str, float]]()
    for router in (plain, adapted):
        before = len(encoder.encoded)
        scores.append({each.tool: each.score for each in router.rank(query, 9)})
        read.append(encoder.encoded[before:])
    assert read[0] == read[1] != []
    assert scores[0] != scores[1]


def test_among_many_tools_the_nearest_one_is_found() -> None:
    # As many as 100,000 are searched in the same way; so many take a minute to tokenize.
    count, wanted = 10_000, 7_777
    vectors = np.random.default_rng(5).standard_normal((count, 32), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    class Given:
        """Tool n lies where `vectors` says; all servers' texts, and the query, where the wanted tool does."""

        hash, width = "given", 32

        def encode(self, texts: Sequence[str], max_tokens: int = 0) -> np.ndarray[Any, Any]:
            rows = [text.partition(": ")[2].strip() for text in texts]
            return np.stack([vectors[int(row) if row.isdecimal() else wanted] for row in rows])

    servers = [server(f"s{s}", {f"t{t}": str(s * 100 + t) for t in range(100)}) for s in range(100)]
    router = FusedRouter(servers, Given(), EmbeddingCache(None))
    assert router.rank(Query("anything"), 3)[0].tool == "s77.t77"
    assert router.rank_servers(Query("anything"), 1) == ["s77"]
