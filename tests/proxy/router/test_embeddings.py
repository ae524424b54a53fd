"""What the file of embeddings keeps, and what becomes of it when it is shared, damaged or cannot be there."""

from __future__ import annotations

import logging
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from proxy.router.embeddings import EmbeddingCache, embed, missing
from tests.proxy.router.encoders import WordEncoder

TEXTS = [f"text number {number}" for number in range(150)]


def test_a_restart_embeds_nothing_and_a_changed_text_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "embeddings.sqlite"
    first = EmbeddingCache(path)
    vectors = embed(WordEncoder(), first, TEXTS)
    first.close()
    again, cache = WordEncoder(), EmbeddingCache(path)
    assert missing(again, cache, TEXTS) == []
    assert np.array_equal(embed(again, cache, TEXTS), vectors)
    assert again.encoded == []
    embed(again, cache, [*TEXTS[:40], "another text", *TEXTS[41:]])
    assert again.encoded == ["another text"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_text_that_stands_twice_is_embedded_once_and_the_order_is_kept() -> None:
    encoder, cache = WordEncoder(), EmbeddingCache(None)
    vectors = embed(encoder, cache, ["one", "two", "one"])
    assert encoder.encoded == ["one", "two"]
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])
    assert missing(encoder, cache, ["three", "one", "three"]) == ["three"]


def test_another_encoder_gets_nothing_of_this_one() -> None:
    cache = EmbeddingCache(None)
    embed(WordEncoder("first"), cache, TEXTS)
    assert missing(WordEncoder("second"), cache, TEXTS) == TEXTS


def test_no_text_at_all_is_no_vector() -> None:
    assert embed(WordEncoder(), EmbeddingCache(None), []).shape == (0, 64)


def test_a_lone_surrogate_can_be_kept() -> None:
    encoder, cache = WordEncoder(), EmbeddingCache(None)
    embed(encoder, cache, ["broken \ud800 text"])
    assert missing(encoder, cache, ["broken \ud800 text"]) == []


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _damaged_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 : len(content) // 2] = b"\xa5" * (len(content) // 2 - 4096)
    path.write_bytes(content)


def _other_table(path: Path) -> None:
    path.unlink()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE vectors (name TEXT)")
    database.commit()
    database.close()


@pytest.mark.parametrize("damage", [_garbage, _half, _damaged_page, _other_table])
def test_a_damaged_file_is_made_anew_and_said(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "embeddings.sqlite"
    cache = EmbeddingCache(path)
    vectors = embed(WordEncoder(), cache, TEXTS)
    cache.close()
    damage(path)
    with caplog.at_level(logging.WARNING):
        cache = EmbeddingCache(path)
    assert "cannot be read" in caplog.text
    encoder = WordEncoder()
    assert np.array_equal(embed(encoder, cache, TEXTS), vectors)
    assert len(encoder.encoded) == len(TEXTS)
    cache.close()
    assert missing(encoder, EmbeddingCache(path), TEXTS) == []


def test_a_file_damaged_while_it_is_open_costs_an_embedding_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "embeddings.sqlite"
    cache = EmbeddingCache(path)
    vectors = embed(WordEncoder(), cache, TEXTS)
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE vectors")
    other.close()
    assert np.array_equal(embed(WordEncoder(), cache, TEXTS), vectors)
    assert missing(WordEncoder(), cache, TEXTS) == []


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 256, np.full(64, np.nan, np.float32).tobytes()])
def test_a_vector_that_is_none_is_made_anew(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "embeddings.sqlite"
    cache = EmbeddingCache(path)
    vectors = embed(WordEncoder(), cache, TEXTS[:3])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE vectors SET vector = ? WHERE rowid = 2", (content,))
    other.close()
    encoder = WordEncoder()
    assert np.array_equal(embed(encoder, cache, TEXTS[:3]), vectors)
    assert encoder.encoded == [TEXTS[1]]


def test_where_no_file_can_be_the_vectors_live_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        cache = EmbeddingCache(tmp_path / "file" / "embeddings.sqlite")
    assert "kept in memory" in caplog.text
    embed(WordEncoder(), cache, TEXTS)
    assert missing(WordEncoder(), cache, TEXTS) == []


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "embeddings.sqlite"
    cache = EmbeddingCache(path, kept=10)
    encoder = WordEncoder()
    embed(encoder, cache, TEXTS[:10])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE vectors SET used = 1")
    other.close()
    cache.load(encoder, TEXTS[:5])
    embed(encoder, cache, TEXTS[10:13])
    assert missing(encoder, cache, TEXTS[:13]) == TEXTS[5:8]


def test_two_processes_fill_one_file_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "embeddings.sqlite"
    _garbage(path)  # Both find it damaged; one of them makes it anew.
    program = (
        "import sys; from pathlib import Path\n"
        "from proxy.router.embeddings import EmbeddingCache, embed\n"
        "from tests.proxy.router.encoders import WordEncoder\n"
        "cache = EmbeddingCache(Path(sys.argv[1]))\n"
        "for n in range(40):\n"
        "    embed(WordEncoder(), cache, [f'{sys.argv[2]} {n} {m}' for m in range(5)])\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("one", "two")]
    ends = [(each.communicate(timeout=60)[1], each.returncode) for each in both]
    assert [code for _, code in ends] == [0, 0], ends
    assert not any("in memory" in said for said, _ in ends)
    texts = [f"{name} {n} {m}" for name in ("one", "two") for n in range(40) for m in range(5)]
    assert missing(WordEncoder(), EmbeddingCache(path), texts) == []
