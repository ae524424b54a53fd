"""The supervisor and its interpreter, spoken to in frames: as a process of this machine, and in a real container."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from proxy.sandbox.base import Limits
from proxy.sandbox.frames import MAX_FRAME
from tests.sandbox.supervised import Frame, Supervised, echo

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox runs on Linux"),
    pytest.mark.timeout(120),
]
WRITE_TO_SOCKET = """
import os, stat
def write(data):
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            if fd > 2 and stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, data)
        except OSError:
            pass
"""
"""Finds the interpreter's channel, as any code can."""
IGNORE = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ns.wait()"
"""Does not stop when interrupted, and has begun when it calls."""


LIVING = """
import os
states = [open(f'/proc/{p}/stat').read().rpartition(') ')[2][0] for p in os.listdir('/proc') if p.isdigit()]
sum(state != 'Z' for state in states)
"""
"""The supervisor, the interpreter, and what should not be there. A zombie is the interpreter's to bury."""


@pytest.fixture(scope="module", params=["process", pytest.param("container", marks=pytest.mark.docker)])
def shared(request: pytest.FixtureRequest) -> Iterator[Supervised]:
    if request.param == "process":
        supervised = Supervised.process()
        yield supervised
        supervised.close()
        return
    yield from in_container(request)


@pytest.fixture
def sandbox(shared: Supervised) -> Supervised:
    """With a new interpreter."""
    shared.begin_anew()
    return shared


@pytest.fixture(scope="module")
def container(request: pytest.FixtureRequest) -> Iterator[Supervised]:
    yield from in_container(request)


@pytest.fixture
def contained(container: Supervised) -> Supervised:
    container.begin_anew()
    return container


def in_container(request: pytest.FixtureRequest) -> Iterator[Supervised]:
    engine, image = request.getfixturevalue("engine"), request.getfixturevalue("image")
    started = engine.start(image, Limits(), {})
    supervised = Supervised(started.socket, started.close, wrapped=True)
    yield supervised
    supervised.close()
    engine.remove(started.id)


def failure(done: Frame) -> Any:
    assert done["status"] == "error", done
    return done["failure"]


# Values, variables, output.


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", "2"),
        ("x = 1", None),
        ("None", None),
        ("", None),
        ("# nothing", None),
        ("'é\\n'", '"é\\n"'),
        ("[1, 2.5, True, None, {'a': 'b'}]", '[1, 2.5, true, null, {"a": "b"}]'),
        ("{1: 2}", "{1: 2}"),
        ("(1, 2)", "(1, 2)"),
        ("[(1, 2)]", "[(1, 2)]"),
        ("float('nan')", "nan"),
        ("x = [1]\nx.append(x)\nx", "[1, [...]]"),
        ("import collections\ncollections.Counter('aab')", "Counter({'a': 2, 'b': 1})"),
        ("'\\ud800\\x00'", '"\\ud800\\u0000"'),
        ("type('Name', (str,), {'__repr__': lambda self: 'shown'})()", "shown"),
        ("import sys\nsys.exit()", None),
        ("5; 6", "6"),
        ("if True:\n    7", None),
        ("return 8", "8"),
        ("await (1 + 1)", "2"),
        ("async def main(): return 9\nmain()", "9"),
        ("import asyncio\nawait asyncio.sleep(0, 'slept')", '"slept"'),
    ],
)
def test_the_last_expression_is_the_value(sandbox: Supervised, code: str, value: str | None) -> None:
    done = sandbox.run(code)
    assert (done["status"], done["value"], done["kept"]) == ("ok", value, True)


def test_a_report_says_all_that_the_contract_names(sandbox: Supervised) -> None:
    done = sandbox.run("print('hello')\n3")
    assert done.pop("seconds") >= 0
    assert done == {
        "op": "done",
        "run": done["run"],
        "status": "ok",
        "output": "hello\n",
        "gap_at": 0,
        "left_out": 0,
        "value": "3",
        "failure": None,
        "kept": True,
        "lost_because": None,
    }


def test_a_value_that_is_too_long_is_cut(sandbox: Supervised) -> None:
    assert len(sandbox.run("'x' * 5_000_000")["value"]) == 1_000_000
    assert len(sandbox.run("'x' * 5_000_000", output_kept=100)["value"]) == 100
    assert len(sandbox.run("chr(1) * 5_000_000")["value"]) == 1_000_000


def test_the_largest_report_fits_into_a_frame(sandbox: Supervised) -> None:
    done = sandbox.run("print(chr(1) * 3_000_000)\nchr(2) * 3_000_000")
    assert (len(done["output"]), done["left_out"], len(done["value"])) == (1_000_000, 2_000_001, 1_000_000)
    assert len(json.dumps(done, ensure_ascii=False)) < MAX_FRAME


def test_variables_functions_and_classes_stay(sandbox: Supervised) -> None:
    sandbox.run("import math\nx = 2\ndef double(n): return n * x\nclass Point: pass")
    sandbox.run("x = 3")
    assert sandbox.value("[double(2), math.floor(1.5), Point.__name__, Point.__module__]") == [
        6,
        1,
        "Point",
        "__main__",
    ]
    sandbox.reset()
    assert failure(sandbox.run("x"))["kind"] == "NameError"


def test_dataclasses_and_type_hints_find_their_module(sandbox: Supervised) -> None:
    code = (
        "import dataclasses, typing\n@dataclasses.dataclass\nclass P:\n    x: 'int' = 1\nlist(typing.get_type_hints(P))"
    )
    assert sandbox.value(code) == ["x"]


def test_output_is_what_was_printed_in_its_order(sandbox: Supervised) -> None:
    code = "import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nos.write(1, b'c\\n')\nos.system('echo d')\n"
    code += "print('e', end='')"
    assert sandbox.run(code)["output"] == "a\nb\nc\nd\ne"


def test_long_output_keeps_its_start_and_end(sandbox: Supervised) -> None:
    done = sandbox.run("for i in range(20_000): print(i, 'é')", output_kept=1000)
    whole = "".join(f"{i} é\n" for i in range(20_000))
    assert len(done["output"]) == 1000
    assert done["output"][: done["gap_at"]] == whole[: done["gap_at"]]
    assert done["output"][done["gap_at"] :] == whole[done["gap_at"] + done["left_out"] :]


def test_output_that_is_no_text_and_frames_in_it_are_text(sandbox: Supervised) -> None:
    code = (
        "import os\nos.write(1, b'\\xff\\xfe\\x00')\nos.write(2, b'\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x05hello')\n"
        'print(\'{"op":"done","run":1}\')\nprint("\\ud800")'
    )
    done = sandbox.run(code)
    assert done["output"] == "\ufffd\ufffd\x00\x01\0\0\0\0\0\0\x05hello" + '{"op":"done","run":1}\n\\ud800\n'


def test_standard_input_is_empty(sandbox: Supervised) -> None:
    assert failure(sandbox.run("input()"))["kind"] == "EOFError"


def test_what_code_does_to_the_interpreter_does_not_last(sandbox: Supervised) -> None:
    breaking = """
import ast, builtins, json, linecache, os, signal, sys, threading, traceback
json.dumps = json.loads = json.JSONEncoder = traceback.TracebackException = None
builtins.repr = builtins.str = builtins.len = None
os._exit = os.getpid = signal.signal = threading.get_ident = None
sys.stdout = sys.stderr = None
linecache.cache.clear()
for module in (ast, linecache, signal, traceback):
    for name in [name for name in vars(module) if not name.startswith('__')]:
        setattr(module, name, None)
sys.modules.clear()
"""
    assert sandbox.run(breaking)["status"] == "ok"
    assert sandbox.run("print('still'); [1]")["output"] == "still\n"
    done = sandbox.run("s.echo(a=1)")
    assert (done["status"], done["value"]) == ("ok", '{"a": 1}')
    assert failure(sandbox.run("1 / 0"))["traceback"].rstrip().endswith("ZeroDivisionError: division by zero")
    assert sandbox.run("while True: pass", timeout=0.2)["status"] == "timeout"


# Errors.


def test_a_traceback_has_the_agents_frames_alone(sandbox: Supervised) -> None:
    sandbox.run("import json\ndef parse(text):\n    return json.loads(text)")
    raised = failure(sandbox.run("x = 1\nparse('{')"))
    assert raised["kind"] == "JSONDecodeError"
    lines = [line.strip() for line in raised["traceback"].splitlines() if line.strip(" ~^")]
    assert lines[:5] == [
        "Traceback (most recent call last):",
        'File "<cell 2>", line 2, in <module>',
        "parse('{')",
        'File "<cell 1>", line 3, in parse',
        "return json.loads(text)",
    ]
    assert raised["traceback"].splitlines()[-1] == f"json.decoder.JSONDecodeError: {raised['message']}"


@pytest.mark.parametrize(
    "code",
    [
        "s.fail()",
        "await s.fail()",
        "parallel(s.fail, [{}])",
        "s.echo(1)",
        "list(map(lambda x: s.fail(), [1]))",
        "try:\n    s.fail()\nexcept ToolError as e:\n    raise KeyError('other') from e",
        "raise ExceptionGroup('many', [ValueError(1)])",
        "import asyncio\nasync def go(): s.fail()\nawait asyncio.gather(go(), go())",
        "1 +",
    ],
)
def test_nothing_of_ours_is_in_a_traceback(sandbox: Supervised, code: str) -> None:
    trace = failure(sandbox.run(code))["traceback"]
    assert "<cell 1>" in trace
    assert {line for line in trace.splitlines() if "File " in line and "<cell" not in line} == set()


def test_an_error_with_a_message_as_large_as_memory_is_one_like_others(sandbox: Supervised) -> None:
    raised = failure(sandbox.run("raise ValueError('z' * 50_000_000)"))
    assert raised["kind"] == "ValueError"
    assert len(raised["message"]) < 11_000
    assert "characters left out" in raised["traceback"]


def test_a_long_traceback_is_cut_in_the_middle(sandbox: Supervised) -> None:
    code = "def a(n): b(n)\ndef b(n): a(n)\na(1)"
    raised = failure(sandbox.run(code))
    assert raised["kind"] == "RecursionError"
    assert "characters left out" in raised["traceback"]
    assert raised["traceback"].rstrip().endswith("RecursionError: maximum recursion depth exceeded")


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("raise ValueError('no')", "ValueError", "no"),
        ("import sys\nsys.exit(3)", "SystemExit", "3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", "E", "(its message cannot be shown)"),
        ("raise ValueError('\\ud800')", "ValueError", "\\ud800"),
    ],
)
def test_what_was_raised_is_named(sandbox: Supervised, code: str, kind: str, message: str) -> None:
    raised = failure(sandbox.run(code))
    assert kind == raised["kind"]
    assert message in raised["message"]
    assert sandbox.value("'alive'") == "alive"


@pytest.mark.parametrize("code", ["x = '\x00'", "'\ud800'", "(" * 5000, "1 +" * 100_000 + " 1", "\tx\n  y"])
def test_source_that_cannot_be_compiled_is_an_error_of_the_code(sandbox: Supervised, code: str) -> None:
    done = sandbox.run(code)
    assert done["status"] in ("error", "died")
    if done["status"] == "died":
        sandbox.receive("ready")
    assert sandbox.value("'alive'") == "alive"


@pytest.mark.parametrize(
    "code",
    [
        "class E:\n    def __repr__(self): raise SystemExit\nE()",
        "class E:\n    def __repr__(self): return 5\nE()",
        "class M(type):\n    @property\n    def __name__(cls): raise ValueError\nclass E(metaclass=M):\n    pass\nE()",
        "class E:\n    def __reduce__(self): raise SystemExit\nE()",
    ],
)
def test_a_value_that_cannot_be_shown_does_no_harm(sandbox: Supervised, code: str) -> None:
    assert sandbox.run(code)["status"] in ("ok", "error")
    assert sandbox.value("'alive'") == "alive"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("import not_installed", "nothing can be installed"),
        ("import git", "git is a server"),
        ("gti.log()", "did you mean the server git?"),
        ("import time\ntime.now()", 'the server is servers["time"]'),
        ("import socket\nsocket.getaddrinfo('name.invalid', 443)", "use a server's tool"),
        ("raise OSError(30, 'read-only')", "below /tmp"),
        ('raise RuntimeError("can\'t start new thread")', "64 processes and threads"),
    ],
)
def test_an_error_says_what_an_agent_cannot_know(sandbox: Supervised, code: str, hint: str) -> None:
    assert hint in failure(sandbox.run(code, servers=("git", "time")))["traceback"]


# Tools.


def test_a_tool_is_called_with_its_arguments_and_returns_its_value(sandbox: Supervised) -> None:
    assert sandbox.value("s.echo(a=1, self='x', tool=None)['self'] + '!'") == "x!"
    (call,) = sandbox.calls
    assert (call["op"], call["tool"]) == ("call", "s.echo")
    assert call["arguments"] == {"a": 1, "self": "x", "tool": None}


def test_a_failing_tool_can_be_caught(sandbox: Supervised) -> None:
    code = "try:\n    s.fail()\nexcept ToolError as error:\n    caught = error\n"
    code += "[str(caught), caught.tool, type(caught).__mro__[1].__name__]"
    assert sandbox.value(code) == ["failed on purpose", "s.fail", "Exception"]


def test_positional_arguments_are_refused_with_the_names(sandbox: Supervised) -> None:
    stub = 'class R(TypedDict):\n    x: int\ndef log(*, path: str, count: int = 1) -> R:\n    """Log."""'
    raised = failure(sandbox.run("s.log('.', count=2)", lambda frame: {"ok": True, "value": stub}))
    assert raised["kind"] == "TypeError"
    assert raised["message"] == "s.log takes keyword arguments only: s.log(path=..., count=...)"
    assert [(call["op"], call["what"], call["name"]) for call in sandbox.calls] == [("look_up", "describe", "s.log")]
    unreadable = failure(sandbox.run("s.log('.')", lambda frame: {"ok": True, "value": "no Python"}))
    assert unreadable["message"] == "s.log takes keyword arguments only:\nno Python"
    unknown = failure(sandbox.run("s.log('.')", lambda frame: {"ok": False, "value": "no such tool"}))
    assert unknown["message"] == "s.log takes keyword arguments only. no such tool"


@pytest.mark.parametrize(
    ("argument", "kind", "problem"),
    [
        ("{1}", "TypeError", "s.echo: x cannot be sent as JSON: Object of type set is not JSON serializable"),
        ("float('inf')", "ValueError", "s.echo: x cannot be sent as JSON"),
        ("'\\ud800'", "ValueError", "s.echo: x cannot be sent as JSON"),
        ("'x' * 3_000_000", "ToolError", "The arguments are 3,000,0"),
    ],
)
def test_arguments_that_cannot_be_sent_are_an_error_of_the_code(
    sandbox: Supervised, argument: str, kind: str, problem: str
) -> None:
    raised = failure(sandbox.run(f"s.echo(a=1, x={argument})"))
    assert raised["kind"] == kind
    assert problem in raised["message"]
    assert sandbox.calls == []
    assert sandbox.value("s.echo(x=2)") == {"x": 2}


@pytest.mark.parametrize("code", ["describe('x' * 1000)", "getattr(s, 'x' * 1000)()", "help('s.' + 'x' * 1_000_000)"])
def test_a_name_that_none_has_is_not_even_asked_for(sandbox: Supervised, code: str) -> None:
    raised = failure(sandbox.run(code))
    assert raised["kind"] == "ToolError"
    assert "No server or tool has a name of 1,00" in raised["message"]
    assert failure(sandbox.run("describe('\\ud800')"))["kind"] == "ValueError"
    assert sandbox.calls == []


def test_await_is_tolerated(sandbox: Supervised) -> None:
    code = """
import asyncio
async def twice(n):
    first = await s.echo(n=n)
    return [first, await s.echo(n=n + 1)]
await asyncio.gather(twice(1), s.echo(n=3), *[s.echo(n=n) for n in (4, 5)], asyncio.sleep(0, 6))
"""
    assert sandbox.value(code) == [[{"n": 1}, {"n": 2}], {"n": 3}, {"n": 4}, {"n": 5}, 6]


def test_parallel_keeps_the_order_and_the_limit(sandbox: Supervised) -> None:
    held: list[Frame] = []
    most = 0

    def hold_three(frame: Frame) -> None:
        nonlocal most
        held.append(frame)
        most = max(most, len(held))
        if len(held) == 3 or frame["arguments"]["n"] == 9:
            for call in reversed(held):
                sandbox.reply(call, echo(call))
            held.clear()

    expected = [{"n": n} for n in range(10)]
    assert sandbox.value("parallel(lambda n: s.echo(n=n), range(10))", hold_three, parallel=3) == expected
    assert most == 3
    assert sandbox.value("parallel(s.echo, [{'n': n} for n in range(10)])") == expected
    assert sandbox.value("parallel(len, [])") == []


def test_threads_of_ones_own_share_the_limit(sandbox: Supervised) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(10) as pool:
    results = list(pool.map(lambda n: s.echo(n=n)['n'], range(10)))
results
"""
    waiting: list[Frame] = []

    def two_at_once(frame: Frame) -> None:
        waiting.append(frame)
        assert len(waiting) <= 2
        if len(waiting) == 2:
            for call in waiting:
                sandbox.reply(call, echo(call))
            waiting.clear()

    assert sandbox.value(code, two_at_once, parallel=2) == list(range(10))


def test_parallel_tries_every_item_before_it_raises(sandbox: Supervised) -> None:
    code = "def go(n):\n    if n in (3, 5): raise ValueError(n)\n    return s.echo(n=n)\n"
    raised = failure(sandbox.run(code + "parallel(go, range(8))"))
    assert (raised["kind"], raised["message"]) == ("ValueError", "3")
    assert "item 3 of 8; 2 of them failed" in raised["traceback"]
    assert len(sandbox.calls) == 6
    tried = sandbox.value(code + "[str(r) for r in parallel(go, range(4), return_exceptions=True)]")
    assert tried == ["{'n': 0}", "{'n': 1}", "{'n': 2}", "3"]


def test_servers_and_tools_can_be_found_out(sandbox: Supervised) -> None:
    def look_up(frame: Frame) -> Any:
        if frame["what"] == "servers":
            return {"ok": True, "value": [{"name": "s", "purpose": "test", "tools": 1}]}
        return echo(frame)

    assert sandbox.value("servers()", look_up) == [{"name": "s", "purpose": "test", "tools": 1}]
    assert sandbox.run("help(s)\nhelp(s.log)\nhelp('s')\nhelp('s.log')\nhelp()\nhelp(len)", look_up)[
        "output"
    ].splitlines()[:6] == [
        "help of s",
        "describe of s.log",
        "help of s",
        "describe of s.log",
        'servers() lists the servers; help(server) its tools; describe("server.tool") the arguments of one.',
        "Python Library Documentation: built-in function len in module builtins",
    ]
    # Text is shown as it is, with its line breaks.
    assert sandbox.run("describe('s.log', s.echo)")["value"] == "describe of s.log\n\ndescribe of s.echo"
    assert sandbox.value("[list(servers), 's' in servers, len(servers), servers['s'] is s]") == [["s"], True, 1, True]
    listing = "s.log(path: str) -> str\n    Shows (most) of it\ns.tag(*, name)"
    assert sandbox.value("dir(s)", lambda frame: {"ok": True, "value": listing}) == ["log", "tag"]
    assert "did you mean s" in failure(sandbox.run("servers['ss']"))["message"]
    assert sandbox.run("[s, s.log, servers]")["value"] == (
        '[<server s: help(s) lists its tools>, <tool s.log: describe("s.log") shows its arguments>, '
        "<1 servers: servers() lists them>]"
    )


def test_names_of_the_agent_and_of_python_come_before_servers(sandbox: Supervised) -> None:
    servers = ("time", "open", "parallel", "data")
    assert sandbox.value("time.now(a=1)", servers=servers) == {"a": 1}
    assert sandbox.value("data = 5\nimport time\n[callable(open), data, time.time() > 0]", servers=servers) == [
        True,
        5,
        True,
    ]
    assert sandbox.value("[data, servers['data'].get(b=2), servers['open'].it()]", servers=servers) == [5, {"b": 2}, {}]
    assert sandbox.value("del data, time\n[data.get(c=3), time.now()]", servers=servers) == [{"c": 3}, {}]
    assert sandbox.value("list(parallel(len, ['a']))", servers=servers) == [1]


def test_servers_come_and_go_between_runs(sandbox: Supervised) -> None:
    assert sandbox.value("a.go()", servers=("a", "b")) == {}
    sandbox.run("kept = b", servers=("b",))
    assert failure(sandbox.run("a.go()", servers=("b",)))["kind"] == "NameError"
    assert sandbox.value("kept is b", servers=("b", "c")) is True


def test_a_server_does_not_pass_for_something_else(sandbox: Supervised) -> None:
    code = "import inspect\n[hasattr(s, '__len__'), hasattr(s, '__await__'), inspect.isawaitable(s)]"
    assert sandbox.value(code) == [False, False, False]


# What runs beside the code, and after it.


def test_a_thread_cannot_call_between_runs(sandbox: Supervised) -> None:
    code = """
import threading
go, said = threading.Event(), []
def work():
    go.wait()
    for _ in range(2):
        try: said.append(s.echo(n=1))
        except ToolError as error: said.append(str(error))
thread = threading.Thread(target=work); thread.start()
timer = threading.Timer(0.2, go.set); timer.start()
"""
    sandbox.run(code)
    # No run, no frame; the thread is let go while nothing runs, or while the next run waits for it.
    done = sandbox.run("import time\nwhile thread.is_alive(): time.sleep(0.01)\nsaid")
    assert done["status"] == "ok"
    results = json.loads(done["value"])
    assert len(results) == 2
    assert all(result == {"n": 1} or "Tools can only be called while code is running" in result for result in results)


def test_the_end_of_a_run_ends_the_calls_of_its_threads(sandbox: Supervised) -> None:
    code = """
import threading
def work():
    global said
    try: said = s.hang()
    except ToolError as error: said = str(error)
thread = threading.Thread(target=work); thread.start()
"""
    number = sandbox.start(code)
    hanging = sandbox.receive("call")
    assert sandbox.receive("done")["status"] == "ok"
    # Too late, and to nobody.
    sandbox.send({"op": "reply", "run": number, "call": hanging["call"], "ok": True, "value": "late"})
    assert sandbox.value("thread.join()\nsaid") == "The run ended before this call was answered."


def test_late_and_unknown_replies_go_nowhere(sandbox: Supervised) -> None:
    number = sandbox.start("first = s.echo(n=1)\nsecond = s.echo(n=2)\n[first, second]")
    first = sandbox.receive("call")
    for run, call in [(number - 1, first["call"]), (number, first["call"] + 5), (number + 1, first["call"])]:
        sandbox.send({"op": "reply", "run": run, "call": call, "ok": True, "value": "wrong"})
    sandbox.reply(first, {"ok": True, "value": "right"})
    sandbox.reply(first, {"ok": True, "value": "twice"})
    assert json.loads(sandbox.finish()["value"]) == ["right", {"n": 2}]


def test_a_forked_process_cannot_call(sandbox: Supervised) -> None:
    code = """
import os
read, write = os.pipe()
if os.fork() == 0:
    try: s.echo()
    except ToolError as error: os.write(write, str(error).encode())
else:
    os.close(write)
    os.wait()
    said = os.read(read, 1000).decode()
"""
    assert sandbox.run(code)["status"] == "ok"
    assert "only be called from the interpreter's own process" in sandbox.value("said")


def test_what_a_thread_prints_between_runs_is_shown_with_the_next(sandbox: Supervised) -> None:
    sandbox.run("import threading\ngo = threading.Event()\ndef work():\n    go.wait()\n    print('from a thread')\n")
    sandbox.run("thread = threading.Thread(target=work); thread.start()\nthreading.Timer(0.05, go.set).start()")
    outputs = [sandbox.run("thread.join()")["output"], sandbox.run("None")["output"]]
    assert "".join(outputs) == "from a thread\n"


# Time.


def test_a_run_over_its_time_is_stopped_and_keeps_its_variables(sandbox: Supervised) -> None:
    done = sandbox.run("x = 1\nimport time\nwhile True:\n    time.sleep(0.01)", timeout=0.2)
    assert (done["status"], done["kept"], done["lost_because"]) == ("timeout", True, None)
    assert done["failure"]["kind"] == "KeyboardInterrupt"
    assert "time.sleep(0.01)" in done["failure"]["traceback"]
    assert sandbox.value("x") == 1


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')",
        "s.hang()",
        "parallel(s.hang, [{}] * 20)",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 64)))\nwhile True: pass",
        "import asyncio\nasync def forever():\n    while True: await asyncio.sleep(0.01)\nawait forever()",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    list(pool.map(lambda n: s.hang(n=n), range(20)))",
        "import threading\nthreading.Lock().acquire() and threading.Event().wait()",
        "import subprocess\nsubprocess.run(['sleep', '60'])",
        "class E:\n    def __repr__(self):\n        while True: pass\nE()",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
    ],
)
def test_whatever_a_run_waits_for_it_is_stopped(sandbox: Supervised, code: str) -> None:
    sandbox.run("x = 1")
    sandbox.start(code, timeout=60)

    def no_reply(frame: Frame) -> None:
        return None

    if "s.hang" in code:
        sandbox.receive("call")
    sandbox.send({"op": "interrupt", "run": sandbox._runs})
    done = sandbox.finish(no_reply)
    assert (done["status"], done["kept"]) == ("cancelled", True), done
    assert sandbox.value("x") == 1
    assert sandbox.value("s.echo(n=1)") == {"n": 1}


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
def test_code_that_does_not_stop_loses_its_interpreter(sandbox: Supervised, how: str) -> None:
    sandbox.start(f"x = 1\nprint('begun')\n{IGNORE}", timeout=60 if how == "cancelled" else 1, grace_s=0.3)
    begun = sandbox.receive("call")
    if how == "cancelled":
        sandbox.send({"op": "interrupt", "run": begun["run"]})
    done = sandbox.finish()
    assert (done["status"], done["kept"], done["output"]) == (how, False, "begun\n")
    assert done["lost_because"].startswith("it did not stop when")
    assert sandbox.receive() == {"op": "ready", "fresh": True}
    assert failure(sandbox.run("x"))["kind"] == "NameError"


def test_an_interrupt_of_another_run_is_none_of_ours(sandbox: Supervised) -> None:
    number = sandbox.start("s.wait()\n'ended'")
    call = sandbox.receive("call")
    sandbox.send({"op": "interrupt", "run": number - 1})
    sandbox.reply(call, {"ok": True, "value": None})
    assert sandbox.finish()["value"] == '"ended"'
    sandbox.send({"op": "interrupt", "run": number})
    assert sandbox.value("'next'") == "next"


def test_no_tool_is_called_once_a_run_is_stopped(sandbox: Supervised) -> None:
    sandbox.start("parallel(s.hang, [{'n': n} for n in range(50)])", parallel=4)
    for _ in range(4):
        sandbox.receive("call")
    sandbox.send({"op": "interrupt", "run": sandbox._runs})
    assert sandbox.finish()["status"] == "cancelled"
    assert sandbox.calls == []


# The interpreter's end.


@pytest.mark.parametrize(
    ("code", "because"),
    [
        ("import os\nos._exit(3)", "it ended itself with exit code 3"),
        ("import os\nos.kill(os.getpid(), 9)", "it was ended by signal 9 (SIGKILL)"),
        ("import ctypes\nctypes.string_at(0)", "it was ended by signal 11 (SIGSEGV)"),
        ("import os\nos.closerange(0, 256)", "it ended itself with exit code 1"),
        (f"{WRITE_TO_SOCKET}\nwrite(b'garbage}}{{\\n')\nimport time; time.sleep(60)", None),
        (f"{WRITE_TO_SOCKET}\nwrite(b'\\xff\\xfe\\n')\nimport time; time.sleep(60)", None),
        (f"{WRITE_TO_SOCKET}\nwrite(b'[' * 100_000 + b'\\n')\nimport time; time.sleep(60)", None),
        (f'{WRITE_TO_SOCKET}\nwrite(b\'{{"op":"call"}}\\n\')\nimport time; time.sleep(60)', None),
        (f'{WRITE_TO_SOCKET}\nwrite(b\'{{"op":"ready"}}\\n\')\nimport time; time.sleep(60)', None),
        (f"{WRITE_TO_SOCKET}\nwrite(b'7\\n')\nimport time; time.sleep(60)", None),
        (f'{WRITE_TO_SOCKET}\nwrite(b\'{{"op":"done","run":0,"status":"ok","failure":null}}\\n\')\ninput()', None),
        (f"{WRITE_TO_SOCKET}\nfor _ in range(20): write(b'x' * 1_000_000)\nimport time; time.sleep(60)", None),
        (f'{WRITE_TO_SOCKET}\nwrite(b\'{{"op":"call","x":"\' + b\'x\' * 3_000_000 + b\'"}}\\n\')\ninput()', None),
    ],
)
def test_an_interpreter_that_ends_is_replaced(sandbox: Supervised, code: str, because: str | None) -> None:
    done = sandbox.run("print('before')\n" + code)
    assert (done["status"], done["kept"]) == ("died", False)
    assert done["lost_because"] == (because or "the code wrote to the interpreter's own channel")
    assert done["output"].startswith("before\n")
    assert sandbox.receive() == {"op": "ready", "fresh": True}
    assert sandbox.value("1 + 1") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": []},
        {"tool": 5},
        {"tool": "x" * 501},
        {"call": -1},
        {"call": True},
        {"call": 2**53},
        {"run": "1"},
        {"op": "look_up", "what": "files", "name": "x"},
        {"op": "look_up", "what": "help", "name": None},
        {"op": "done", "status": "timeout", "failure": None},
        {"op": "done", "status": "ok", "failure": {"kind": "x"}},
        {"op": "done", "status": "ok", "failure": []},
        {"op": "run"},
    ],
    ids=str,
)
def test_a_frame_that_is_not_quite_right_ends_the_interpreter(sandbox: Supervised, change: Frame) -> None:
    frame = {"op": "call", "run": 0, "call": 10**6, "tool": "s.echo", "arguments": {}} | change
    template = json.dumps(frame).replace('"run": 0', '"run": RUN')
    number = sandbox._runs + 1
    done = sandbox.run(f"{WRITE_TO_SOCKET}\nwrite({template!r}.replace('RUN', '{number}').encode() + b'\\n')\ninput()")
    assert (done["status"], done["lost_because"]) == ("died", "the code wrote to the interpreter's own channel")
    assert sandbox.receive() == {"op": "ready", "fresh": True}


def test_a_call_written_by_hand_is_a_call_and_nothing_more(sandbox: Supervised) -> None:
    number = sandbox._runs + 1
    frame = {"op": "call", "run": number, "call": 10**6, "tool": "s.echo", "arguments": {"n": 1}, "extra": "x"}
    done = sandbox.run(f"{WRITE_TO_SOCKET}\nwrite({json.dumps(frame)!r}.encode() + b'\\n')\ns.echo(n=2)")
    assert [call["arguments"] for call in sandbox.calls] == [{"n": 1}, {"n": 2}]
    assert set(sandbox.calls[0]) == {"op", "run", "call", "tool", "arguments"}
    assert done["value"] == '{"n": 2}'


def test_the_number_of_an_open_call_cannot_be_used_twice(sandbox: Supervised) -> None:
    frame = {"op": "call", "run": sandbox._runs + 1, "call": 10**6, "tool": "s.echo", "arguments": {}}
    sandbox.start(f"{WRITE_TO_SOCKET}\nfor _ in range(2): write({json.dumps(frame)!r}.encode() + b'\\n')\ninput()")
    done = sandbox.finish(lambda frame: None)
    assert (len(sandbox.calls), done["status"]) == (1, "died")
    sandbox.receive("ready")


def test_a_value_written_by_hand_is_no_value_of_the_next_run(sandbox: Supervised) -> None:
    sandbox.run(f"{WRITE_TO_SOCKET}\nimport threading\nthreading.Timer(0.0, write, [b'\"forged\"\\n']).start()")
    assert sandbox.run("import time; time.sleep(0.05)")["value"] in (None, "forged")
    assert sandbox.run("x = 1")["value"] is None


def test_an_interpreter_that_ends_between_runs_is_told(sandbox: Supervised) -> None:
    sandbox.run("import os, threading\nthreading.Timer(0.05, os._exit, [0]).start()")
    assert sandbox.receive() == {"op": "ready", "fresh": True}
    assert sandbox.value("1 + 1") == 2


def test_resets_in_a_row_are_answered_each(sandbox: Supervised) -> None:
    for _ in range(5):
        sandbox.send({"op": "reset"})
    sandbox.start("'alive'")
    ready = 0
    while (frame := sandbox.receive())["op"] == "ready":
        ready += 1
    assert 1 <= ready <= 5
    assert frame["value"] == '"alive"'


def test_a_reset_in_the_middle_of_a_run_ends_it(sandbox: Supervised) -> None:
    sandbox.start("s.begun()")
    sandbox.receive("call")
    sandbox.send({"op": "reset"})
    done = sandbox.finish()
    assert (done["status"], done["kept"], done["lost_because"]) == ("died", False, "it was reset")
    sandbox.receive("ready")


def test_large_values_pass_in_both_directions(sandbox: Supervised) -> None:
    big = "é" * 2_000_000
    assert sandbox.value("len(s.big()['text'])", lambda frame: {"ok": True, "value": {"text": big}}) == 2_000_000
    assert sandbox.value("len(s.echo(x='y' * 1_900_000)['x'])") == 1_900_000
    assert len(sandbox.run("print('z' * 1_000_000)")["output"]) == 1_000_000


def test_without_the_gateway_the_supervisor_ends() -> None:
    supervised = Supervised.process()
    supervised.start(IGNORE, timeout=60)
    # Waits for the process, and for nothing that the code does.
    supervised.close()


# In a container alone.


@pytest.mark.docker
def test_memory_that_is_used_up_is_said(contained: Supervised) -> None:
    done = contained.run("x = []\nwhile True: x.append(bytearray(8 << 20))")
    assert (done["status"], done["lost_because"]) == ("died", "it ran out of memory")
    contained.receive("ready")
    assert contained.value("1 + 1") == 2


@pytest.mark.docker
def test_a_file_that_is_too_large_is_an_error_of_the_code(contained: Supervised) -> None:
    raised = failure(contained.run("with open('/tmp/x', 'wb') as file:\n    file.truncate(1 << 40)"))
    assert raised["kind"] == "OSError"


@pytest.mark.docker
def test_processes_end_with_the_run(contained: Supervised) -> None:
    code = """
import os, subprocess, time
subprocess.Popen(['sleep', '60'])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
"""
    contained.run(code)
    assert contained.value(LIVING) == 2


@pytest.mark.docker
def test_a_command_that_holds_the_interpreter_is_ended_in_its_grace(contained: Supervised) -> None:
    done = contained.run("x = 1\nimport os\nos.system('sleep 60')", timeout=0.2)
    assert (done["status"], done["kept"]) == ("timeout", True)
    assert contained.value("x") == 1


@pytest.mark.docker
def test_a_fork_bomb_is_over_with_its_run(contained: Supervised) -> None:
    done = contained.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=1, grace_s=0.5)
    assert done["status"] == "timeout"
    if not done["kept"]:
        contained.receive("ready")
    assert contained.value(LIVING) == 2


@pytest.mark.docker
@pytest.mark.parametrize(
    "call",
    [
        "os.kill(1, 9)",
        "[os.kill(1, number) for number in range(1, 65) if number not in (32, 33)]",
        "resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))",
        "resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
        "os.setpriority(os.PRIO_PROCESS, 1, 19)",
        "os.setpriority(os.PRIO_USER, 0, 19)",
        "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
        "os.sched_setaffinity(1, {0})",
        "open('/proc/1/mem', 'rb')",
        "open('/proc/1/environ').read()",
        "os.listdir('/proc/1/fd')",
        "open('/proc/1/oom_score_adj', 'w').write('1000')",
    ],
)
def test_the_supervisor_is_out_of_reach(contained: Supervised, call: str) -> None:
    before = contained.value("open('/proc/1/stat').read().split()[17:19]")
    done = contained.run(f"import os, resource\n{call}")
    if not call.startswith(("os.kill", "[os.kill")):
        assert failure(done)["kind"] == "PermissionError"
    # Priority and niceness are what they were.
    assert contained.value("open('/proc/1/stat').read().split()[17:19]") == before


@pytest.mark.docker
def test_code_gets_nothing_but_its_own_channel(contained: Supervised) -> None:
    code = """
import os
def place(fd):
    try: return os.readlink(f'/proc/self/fd/{fd}').partition(':')[0]
    except FileNotFoundError: return 'the listing itself'
sorted(place(fd) for fd in os.listdir('/proc/self/fd'))
"""
    assert contained.value(code) == ["/dev/null", "pipe", "pipe", "socket", "the listing itself"]
    assert contained.value("open('/proc/self/oom_score_adj').read()") == "1000\n"
    assert contained.value("import os\nos.nice(0)") == 10
    seccomp = (
        "[line.split() for line in open('/proc/self/status') if line.startswith(('Seccomp', 'NoNewPrivs', 'CapEff'))]"
    )
    status = dict(contained.value(seccomp))
    assert (status["NoNewPrivs:"], status["Seccomp:"], int(status["CapEff:"], 16)) == ("1", "2", 0)
    assert int(status.get("Seccomp_filters:", 2)) >= 2


@pytest.mark.docker
def test_the_supervisor_keeps_time_when_the_processor_does_not_suffice(contained: Supervised) -> None:
    code = "import os\nfor _ in range(40):\n    if os.fork() == 0:\n        while True: pass\nwhile True: pass"
    done = contained.run(code, timeout=0.5)
    assert done["status"] == "timeout"
    with suppress(AssertionError):
        assert not done["kept"]
        contained.receive("ready")
    assert contained.value("1 + 1") == 2
