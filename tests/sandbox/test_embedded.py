"""The embedded backend with real worker processes: what is particular to it; what all backends share is elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import psutil
import pytest

from proxy.errors import SandboxError
from proxy.sandbox import embedded, monty_interpreter
from proxy.sandbox.base import Limits, Reply, RunResult, Status
from proxy.sandbox.embedded import EmbeddedBackend
from proxy.sandbox.monty_interpreter import MontyInterpreter
from tests.lifecycle.conftest import gone
from tests.sandbox.conftest import LIMIT_S, Tools, until

pytestmark = pytest.mark.anyio

MB = 1024 * 1024
Start = Callable[..., AbstractAsyncContextManager[EmbeddedBackend]]


@pytest.fixture
def backend() -> Start:
    @asynccontextmanager
    async def start(**limits: Any) -> AsyncGenerator[EmbeddedBackend]:
        chosen: dict[str, Any] = {"grace_s": 0.3, "memory_bytes": 64 * MB, "warm": 0, **limits}
        backend = EmbeddedBackend(Limits(**chosen))
        with anyio.fail_after(LIMIT_S):
            async with backend.running():
                yield backend
        assert backend.workers == 0

    return start


@pytest.fixture
async def interpreter(backend: Start) -> AsyncGenerator[MontyInterpreter]:
    async with backend() as running:
        yield await running.open("t")


async def run(interpreter: MontyInterpreter, code: str, tools: Any = None, timeout_s: float = 10.0) -> RunResult:
    return await interpreter.run(code, timeout_s, Tools() if tools is None else tools)


async def value(interpreter: MontyInterpreter, code: str, tools: Any = None) -> str | None:
    result = await run(interpreter, code, tools)
    assert result.status is Status.OK, result
    assert result.kept
    return result.value


class TogetherOnly(Tools):
    """`s.meet` answers once as many calls are under way as it was told: one after the other, none ever would be."""

    def __init__(self, needed: int) -> None:
        super().__init__()
        self._needed = needed
        self._met = anyio.Event()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        self.made.append((tool, dict(arguments)))
        if len(self.made) == self._needed:
            self._met.set()
        await self._met.wait()
        return Reply(True, arguments)


async def test_calls_values_and_variables(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    assert await value(interpreter, "x = s.echo(value={'n': [1, 2]})['n']\nx", tools) == "[1, 2]"
    assert await value(interpreter, "f'{s.echo(value=x)[1]} é'") == '"2 é"'
    assert tools.made == [("s.echo", {"value": {"n": [1, 2]}})]


@pytest.mark.parametrize(
    "code",
    [
        "parallel(lambda i: s.meet(a=i)['a'], range(4))",
        "def f(i):\n    return s.meet(a=i)['a']\nparallel(f, range(4))",
        "def f(i):\n    return s.meet(a=i)\ndef g(i):\n    return f(i)['a']\nparallel(g, range(4))",
        "def h():\n    return parallel(lambda i: s.meet(a=i)['a'], range(4))\nh()",
        "async def f(i):\n    return (await s.meet(a=i))['a']\nparallel(f, range(4))",
        "[r['a'] for r in parallel(s.meet, [{'a': i} for i in range(4)])]",
        "t = s.meet\n[r['a'] for r in parallel(t, [{'a': i} for i in range(4)])]",
        "sum(parallel(lambda i: parallel(lambda j: s.meet(a=j)['a'], [2 * i, 2 * i + 1]), [0, 1]), [])",
        "class P:\n    def m(self, i):\n        return s.meet(a=i)['a']\np = P()\nparallel(lambda i: p.m(i), range(4))",
        "import asyncio\n[r['a'] for r in await asyncio.gather(*[s.meet(a=i) for i in range(4)])]",
        "import asyncio\n[r['a'] for r in await asyncio.gather(s.meet(a=0), s.meet(a=1), s.meet(a=2), s.meet(a=3))]",
    ],
)
async def test_calls_under_way_at_once(interpreter: MontyInterpreter, code: str) -> None:
    tools = TogetherOnly(4)
    assert await value(interpreter, code, tools) == "[0, 1, 2, 3]"


async def test_a_function_of_an_earlier_run_calls_at_once_too(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "def f(i):\n    return s.meet(a=i)['a']")
    assert await value(interpreter, "parallel(f, range(3))", TogetherOnly(3)) == "[0, 1, 2]"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("g = s\ng.echo(value=1)", "1"),
        ("g = s.echo\ng(value=1)", "1"),
        ("eval('s.echo(value=1)')", "1"),
        ("getattr(s, 'echo')(value=1)", "1"),
        ("await s.echo(value=1)", "1"),
        ("await 5", "5"),
        ("import asyncio\nr = [s.echo(value=1), s.echo(value=2)]\nawait asyncio.gather(*r)", "[1, 2]"),
        ("sum(s.echo(value=i) for i in range(3))", "3"),
        ("servers()[0]['name']", '"s"'),
        ("describe(s.echo)", "describe of s.echo"),
        ("[describe('s.echo')]", '["describe of s.echo"]'),
        (
            "[str(e) for e in parallel(lambda i: s.none() if i else i, [0, 1], return_exceptions=True)]",
            '["0", "s.none failed on purpose"]',
        ),
        ("try:\n    s.none()\nexcept ToolError as e:\n    r = str(e)\nr", '"s.none failed on purpose"'),
        ("import time, asyncio\ntime.sleep(0.01)\nawait asyncio.sleep(0.01)\n1", "1"),
        ("s = 5\ns + 1", "6"),
        ("class A:\n    def __repr__(self):\n        return 'mine'\nA()", "mine"),
        ("{1, 1}", "{1}"),
        ("raise SystemExit", None),
    ],
)
async def test_as_written(interpreter: MontyInterpreter, code: str, expected: str | None) -> None:
    assert await value(interpreter, code) == expected


async def test_help_is_printed_where_it_is_called(interpreter: MontyInterpreter) -> None:
    result = await run(interpreter, "print('a')\nhelp(s)\nhelp('s')\nprint('b')\nhelp()")
    *lines, last = result.output.text.splitlines()
    assert (lines, result.value) == (["a", "help of s", "help of s", "b"], None)
    assert last.startswith("servers() lists")


async def test_parallel_tries_every_item_and_raises_the_first_error(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    code = "def f(i):\n    return s.echo(value=1 // i)\n\nparallel(f, [2, 0, 1])"
    result = await run(interpreter, code, tools)
    assert result.failure is not None
    assert result.failure.kind == "ZeroDivisionError"
    assert result.failure.traceback == '  File "<cell 1>", line 4, in <module>\n    parallel(f, [2, 0, 1])'
    assert [arguments["value"] for _, arguments in tools.made] == [0, 1]


async def test_a_variable_with_a_servers_name_is_the_variable_in_later_runs(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "class Own:\n    def echo(self, value):\n        return 'own'\ns = Own()")
    tools = Tools()
    assert await value(interpreter, "s.echo(value=1)", tools) == '"own"'
    assert tools.made == []


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("s.none()", "ToolError", "s.none failed on purpose"),
        ("s.echo(1)", "TypeError", r"keyword arguments only: s.echo\(name=value\)"),
        ("s.echo(value=lambda: 1)", "TypeError", "argument value: a function has no JSON form"),
        ("s.echo(value=b'1')", "TypeError", "a bytes has no JSON form"),
        ("x = []\nx.append(x)\ns.echo(value=x)", "TypeError", "levels deep|'\\[...\\]'|has no JSON form"),
        ("parallel(s.echo, [1])", "TypeError", "dicts of arguments"),
        ("help(3)", "TypeError", "a server, a tool or its name, not int"),
        ("{}['k']", "KeyError", "'k'"),
        ("def g():\n    yield 1", "NotImplementedError", "build a list instead"),
        ("class E(Exception):\n    pass", "NotImplementedError", "raise RuntimeError"),
        ("x = 1\ndel x", "NotImplementedError", "assign None"),
        ("import statistics", "ModuleNotFoundError", "no module statistics here; compute it"),
        ("import nothing_like_it", "ModuleNotFoundError", "there are asyncio, .*json"),
        ("sorted([1], key=lambda v: s.echo(value=v))", "NotImplementedError", "results = parallel"),
        ("open('/etc/passwd')", "PermissionError", "no files here"),
        ("1 +", "SyntaxError", "expression"),
        ("s._x", "AttributeError", "_x"),
        ("\ud800 = 1", "SyntaxError", ""),
    ],
)
async def test_what_is_raised(interpreter: MontyInterpreter, code: str, kind: str, said: str) -> None:
    tools = Tools()
    result = await run(interpreter, code, tools)
    if "append(x)" in code and result.status is Status.OK:  # Monty itself writes the circle as text.
        assert tools.made == [("s.echo", {"value": ["[...]"]})]
        return
    assert result.status is Status.ERROR
    assert result.failure is not None
    assert result.failure.kind == kind
    assert re.search(said, result.failure.message), result.failure.message
    assert result.kept


async def test_a_traceback_shows_the_agents_lines_of_all_runs(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "def f(x):\n\n    return s.echo(value=x)['n']")
    result = await run(interpreter, "y = 1\nf({'m': y})")
    assert result.failure is not None
    assert result.failure.traceback.splitlines() == [
        '  File "<cell 2>", line 2, in <module>',
        "    f({'m': y})",
        '  File "<cell 1>", line 3, in f',
        "    return s.echo(value=x)['n']",
    ]


async def test_output_is_kept_at_both_ends(backend: Start) -> None:
    async with backend(output_kept=1000) as running:
        result = await run(await running.open("t"), "for i in range(100000): print(i)\n'x' * 5000")
    output = result.output
    assert output.text.startswith("0\n1\n2")
    assert output.text.endswith("99999\n")
    assert output.left_out + len(output.text) == sum(len(f"{i}\n") for i in range(100000))
    assert output.gap_at == 250
    assert result.value is not None
    assert len(result.value) == 1000


async def test_computing_too_long_keeps_variables(interpreter: MontyInterpreter) -> None:
    result = await run(interpreter, "x = 1\nwhile True:\n    pass", timeout_s=0.3)
    assert result.status is Status.TIMEOUT
    assert result.kept
    assert await value(interpreter, "x") == "1"


async def test_waiting_too_long_cancels_the_call_and_keeps_variables(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    code = "x = 1\ntry:\n    s.hang()\nexcept Exception:\n    x = 2"
    result = await run(interpreter, code, tools, timeout_s=0.3)
    assert result.status is Status.TIMEOUT
    assert tools.cancelled == 1
    assert result.kept
    assert await value(interpreter, "x") == "1"


async def test_code_that_goes_on_after_its_deadline_is_ended(interpreter: MontyInterpreter) -> None:
    code = "x = 1\nwhile True:\n    try:\n        s.hang()\n    except BaseException:\n        pass"
    result = await run(interpreter, code, timeout_s=0.3)
    assert result.status is Status.TIMEOUT
    assert not result.kept
    assert "did not stop" in (result.lost_because or "")
    after = await run(interpreter, "x")
    assert after.failure is not None
    assert after.failure.kind == "NameError"
    assert "did not stop" in (after.lost_because or "")
    assert (await run(interpreter, "1")).lost_because is None


async def test_waiting_and_then_computing_too_long_goes_back_to_the_last_call(interpreter: MontyInterpreter) -> None:
    code = "x = [1]\ns.slow(seconds=1.2, value=1)\nx.append(2)\nwhile True:\n    pass"
    result = await run(interpreter, code, timeout_s=1.5)
    assert result.status is Status.TIMEOUT
    assert result.kept
    assert result.failure is not None
    assert "as they were at its last tool call" in result.failure.message
    assert await value(interpreter, "x") == "[1]"


async def test_a_caller_that_is_cancelled_at_once_leaves_a_sound_interpreter(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = 1")
    for _ in range(5):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await run(interpreter, "x = 2\ns.hang()")
    assert await value(interpreter, "x") in ("1", "2")


async def test_a_cancelled_caller_interrupts_what_waits(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, interpreter, "x = 1\nparallel(lambda i: s.hang(), [1, 2, 3])", tools)
        await until(lambda: tools.at_once == 3, "three calls under way")
        tasks.cancel_scope.cancel()
    assert tools.cancelled == 3
    assert await value(interpreter, "x") == "1"


@pytest.mark.parametrize("call", ["s.echo(value=1)", "parallel(lambda i: s.echo(value=i), [1])"])
async def test_a_cancelled_caller_ends_what_computes_and_variables_are_those_of_the_last_call(
    interpreter: MontyInterpreter, call: str
) -> None:
    tools = Tools()
    await value(interpreter, "x = [1]")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, interpreter, f"x.append(2)\ny = {call}\nx.append(3)\nwhile True:\n    pass", tools)
        await until(lambda: len(tools.made) == 1 and tools.at_once == 0, "the code runs")
        tasks.cancel_scope.cancel()
    assert await value(interpreter, "x") == "[1, 2]"
    failed = await run(interpreter, "y")
    assert failed.failure is not None
    assert failed.failure.traceback == '  File "<cell 4>", line 1, in <module>\n    y'


async def test_a_run_that_made_no_call_is_taken_back_when_it_has_to_be_ended(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = [1]\ndef f():\n    return 1 / 0")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, interpreter, "x.append(2)\nprint(x)\nwhile True:\n    pass")
        await anyio.sleep(0.2)  # Nothing tells from outside that it computes; too early, it is not begun.
        tasks.cancel_scope.cancel()
    assert await value(interpreter, "x") == "[1]"
    failed = await run(interpreter, "f()")
    assert failed.failure is not None
    assert '"<cell 1>", line 3, in f' in failed.failure.traceback


async def test_variables_too_large_for_a_checkpoint_are_lost_and_it_is_said(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    code = "x = ['abcdefgh' * 10 + str(i) for i in range(150000)]\ns.echo(value=1)\nwhile True:\n    pass"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, interpreter, code, tools)
        await until(lambda: len(tools.made) == 1, "the code runs")
        tasks.cancel_scope.cancel()
    result = await run(interpreter, "1")
    assert result.value == "1"
    assert "did not stop" in (result.lost_because or "")


async def test_large_variables_stay_when_the_time_limit_is_another(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = ['abcdefgh' * 10 + str(i) for i in range(150000)]")
    result = await run(interpreter, "len(x)", timeout_s=5.0)
    assert result.value == "150000"
    assert result.lost_because is None


async def test_the_event_loop_is_never_held(interpreter: MontyInterpreter) -> None:
    turns = 0
    tools = Tools()

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.001)
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await run(interpreter, "while True:\n    pass", tools, timeout_s=0.5)
        tasks.cancel_scope.cancel()
    assert turns > 50


async def test_memory_taken_for_good_resets(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = 1")
    result = await run(interpreter, "a = []\nwhile True:\n    a.append('x' * 1000000 + str(len(a)))")
    assert result.status is Status.DIED
    assert not result.kept
    assert result.lost_because == "the memory was full"
    assert (await run(interpreter, "1")).lost_because == "the memory was full"


@pytest.mark.parametrize("code", ["'x' * 10**10", "10 ** (10 ** 8)", "def f(n):\n    return f(n + 1)\nf(0)"])
async def test_what_is_refused_keeps_variables(interpreter: MontyInterpreter, code: str) -> None:
    await value(interpreter, "x = 1")
    result = await run(interpreter, code)
    assert result.status is Status.ERROR
    assert result.kept
    assert await value(interpreter, "x") == "1"


async def test_a_worker_that_dies_between_two_runs_is_replaced(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = 1")
    assert interpreter.process_id is not None
    os.kill(interpreter.process_id, signal.SIGKILL)
    result = await run(interpreter, "1 + 1")
    assert (result.value, result.kept) == ("2", True)
    assert result.lost_because


async def test_a_worker_that_dies_while_its_code_waits_is_noticed(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    results: list[RunResult] = []

    async def wait() -> None:
        results.append(await run(interpreter, "s.hang()", tools, timeout_s=300))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await tools.began.wait()
        assert interpreter.process_id is not None
        os.kill(interpreter.process_id, signal.SIGKILL)
    assert (results[0].status, results[0].kept, tools.cancelled) == (Status.DIED, False, 1)


async def test_fifty_tasks_at_once(backend: Start) -> None:
    async with backend(interpreters=12) as running:
        results: list[str | None] = []

        async def work(number: int) -> None:
            interpreter = await running.open(f"t{number}")
            for attempt in range(200):
                try:
                    await value(interpreter, f"x = s.slow(seconds=0.01, value={number})")
                    results.append(await value(interpreter, "x"))
                    return
                except SandboxError:
                    await anyio.sleep(0.01 * attempt)

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(work, number)
        assert running.workers <= 12
    assert sorted(results, key=lambda each: int(each or -1)) == [str(number) for number in range(50)]


async def test_a_worker_that_dies_is_replaced(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = 1")
    worker_id = interpreter.process_id
    tools = Tools()
    results: list[RunResult] = []

    async def wait() -> None:
        results.append(await run(interpreter, "s.echo(value=1)\nwhile True:\n    pass", tools))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await until(lambda: len(tools.made) == 1, "the code runs")
        os.kill(worker_id, signal.SIGKILL)
    assert results[0].status is Status.DIED
    assert "process died" in (results[0].lost_because or "")
    assert await value(interpreter, "2") == "2"


async def test_many_calls_in_a_long_session(backend: Start) -> None:
    async with backend(calls=400) as running:
        interpreter = await running.open("t")
        for _ in range(4):
            assert await value(interpreter, "sum(s.echo(value=1) for _ in range(400))") == "400"


async def test_idle_variables_outlive_their_process(backend: Start) -> None:
    async with backend(idle_s=0.2) as running:
        interpreter = await running.open("t")
        await value(interpreter, "x = ['é' * 10] * 3\ndef f(i):\n    return s.meet(a=i)['a']\ns\nt = s.echo")
        await until(lambda: running.workers == 0, "the process is given up")
        assert interpreter.process_id is None
        result = await run(interpreter, "x[2] + str(parallel(f, [1, 2]))", TogetherOnly(2))
        assert result.value == f'"{"é" * 10}[1, 2]"'
        assert result.kept
        assert result.lost_because is None
        assert await value(interpreter, "describe(s) + describe(t) + str(t(value=7))") == (
            '"describe of sdescribe of s.echo7"'
        )
        failed = await run(interpreter, "f(1)['a']", Tools())
        assert failed.failure is not None
        assert '"<cell 1>", line 3, in f' in failed.failure.traceback


async def test_large_variables_are_put_aside_in_a_file(backend: Start) -> None:
    async with backend(idle_s=0.2) as running:
        interpreter = await running.open("t")
        await value(interpreter, "x = ['abcdefgh' * 10 + str(i) for i in range(50000)]")
        await until(lambda: running.workers == 0, "the process is given up")
        assert await value(interpreter, "len(x)") == "50000"


async def test_variables_too_large_to_be_put_aside_are_lost_and_it_is_said(backend: Start) -> None:
    async with backend(idle_s=0.2, memory_bytes=32 * MB) as running:
        interpreter = await running.open("t")
        await value(interpreter, "x = ['abcdefgh' * 10 + str(i) for i in range(140000)]")
        await until(lambda: running.workers == 0, "the process is given up")
        result = await run(interpreter, "1")
        assert result.value == "1"
        assert "could not be put aside" in (result.lost_because or "")


async def test_another_time_limit_keeps_variables(interpreter: MontyInterpreter) -> None:
    await value(interpreter, "x = 1")
    result = await run(interpreter, "x = 2\nwhile True:\n    pass", timeout_s=0.2)
    assert result.status is Status.TIMEOUT
    assert await value(interpreter, "x") == "2"


async def test_the_longest_idle_makes_room(backend: Start) -> None:
    async with backend(interpreters=2) as running:
        first, second, third = [await running.open(f"t{i}") for i in range(3)]
        for number, each in enumerate((first, second, third)):
            await value(each, f"x = {number}")
            assert running.workers <= 2
        assert [await value(each, "x") for each in (first, second, third)] == ["0", "1", "2"]


async def test_all_busy_is_said(backend: Start) -> None:
    async with backend(interpreters=1) as running:
        busy, other = await running.open("a"), await running.open("b")
        tools = Tools()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, busy, "s.hang()", tools)
            await tools.began.wait()
            with pytest.raises(SandboxError, match="all 1 interpreters are busy"):
                await run(other, "1")
            tasks.cancel_scope.cancel()
        assert await value(other, "1") == "1"


async def test_tasks_share_nothing(backend: Start) -> None:
    async with backend(interpreters=1) as running:
        first, second = await running.open("a"), await running.open("b")
        await value(first, "x = 1")
        result = await run(second, "x")
        assert result.failure is not None
        assert result.failure.kind == "NameError"
        assert result.lost_because is None


async def test_reset_and_close(backend: Start) -> None:
    async with backend() as running:
        interpreter = await running.open("t")
        await value(interpreter, "x = 1")
        await interpreter.reset()
        result = await run(interpreter, "x")
        assert result.failure is not None
        assert result.failure.kind == "NameError"
        assert result.lost_because is None
        tools = Tools()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                run,
                interpreter,
                "while True:\n    try:\n        s.hang()\n    except BaseException:\n        pass",
                tools,
            )
            await tools.began.wait()
            await interpreter.close()
        assert running.workers == 0
        with pytest.raises(SandboxError, match="closed"):
            await run(interpreter, "1")


async def test_results_that_monty_cannot_take_as_they_are(interpreter: MontyInterpreter) -> None:
    class Odd(Tools):
        async def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
            return Reply(True, {"half": "a\ud800b", "big": 10**40, "deep": [[[[1]]]]})

    assert await value(interpreter, "r = s.odd()\n[r['half'], r['big'], r['deep'][0][0][0][0]]", Odd()) == (
        f'["a?b", {10**40}, 1]'
    )


async def test_code_that_is_too_long_is_refused(backend: Start) -> None:
    async with backend(code_bytes=100) as running:
        result = await run(await running.open("t"), "x = 1 #" + "é" * 60)
    assert result.failure is not None
    assert "100 are the most" in result.failure.message


async def test_a_busy_worker_ends_with_the_gateway() -> None:
    program = (
        "import anyio\n"
        "from proxy.sandbox.base import Limits\n"
        "from proxy.sandbox.embedded import EmbeddedBackend\n"
        "from tests.sandbox.conftest import Tools\n"
        "class Told(Tools):\n"
        "    async def call(self, tool, arguments):\n"
        "        print('running', flush=True)\n"
        "        return await super().call(tool, arguments)\n"
        "async def main():\n"
        "    backend = EmbeddedBackend(Limits(warm=0))\n"
        "    async with backend.running():\n"
        "        await (await backend.open('t')).run('s.echo()\\nwhile True: pass', 200, Told())\n"
        "anyio.run(main)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as gateway:  # noqa: ASYNC220
        try:
            assert gateway.stdout is not None
            assert await anyio.to_thread.run_sync(gateway.stdout.readline) == "running\n"
            children = psutil.Process(gateway.pid).children()
            assert len(children) == 2  # The worker and the reaper.
        finally:
            gateway.kill()
    await until(lambda: all(gone(child.pid) for child in children), "the worker and the reaper end")


def test_the_language_is_told_in_few_words() -> None:
    tokens = pytest.importorskip("bpe_openai").get_encoding("o200k_base").encode(EmbeddedBackend.language)
    assert len(tokens) <= 60


async def test_a_few_lines_that_stand_for_more_than_any_memory_are_refused(interpreter: MontyInterpreter) -> None:
    tools = Tools()
    code = (
        "a = [{}] * 1000\nb = [a] * 1000\nc = [b] * 1000\n"
        "try:\n    s.echo(value=[c] * 1000)\nexcept ToolError as error:\n    print(error)"
    )
    result = await run(interpreter, code, tools)
    assert "bytes as JSON" in result.output.text
    assert tools.made == []


async def test_a_value_that_the_code_shows_by_itself_is_not_written_out(interpreter: MontyInterpreter) -> None:
    assert await value(interpreter, "def _ta_shown(v):\n    return [[[0] * 1000] * 1000] * 1000\n1") == "<list>"


async def test_a_call_that_only_parallel_makes_is_refused(interpreter: MontyInterpreter) -> None:
    result = await run(interpreter, "kept = 1\n_ta_later('x')")
    assert result.failure is not None
    assert result.failure.kind == "TypeError"
    assert await value(interpreter, "kept") == "1"


async def test_variables_that_cannot_be_written_are_lost_and_nothing_else(
    interpreter: MontyInterpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(variables: bytes) -> Any:
        raise OSError(28, "No space left on device")

    await run(interpreter, "x = 1")
    monkeypatch.setattr(monty_interpreter, "_written", full)
    await interpreter.put_aside()
    result = await run(interpreter, "1")
    assert result.value == "1"
    assert "No space left" in (result.lost_because or "")


async def test_variables_of_many_tasks_make_room_for_each_other(
    backend: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "MOST_ASIDE", 1)
    async with backend(interpreters=1) as running:
        first, second, third = [await running.open(name) for name in ("one", "two", "three")]
        for task in (first, second, third):
            # Each needs the only process, so the one before it is put aside.
            await value(task, "x = 1")
        assert (await run(second, "x")).value == "1"
        assert "made room" in ((await run(first, "1")).lost_because or "")
