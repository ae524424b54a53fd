"""What code prints, kept at a bounded size however much it is: the start and the end, and how much lies between.

Above: monty_run.py, whose worker threads write while the run waits. Below: base.py.
"""

from __future__ import annotations

from collections import deque

from proxy.sandbox.base import Output


class Capture:
    """Takes text as it is printed and keeps `kept` characters: a quarter of the start, the rest of the end."""

    def __init__(self, kept: int) -> None:
        self._head_room = kept // 4
        self._tail_room = kept - self._head_room
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._left_out = 0

    def add(self, text: str) -> None:
        if self._head_size < self._head_room:
            first = text[: self._head_room - self._head_size]
            self._head.append(first)
            self._head_size += len(first)
            text = text[len(first) :]
        if not text:
            return
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            first = self._tail.popleft()
            self._tail_size -= len(first)
            self._left_out += len(first)

    def output(self) -> Output:
        head, tail = "".join(self._head), "".join(self._tail)
        cut = max(0, len(tail) - self._tail_room)
        left_out = self._left_out + cut
        return Output(head + tail[cut:], len(head) if left_out else 0, left_out)
