"""Vectors of texts, kept on disk: a changed tool costs one pass through the encoder, a restart none.

Above: fusion.py, and the router's process, which embeds what is missing piece by piece. Below: encoder.py and one
SQLite file, which several processes may share. It holds nothing that could not be made anew: where it cannot be used,
the vectors live in memory, and the log says so.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import cast

import numpy as np

from proxy.errors import ConfigurationError
from proxy.files import locked
from proxy.router.encoder import MAX_TOKENS, Encoder, Vectors

logger = logging.getLogger("toolatlas.router")

KEPT = 300_000
"""Vectors in the file, above which those go that were not used for longest: 100,000 tools under three encoders."""
USED_AGAIN_DAYS = 7
"""How exactly the last use is known; each note of it is a write."""
BATCH = 64
"""Texts embedded before they are written: as many are lost when the process is killed."""
ROWS = 500
"""Of one statement."""
BUSY_S = 5.0
LENGTH_ERROR = 1e-3
"""A vector longer or shorter than 1 by more was not written by us."""
_DAY_S = 86_400
_UNAVAILABLE = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY),
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM),
    }
)
"""Primary result codes that say nothing against the file's content."""


class EmbeddingCache:
    """Key -> vector. Any number of threads and processes may use one file."""

    def __init__(self, path: Path | None, kept: int = KEPT) -> None:
        """`path`: the file, made with its folder if need be; None keeps the vectors in memory."""
        self._path = path
        self._kept = kept
        self._mutex = threading.Lock()
        self._database = self._open()

    def close(self) -> None:
        with self._mutex:
            self._database.close()

    def load(self, encoder: Encoder, texts: Iterable[str]) -> dict[str, Vectors]:
        """Text -> its vector `[d]`, for those that are there."""
        keys = {_key(encoder, text): text for text in texts}
        with self._mutex:
            try:
                rows = self._read(list(keys))
            except sqlite3.DatabaseError as error:
                self._database = self._recovered(error)
                return {}
        whole = {key: vector for key, vector in rows if len(vector) == encoder.width * 4}
        found = np.frombuffer(b"".join(whole.values()), dtype=np.float32).reshape(len(whole), encoder.width)
        # Also false where a number is none.
        sound = np.abs(np.linalg.norm(found, axis=1) - 1) < LENGTH_ERROR
        return {keys[key]: vector for key, vector, good in zip(whole, found, sound, strict=True) if good}

    def store(self, encoder: Encoder, texts: Sequence[str], vectors: Vectors) -> None:
        """Keep vectors `[n, d]` of texts."""
        day = int(time.time() // _DAY_S)
        rows = [
            (_key(encoder, text), vector.astype(np.float32).tobytes(), day)
            for text, vector in zip(texts, vectors, strict=True)
        ]
        with self._mutex:
            try:
                self._write(rows)
            except sqlite3.DatabaseError as error:
                self._database = self._recovered(error)
                self._write(rows)

    def _read(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes, int]] = []
        for start in range(0, len(keys), ROWS):
            part = keys[start : start + ROWS]
            marks = ",".join("?" * len(part))
            rows += self._database.execute(f"SELECT key, vector, used FROM vectors WHERE key IN ({marks})", part)
        day = int(time.time() // _DAY_S)
        if old := [(day, key) for key, _, used in rows if used < day - USED_AGAIN_DAYS]:
            with self._database:
                self._database.executemany("UPDATE vectors SET used = ? WHERE key = ?", old)
        return [(key, vector) for key, vector, _ in rows]

    def _write(self, rows: Sequence[tuple[bytes, bytes, int]]) -> None:
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO vectors (key, vector, used) VALUES (?, ?, ?)", rows)
            (count,) = cast("tuple[int]", self._database.execute("SELECT count(*) FROM vectors").fetchone())
            if count > self._kept:
                self._database.execute(
                    "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used, rowid LIMIT ?)",
                    (count - self._kept,),
                )

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return _connected(":memory:")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._opened(self._path)
        except (OSError, sqlite3.DatabaseError) as error:
            return self._without(error)

    def _opened(self, path: Path) -> sqlite3.Connection:
        """The file, made anew where it is no sound database of ours. One process at a time does this: a file that
        goes while another is being made in its place would take that one's journal with it."""
        with locked(path.with_name(f"{path.name}.lock")):
            path.touch(mode=0o600)
            try:
                return _connected(path)
            except sqlite3.DatabaseError as error:
                if _code(error) in _UNAVAILABLE:
                    raise
                logger.warning("the embeddings in %s cannot be read (%s); all are made anew", path, error)
            for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(name).unlink(missing_ok=True)
            path.touch(mode=0o600)
            return _connected(path)

    def _recovered(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """The database to go on with after an error of the one in use."""
        self._database.close()
        if self._path is None or _code(error) in _UNAVAILABLE:
            return self._without(error)
        logger.warning("the embeddings in %s cannot be used (%s); they are looked through", self._path, error)
        return self._open()

    def _without(self, error: Exception) -> sqlite3.Connection:
        logger.warning(
            "the embeddings in %s cannot be used (%s); until the next start they are kept in memory", self._path, error
        )
        self._path = None
        return _connected(":memory:")


def missing(encoder: Encoder, cache: EmbeddingCache, texts: Sequence[str]) -> list[str]:
    """Those of `texts` that are not in the cache, each once, in their order."""
    known = cache.load(encoder, texts)
    return [text for text in dict.fromkeys(texts) if text not in known]


def embed(encoder: Encoder, cache: EmbeddingCache, texts: Sequence[str]) -> Vectors:
    """`[n, d]`: out of the cache, or encoded and kept there, `BATCH` texts at a time.

    Raises:
        ConfigurationError: The encoder gives no vectors.
    """
    known = cache.load(encoder, texts)
    lacking = [text for text in dict.fromkeys(texts) if text not in known]
    for start in range(0, len(lacking), BATCH):
        part = lacking[start : start + BATCH]
        vectors = encoder.encode(part)
        if not np.isfinite(vectors).all():
            raise ConfigurationError("the encoder gives vectors with numbers that are none; choose another one")
        cache.store(encoder, part, vectors)
        known.update(zip(part, vectors, strict=True))
    if not texts:
        return np.zeros((0, encoder.width), dtype=np.float32)
    return np.stack([known[text] for text in texts])


def _key(encoder: Encoder, text: str) -> bytes:
    # Lone surrogates have no encoding, and servers may send them.
    return sha256(f"{encoder.hash}\n{MAX_TOKENS}\n{text}".encode("utf-8", "surrogatepass")).digest()


def _connected(path: Path | str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        # What a crash of the machine takes is made anew.
        database.execute("PRAGMA synchronous = OFF")
        database.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL)"
        )
        # Reads every page, so that a damaged one is found now and not in the middle of a search.
        (state,) = cast("tuple[str]", database.execute("PRAGMA quick_check(1)").fetchone())
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        database.execute("SELECT key, vector, used FROM vectors LIMIT 1").fetchall()
    except BaseException:
        database.close()
        raise
    return database


def _code(error: sqlite3.DatabaseError) -> int:
    """The primary result code; 0 where the error is our own."""
    code = cast("int | None", getattr(error, "sqlite_errorcode", None))
    return 0 if code is None else code & 0xFF
