"""Makes agents' Python into what Monty runs: tool calls that do not block each other, and a value that can be shown.

Above: monty_interpreter.py. Below: nothing. Monty has no threads, but an `await` in any function, async or not,
suspends the task around it. So `git.log(a=1)` becomes `(await _ta_wait(git.log(a=1)))`, and calls made by functions
that `parallel` runs are under way at once. Text is only ever inserted, and no line break: lines keep their numbers.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass

PRELUDE = """\
import asyncio as _ta_asyncio, json as _ta_json
ToolError = RuntimeError
async def _ta_wait(value):
    return (await value) if type(value) is _ta_awaitable else value
_ta_awaitable = type(_ta_wait(None))
def _ta_each(values):
    return [_ta_wait(value) for value in values]
async def _ta_one(fn, tool, item):
    try:
        return True, await _ta_wait(fn(item) if tool is None else _ta_later(tool, item))
    except Exception as error:
        return False, error
def parallel(fn, items, *, return_exceptions=False):
    tool = _ta_tool(fn)
    results = _ta_asyncio.run(_ta_asyncio.gather(*[_ta_one(fn, tool, item) for item in items]))
    for good, result in results:
        if not good and not return_exceptions:
            raise result
    return [result for _, result in results]
def _ta_shown(value):
    if value is None:
        return None
    try:
        text = _ta_json.dumps(value, ensure_ascii=False)
    except Exception:
        text = repr(value)
    return [len(text), text[:{kept}]]
"""
"""Run once in every new interpreter. `_ta_tool` and `_ta_later` are answered by the gateway. Monty forgets
where an exception came from when it is raised again, so an error in `parallel` is shown at its call."""

MAX_CHECKED = 300
"""Expressions in f-strings whose place is checked; those after them are left as they are."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Code to feed, and what has to be known of it to answer its calls and to show its tracebacks."""

    source: str
    awaited: frozenset[int]
    """Where in `source`, in UTF-8 bytes, the calls begin whose results are awaited."""
    lines: tuple[str, ...]
    """As the agent wrote them."""
    bound: frozenset[str] = frozenset()
    """Names the code binds anywhere: a server of that name may be something else afterwards."""
    servers: frozenset[str] = frozenset()
    """Those the code names."""


def rewrite(code: str, servers: Collection[str]) -> Rewritten:
    """`servers` are the names whose attributes are tools. What cannot be parsed is left as it is, for Monty to judge;
    tools called from it work, one at a time."""
    source = code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = tuple(source.split("\n"))
    try:
        tree = ast.parse(source)
        bound = frozenset(_bound(tree))
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        named = frozenset(named.intersection(servers) - bound)
        edits = _Edits(source, named)
        edits.visit(tree)
        edits.show_last(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Rewritten(source, frozenset(), lines)
    written, awaited = edits.applied()
    return Rewritten(written, awaited, lines, bound, named)


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case _:
                pass


class _Edits(ast.NodeVisitor):
    """Collects insertions into a source. Of two at one place the one that was made first comes first."""

    def __init__(self, source: str, servers: Collection[str]) -> None:
        self._bytes = source.encode()
        self._servers = servers
        self._starts = [0]
        for line in self._bytes.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._insertions: list[tuple[int, bytes]] = []
        self._calls: list[int] = []
        """Where, in the source as it was, the calls begin whose results are awaited."""
        self._wanted: set[ast.AST] = set()
        """Calls whose results are awaited by what is around them."""
        self._strings = self._checked = 0

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._strings += 1
        self.generic_visit(node)
        self._strings -= 1

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "gather":
            self._visit_gather(node)
        elif not self._is_tool_call(node):
            self.generic_visit(node)
        elif node in self._wanted:
            self._calls.append(self._span(node)[0])
            self.generic_visit(node)
        else:
            start, end = self._span(node)
            self._calls.append(start)
            self._around(node, (start, end), b"(await _ta_wait(", b"))")

    def visit_Await(self, node: ast.Await) -> None:
        if self._is_tool_call(node.value):
            self._wanted.add(node.value)
        if self._as_written(node.value):
            self._around(node.value, self._span(node.value), b"_ta_wait(", b")", itself=True)
        else:
            self.visit(node.value)

    def _visit_gather(self, node: ast.Call) -> None:
        """`asyncio.gather(git.log(), *[git.show(id=i) for i in ids])` gets what it can await, and plain values too."""
        self.visit(node.func)
        for argument in node.args:
            several = isinstance(argument, ast.Starred)
            value = argument.value if isinstance(argument, ast.Starred) else argument
            made = value.elts if isinstance(value, ast.List | ast.Tuple) and several else [value]
            made = [value.elt] if isinstance(value, _COMPREHENSIONS) and several else made
            self._wanted.update(each for each in made if self._is_tool_call(each))
            if self._as_written(value):
                wrapper = b"_ta_each(" if several else b"_ta_wait("
                self._around(value, self._span(value), wrapper, b")", itself=True)
            else:
                self.visit(value)
        for keyword in node.keywords:
            self.visit(keyword)

    def show_last(self, tree: ast.Module) -> None:
        """Wrap the expression that the code ends with, if it does. After `visit`, for it goes around everything."""
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr) and self._as_written(last.value):
            start, end = self._span(last.value)
            self._insertions.insert(0, (start, b"_ta_shown(("))
            self._insertions.append((end, b"))"))

    def applied(self) -> tuple[str, frozenset[int]]:
        """The source with its insertions, and where in it the calls begin whose results are awaited."""
        insertions = sorted(self._insertions, key=lambda insertion: insertion[0])
        parts: list[bytes] = []
        places, shifts = [-1], [0]
        done = 0
        for place, text in insertions:
            parts += self._bytes[done:place], text
            done = place
            places.append(place)
            shifts.append(shifts[-1] + len(text))
        parts.append(self._bytes[done:])
        # What is inserted at the very place of a call stands before it.
        awaited = (call + shifts[bisect_right(places, call) - 1] for call in self._calls)
        return b"".join(parts).decode(), frozenset(awaited)

    def _is_tool_call(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                return name in self._servers and self._as_written(node)
            case _:
                return False

    def _around(
        self, node: ast.AST, span: tuple[int, int], before: bytes, after: bytes, *, itself: bool = False
    ) -> None:
        self._insertions.append((span[0], before))
        if itself:
            self.visit(node)
        else:
            self.generic_visit(node)
        self._insertions.append((span[1], after))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _as_written(self, node: ast.AST) -> bool:
        """Whether a node stands where it says: before Python 3.12, what is inside of f-strings may not."""
        if not self._strings:
            return True
        self._checked += 1
        if self._checked > MAX_CHECKED:
            return False
        start, end = self._span(node)
        try:
            there = ast.parse(b"(" + self._bytes[start:end] + b")", mode="eval").body
        except (SyntaxError, ValueError):
            return False
        return ast.dump(there) == ast.dump(node)
