"""What code prints, kept at a bounded size however much it is: the start and the end, and how much lies between."""

import codecs
from collections import deque

BLOCK = 4096
"""Characters up to which texts are joined: each has a price of its own, and code may print a letter at a time."""


class Output:
    """Takes bytes as they come out of the pipe. Counts characters, never cuts inside one."""

    def __init__(self, kept: int) -> None:
        self._head_room = kept // 4
        self._tail_room = kept - self._head_room
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        self._take(self._decoder.decode(data))

    def text(self) -> tuple[str, int, int]:
        """All that is kept, after how many characters of it the gap is, and how many characters are missing there."""
        self._take(self._decoder.decode(b"", final=True))
        tail = "".join(self._tail)
        left_out = self._left_out
        if len(tail) > self._tail_room:
            left_out += len(tail) - self._tail_room
            tail = tail[len(tail) - self._tail_room :]
        head = "".join(self._head)
        return head + tail, len(head) if left_out else 0, left_out

    def _take(self, text: str) -> None:
        if self._head_size < self._head_room:
            first = text[: self._head_room - self._head_size]
            append(self._head, first)
            self._head_size += len(first)
            text = text[len(first) :]
        if not text:
            return
        append(self._tail, text)
        self._tail_size += len(text)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            first = self._tail.popleft()
            self._tail_size -= len(first)
            self._left_out += len(first)


def append(texts: list[str] | deque[str], text: str) -> None:
    if texts and len(texts[-1]) < BLOCK:
        texts[-1] += text
    else:
        texts.append(text)
