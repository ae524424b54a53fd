"""Attacks on the embedded interpreter, in the part of Python that it knows.

It has no files, no network, no processes and no other modules than its own, so that most of the table cannot be written
down in it. What is left: reaching for them all the same, using up time and memory, and lying values and calls.
"""

from __future__ import annotations

from tests.attacks.case import Attack
from tests.attacks.cases.channel import never, rogue_call
from tests.attacks.protection import Protection as P

NOTHING_THERE = "the interpreter has nothing of the kind that could be switched on"
LIMIT = "its own limit, which cannot be lifted from here"


def embedded(name: str, tries: str, code: str, shows: str, **more: object) -> Attack:
    given = {"stopped_by": P.EMBEDDED, "without": NOTHING_THERE, "timeout_s": 5.0, **more}
    return Attack(name=f"embedded-{name}", tries=tries, code=code, shows=shows, **given)  # type: ignore[arg-type]


def reaching(name: str, tries: str, code: str) -> Attack:
    """An expression or statement that has to fail."""
    lines = "\n".join(f"    {line}" for line in code.splitlines())
    tried = f"try:\n{lines}\n    print('WON')\nexcept Exception as error:\n    print('HELD', error)"
    return embedded(name, tries, tried, r"^HELD|failure=")


ATTACKS = (
    reaching("files", "a file of the host", "open('/etc/passwd').read()"),
    reaching("files-by-path", "the same by pathlib", "from pathlib import Path\nPath('/etc/passwd').read_text()"),
    reaching("folders", "a folder of the host", "import os\nos.listdir('/')"),
    reaching("environment", "the gateway's environment", "import os\nos.environ['SECRET']"),
    reaching("programs", "a program", "import subprocess\nsubprocess.run(['id'])"),
    reaching("shell", "a shell", "import os\nos.system('id')"),
    reaching("network", "the network", "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 2)"),
    reaching("libraries", "native code", "import ctypes\nctypes.string_at(0)"),
    reaching("importing", "modules by another way", "__import__('socket')"),
    reaching("importlib", "modules by their machinery", "import importlib\nimportlib.import_module('os').system('id')"),
    reaching("classes", "all classes there are", "().__class__.__base__.__subclasses__()"),
    reaching("globals", "what a function can see", "len.__globals__"),
    reaching("frames", "frames of the interpreter", "import sys\nsys._getframe(1).f_globals"),
    reaching("code", "the code of a function, to change it", "def f(): pass\nf.__code__.co_code"),
    reaching("evaluated", "the same in evaluated text", "eval(\"__import__('os').system('id')\")"),
    reaching("formatted", "attributes by a format", "'{0.__class__.__init__.__globals__}'.format(print)"),
    embedded(
        "endless-loop",
        "a loop without end",
        "while True:\n    pass",
        r"status=timeout",
        timeout_s=0.5,
        won=never,
        without=LIMIT,
    ),
    embedded(
        "swallowed-interrupt",
        "a loop that catches the end of its time",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        r"status=(timeout|died)",
        timeout_s=0.5,
        won=never,
        without=LIMIT,
    ),
    embedded(
        "slow-tool",
        "waiting for a tool that never answers",
        "desk.never(value=1)",
        r"status=timeout",
        timeout_s=0.5,
        won=never,
        without=LIMIT,
    ),
    embedded(
        "memory",
        "memory without end",
        "taken = []\nwhile True:\n    taken.append('x' * 1_000_000 + str(len(taken)))",
        r"status=(died|error)",
        timeout_s=20,
        won=never,
        without=LIMIT,
    ),
    embedded(
        "huge-number",
        "a number of ten billion bits",
        "10 ** 10 ** 10\nprint('WON')",
        r"status=(died|error|timeout)",
        without=LIMIT,
    ),
    embedded(
        "huge-text",
        "a text of ten gigabytes",
        "'x' * 10 ** 10\nprint('WON')",
        r"status=(died|error|timeout)",
        without=LIMIT,
    ),
    embedded(
        "recursion",
        "frames without end",
        "def down():\n    return down()\ndown()",
        r"RecursionError|status=died",
        won=never,
        without=LIMIT,
    ),
    embedded(
        "slow-expression",
        "a regular expression that takes years",
        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\nprint('HELD')",
        r"^HELD|status=(timeout|error|died)",
        timeout_s=2,
        won=never,
        without=LIMIT,
    ),
    embedded(
        "deep-source",
        "source that is too deep to read",
        "(" * 5_000 + ")" * 5_000,
        r"status=(error|died)",
        won=never,
        without=LIMIT,
    ),
    embedded(
        "flood",
        "50 MB of output",
        "for n in range(50):\n    print('y' * 1_000_000)",
        r"left_out=[1-9]|status=(error|died)",
        timeout_s=20,
        won=never,
        without=LIMIT,
    ),
    embedded(
        "unknown-tool",
        "a tool that the agent may not use",
        "try:\n    desk.nothing(value=1)\nexcept Exception as error:\n    print('HELD', error)",
        r"^HELD|failure=",
        stopped_by=P.GATEWAY,
        won=rogue_call,
        without=LIMIT,
    ),
    embedded(
        "unknown-server",
        "a server that the agent may not use",
        "try:\n    vault.open()\n    print('WON')\nexcept Exception as error:\n    print('HELD', error)",
        r"^HELD|failure=",
        stopped_by=P.GATEWAY,
        without=LIMIT,
    ),
    embedded(
        "other-task",
        "variables of another task",
        "try:\n    print('WON', private)\nexcept NameError as error:\n    print('HELD', error)",
        r"^HELD",
        other="private = 'of another task'",
        stopped_by=P.OWN_WORKER,
        without="only one interpreter for two tasks would take it away",
    ),
    embedded(
        "odd-arguments",
        "arguments that JSON has no form for",
        "for value in (float('nan'), float('inf'), b'bytes', {1, 2}, print):\n"
        "    try:\n"
        "        desk.echo(value=value)\n"
        "        print('HELD taken')\n"
        "    except Exception as error:\n"
        "        print('HELD', error)",
        r"^HELD",
        won=never,
        stopped_by=P.GATEWAY,
        without=LIMIT,
    ),
    embedded(
        "repr",
        "a value whose text never ends",
        "class E:\n    def __repr__(self):\n        while True:\n            pass\nE()",
        r"status=timeout",
        timeout_s=1,
        won=never,
        without=LIMIT,
    ),
)
