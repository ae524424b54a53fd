"""The child of the supervisor: runs the agent's code, and keeps its variables from run to run.

What it says over its socket is checked by the supervisor, for code can write there too. Code can also change any module
it likes; what is needed here afterwards is bound beforehand.
"""

import ast
import builtins
import faulthandler
import linecache
import os
import queue
import socket
import sys
import types

import rendering
from channel import Channel, Interrupts
from tools import Toolbox

SOURCES_KEPT = 200
"""Runs whose source is there for tracebacks."""
TOLERANT = "__toolatlas_awaitable__"
VALUE = "__toolatlas_value__"
AWAITING = {"gather": None, "create_task": 1, "ensure_future": 1, "wait_for": 1, "shield": 1}
"""Functions of asyncio that want something awaitable: how many of their arguments, None for all."""
CO_COROUTINE = 0x80
OWN_MODULES = (
    *("supervisor", "protections", "syscalls", "processes", "child", "frames", "output"),
    *("interpreter", "channel", "tools", "rendering", "hints"),
)
OWN_COPIES = ("ast", "signal", "traceback")
"""Modules that the agent's code imports anew: what it does to them is not done to ours."""


class Interpreter:
    """The namespace of a task, and the loop that runs code in it."""

    def __init__(self, sock: socket.socket) -> None:
        self._interrupts = Interrupts()
        self._channel = Channel(sock, self._interrupts)
        self._frames: queue.SimpleQueue[dict] = queue.SimpleQueue()
        self._tools = Toolbox(self._channel)
        self._streams = open_stream(1), open_stream(2)
        self._cells = 0
        self._sources = linecache.cache
        # A copy: servers stand behind the agent's own names, behind Python's, and in no library's way; and what code
        # does to it, no function here feels.
        self._builtins = vars(own_module("builtins"))
        self._builtins.update(vars(builtins) | self._tools.functions() | {TOLERANT: tolerant})
        self._python_names = frozenset(self._builtins)
        self._names = vars(own_module("__main__"))
        self._names["__builtins__"] = self._builtins

    def serve(self, getpid=os.getpid, leave=os._exit) -> None:
        """Until the supervisor ends this process."""
        me = getpid()
        self._channel.listen(self._frames.put)
        self._channel.send({"op": "ready"})
        while True:
            frame = self._frames.get()
            value, failure = self._run(frame)
            for stream in (sys.stdout, sys.stderr, *self._streams):
                try:
                    stream.flush()
                except BaseException:
                    # The agent's own stream, which may do anything.
                    continue
            if getpid() != me:
                # The code has forked, and this is the copy.
                leave(0)
            self._channel.end_run()
            if value is not None:
                self._channel.send(value)
            status = "ok" if failure is None else "error"
            self._channel.send({"op": "done", "run": frame["run"], "status": status, "failure": failure})

    def _run(self, frame: dict) -> tuple[str | None, dict | None]:
        """What came out: a value, or a failure, or neither."""
        sys.stdout, sys.stderr = self._streams
        self._bind(frame["servers"], frame["parallel"])
        self._channel.begin_run(frame["run"], frame["parallel"])
        try:
            self._interrupts.allow()
            if self._channel.stopped():
                raise KeyboardInterrupt
            outcome = self._attempt(frame)
            self._interrupts.forbid()
        except BaseException as error:
            # Interrupted while an error was written down, or an error that cannot be.
            self._interrupts.forbid()
            outcome = None, {"kind": rendering.kind_of(error), "message": "", "traceback": ""}
        return outcome

    def _bind(self, servers: list[str], parallel: int) -> None:
        for name in self._tools.known:
            if name not in self._python_names:
                self._builtins.pop(name, None)
        self._tools.bind(servers, parallel)
        for name, server in self._tools.known.items():
            if name not in self._python_names:
                self._builtins[name] = server

    def _attempt(self, frame: dict) -> tuple[str | None, dict | None]:
        try:
            return rendering.value_text(self._execute(frame["code"]), frame["kept"]), None
        except SystemExit as error:
            if error.code in (None, 0):
                return None, None
            return None, rendering.failure(error, self._tools.known, frame["processes"])
        except BaseException as error:
            return None, rendering.failure(error, self._tools.known, frame["processes"])

    def _execute(self, source: str) -> object:
        """The value of the last expression."""
        self._cells += 1
        cell = f"<cell {self._cells}>"
        self._sources[cell] = (len(source), None, source.splitlines(keepends=True), cell)
        self._sources.pop(f"<cell {self._cells - SOURCES_KEPT}>", None)
        code = compile(prepared(source, cell), cell, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & CO_COROUTINE:
            import asyncio

            asyncio.run(eval(code, self._names))
        else:
            exec(code, self._names)
        value = self._names.pop(VALUE, None)
        if type(value) is types.CoroutineType:
            # `main()` where `await main()` was meant.
            import asyncio

            value = asyncio.run(value)
        return value


def main(sock: socket.socket) -> None:
    """Serve one interpreter over a socket."""
    faulthandler.enable(2, all_threads=False)
    for name in OWN_MODULES + OWN_COPIES:
        sys.modules.pop(name, None)
    # The agent's own modules are found where it can write them.
    os.chdir(os.environ.get("HOME", "/"))
    sys.path[0] = ""
    Interpreter(sock).serve()


def prepared(source: str, cell: str) -> ast.Module:
    """The tree of a cell, with the last expression kept, and `await` taking plain values as well.

    Raises:
        SyntaxError: And ValueError, RecursionError and MemoryError, as the compiler does.
    """
    only_parse = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, cell, "exec", only_parse, dont_inherit=True)
    if "await" in source:
        tree = Tolerance().visit(tree)
    # A `return` at the end is taken for the expression it returns.
    if tree.body and isinstance(last := tree.body[-1], ast.Expr | ast.Return) and last.value is not None:
        tree.body[-1] = ast.copy_location(ast.Assign([ast.Name(VALUE, ast.Store())], last.value), last)
    return ast.fix_missing_locations(tree)


class Tolerance(ast.NodeTransformer):
    """Tools are called without `await`, but whoever writes `await git.log()` or gathers such calls means the same."""

    def visit_Await(self, node: ast.Await) -> ast.Await:
        self.generic_visit(node)
        node.value = made_awaitable(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id="asyncio"), attr=name) if name in AWAITING:
                count = AWAITING[name]
                node.args = [
                    made_awaitable(argument) if count is None or at < count else argument
                    for at, argument in enumerate(node.args)
                ]
        return node


def made_awaitable(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Starred):
        each = ast.Call(ast.Name("map", ast.Load()), [ast.Name(TOLERANT, ast.Load()), node.value], [])
        return ast.copy_location(ast.Starred(each, node.ctx), node)
    return ast.copy_location(ast.Call(ast.Name(TOLERANT, ast.Load()), [node], []), node)


async def tolerant(value: object) -> object:
    """Awaits what can be awaited, and is the value of everything else."""
    return await value if hasattr(type(value), "__await__") else value


def own_module(name: str) -> types.ModuleType:
    """An empty one that the agent's code gets under this name."""
    sys.modules[name] = module = types.ModuleType(name)
    return module


def open_stream(number: int):
    return open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
