"""Attacks by Python itself: values, errors, names, modules and sources that lie."""

from __future__ import annotations

from tests.attacks.case import Attack, Outcome
from tests.attacks.cases.channel import INTERPRETER_LOST, never, rogue_call
from tests.attacks.protection import Protection as P

OWN_ONLY = "what it breaks is its own interpreter; nothing of ours in there decides anything"
NO_PICKLE = "nothing outside unpickles or evaluates: there is no switch for it"


def broken(name: str, tries: str, code: str, shows: str = r"then:\nstatus=ok", **more: object) -> Attack:
    """Breaks the interpreter it runs in."""
    given = {"stopped_by": P.BOUND, "won": never, "without": OWN_ONLY, "shows": shows, **more}
    return Attack(name=name, tries=tries, code=code, **given)  # type: ignore[arg-type]


def marked(outcome: Outcome) -> bool:
    """Code ran on the host."""
    return "marker=True" in outcome.outside


ATTACKS = (
    # Values
    broken(
        "repr-that-exits",
        "end the interpreter by the value's repr",
        "class E:\n    def __repr__(self): raise SystemExit(7)\nE()",
    ),
    broken(
        "repr-that-never-ends",
        "a run whose value takes for ever to write",
        "class E:\n    def __repr__(self):\n        while True: pass\nE()",
        r"status=(timeout|ok|error)",
        timeout_s=0.5,
        stopped_by=P.DEADLINE,
    ),
    broken("repr-of-other-type", "a repr that is no text", "class E:\n    def __repr__(self): return 7\nE()"),
    broken(
        "value-without-end",
        "a value that contains itself",
        "endless = []\nendless.append(endless)\nendless",
        r"status=ok",
    ),
    broken(
        "deep-value",
        "a value of 100,000 lists in one another",
        "deep = []\nfor _ in range(100_000): deep = [deep]\ndeep",
    ),
    broken(
        "lying-types",
        "values that say they are others",
        "class E(dict):\n    __class__ = int\n    def items(self): raise SystemExit\n    def __len__(self): return -1\n"
        "    def __getattribute__(self, name): raise KeyboardInterrupt\nE()",
    ),
    broken(
        "value-that-is-run",
        "code run by the gateway when it reads the value",
        "class E:\n    def __reduce__(self): return (os.system, ('touch @HOST@/marker',))\n"
        "    def __repr__(self): return \"__import__('os').system('touch @HOST@/marker')\"\nE()",
        r"status=ok[^$]*marker=False",
        stopped_by=P.JSON,
        won=marked,
        without=NO_PICKLE,
    ),
    broken(
        "pickle-as-argument",
        "the same by an argument",
        "import pickle, base64\nclass E:\n    def __reduce__(self): return (os.system, ('touch @HOST@/marker',))\n"
        "desk.echo(value=base64.b64encode(pickle.dumps(E())).decode())",
        r"status=ok[^$]*marker=False",
        stopped_by=P.JSON,
        won=marked,
        without=NO_PICKLE,
    ),
    broken(
        "numbers-that-write-json",
        "a number whose text adds a field to the frame",
        """
class E(int):
    def __repr__(self): return '1}, "tool": "vault.open", "x": {"y": 1'
    __str__ = __repr__
class F(float):
    def __repr__(self): return '1}, "tool": "vault.open", "x": {"y": 1'
for value in (E(7), F(7.5)):
    try: print("HELD", desk.echo(value=value))
    except Exception as error: print("HELD", type(error).__name__)
""",
        r"^HELD",
        stopped_by=P.JSON,
        won=rogue_call,
        without=NO_PICKLE,
    ),
    broken(
        "odd-text",
        "half characters, zeros and terminal sequences in what is printed",
        r"print('\ud800 \x00 \x1b[2J\x1b]0;owned\x07 \u202e')"
        "\nos.write(1, b'\\xff\\xfe\\x1b[?1049h')\n'\\ud800\\x00'",
        r"status=ok",
        stopped_by=P.STREAMS,
        won=lambda outcome: not _is_text(outcome),
    ),
    broken(
        "text-that-is-formatted",
        "what error texts are made with, by braces and per cents",
        "raise ValueError('{0.__class__.__init__.__globals__} %s %n %(x)s {failure} ${HOME}')",
        r"failure=ValueError: \{0\.__class__\.__init__\.__globals__\} %s %n %\(x\)s \{failure\} \$\{HOME\}",
    ),
    # Errors
    broken(
        "error-without-text",
        "an error whose text is an error",
        "class E(Exception):\n    def __str__(self): raise self\n    __repr__ = __str__\nraise E",
    ),
    broken(
        "error-of-all-errors",
        "an error that nothing catches",
        "class E(BaseException): pass\nraise E('gone')",
        r"status=error kept=True",
    ),
    broken(
        "error-with-odd-name",
        "an error whose class has a name of a megabyte, with line ends",
        "raise type('E\\n' * 500_000, (Exception,), {'__module__': 'm\\n' * 1000})('x')",
        r"status=error",
    ),
    broken(
        "error-with-false-frames",
        "lines of files of the host in a traceback",
        "exec(compile('\\n1/0', '@HOST@/secret.txt', 'exec'))",
        r"failure=ZeroDivisionError",
        won=lambda outcome: "of the host" in outcome.said,
        stopped_by=P.NO_FILES,
        without="tried as files-of-the-host",
    ),
    broken(
        "error-in-hook",
        "hooks that run when errors are shown",
        "sys.excepthook = sys.unraisablehook = sys.displayhook = lambda *_: os._exit(1)\n1/0",
        r"status=error",
    ),
    # The interpreter
    broken(
        "exit",
        "end the interpreter",
        "os._exit(0)",
        r"status=died kept=False[^$]*then:\nstatus=ok",
        stopped_by=P.RENEWED,
    ),
    broken("sys-exit", "end the interpreter politely", "sys.exit('bye')", r"status=(ok|error) kept=True"),
    broken(
        "crash",
        "crash the interpreter",
        "import ctypes\nctypes.string_at(0)",
        r"status=died kept=False",
        stopped_by=P.RENEWED,
    ),
    broken("abort", "abort it, with a core dump", "os.abort()", r"status=died kept=False", stopped_by=P.RENEWED),
    broken(
        "no-builtins",
        "builtins taken from under the interpreter",
        "import builtins\n"
        "for name in list(vars(builtins)):\n"
        "    if not name.startswith('__') or name in ('__import__', '__build_class__'): delattr(builtins, name)",
        r"status=error kept=True",
        then="1",
        spoils=True,
    ),
    broken(
        "own-json",
        "another json module",
        "import json\n"
        "json.dumps = lambda *_, **__: 'forged'\n"
        "json.loads = None\n"
        "json.JSONEncoder = json.JSONDecoder = None\n"
        "7",
        r"status=ok[^$]*value=7",
    ),
    broken(
        "own-streams",
        "streams that are none",
        "sys.stdout = sys.stderr = sys.stdin = None\nsys.__stdout__ = 7",
        r"status=ok",
    ),
    broken(
        "own-functions",
        "other functions under known names",
        "import builtins\nbuiltins.repr = builtins.str = builtins.type = builtins.len = builtins.print = None\n7",
        r"status=ok[^$]*value=7",
        spoils=True,
    ),
    broken("no-modules", "all modules forgotten", "sys.modules.clear()", r"status=ok"),
    broken(
        "other-modules",
        "the interpreter's modules replaced",
        "import traceback, ast, linecache, os\n"
        "for module in (traceback, ast, linecache, signal):\n"
        "    for name in list(vars(module)):\n"
        "        if not name.startswith('__'): setattr(module, name, None)\n"
        "1/0",
        r"status=error[^$]*ZeroDivisionError",
        spoils=True,
    ),
    broken(
        "traced",
        "a trace of everything the interpreter does from now on",
        "def trace(*_): raise KeyboardInterrupt\n"
        "sys.settrace(trace)\n"
        "threading.settrace(trace)\n"
        "sys.setprofile(lambda *_: os._exit(3))",
        r"status=error kept=True",
        spoils=True,
    ),
    broken(
        "audited",
        "an audit hook that refuses everything",
        "def no(*_): raise RuntimeError('no')\nsys.addaudithook(no)",
        r"status=ok",
        spoils=True,
    ),
    broken(
        "no-memory-limit",
        "an address space too small to live in",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))",
        r"status=ok",
        spoils=True,
    ),
    broken(
        "changed-numbers",
        "small numbers changed in memory",
        "import ctypes\nctypes.c_int.from_address(id(2) + 24).value = 3",
        r"status=ok",
        then="1",
        spoils=True,
    ),
    broken(
        "found-by-collector",
        "the interpreter's own objects, found among all",
        """
import gc
for found in gc.get_objects():
    if isinstance(found, socket.socket):
        try: found.sendall(b'{"op": "done", "run": 1, "status": "ok", "value": "forged"}\\n')
        except OSError: pass
""",
        INTERPRETER_LOST,
        stopped_by=P.FRAMES,
    ),
    # Source
    broken(
        "deep-source",
        "source that is too deep to read",
        "(" * 20_000 + ")" * 20_000,
        r"status=error kept=True[^$]*failure=(MemoryError|SyntaxError|RecursionError)",
        stopped_by=P.INTERPRETER,
    ),
    broken(
        "long-sum",
        "source that is too long to compile",
        "+".join(["1"] * 40_000),
        r"failure=RecursionError|status=ok",
        stopped_by=P.INTERPRETER,
    ),
    broken(
        "odd-source",
        "source with zeros and half characters",
        "x = '\0 \ud800'",
        r"status=error kept=True",
        stopped_by=P.INTERPRETER,
    ),
    broken(
        "source-in-another-alphabet",
        "source whose encoding says otherwise",
        "# -*- coding: rot13 -*-\ncevag('jba')",
        r"status=error",
        stopped_by=P.INTERPRETER,
    ),
)


def _is_text(outcome: Outcome) -> bool:
    try:
        f"{outcome.result.output.text}{outcome.result.value}".encode()
    except UnicodeEncodeError:
        return False
    return True
