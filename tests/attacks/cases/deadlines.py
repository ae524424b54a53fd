"""Attacks on the end of a run: code that goes on after its time, deaf, asleep or out of reach.

Each would win by being there two seconds after its half second is over. The gateway has a deadline of its own later
than that, which is why these are bounded and can be tried without the supervisor's.
"""

from __future__ import annotations

from tests.attacks.case import Attack
from tests.attacks.protection import Protection as P

RUN_S = 0.5
UNTIL = "end = time.monotonic() + 2.4\n"
INTERRUPTED = r"status=timeout kept=True"
KILLED = r"status=(timeout|died) kept=False"


def late(name: str, tries: str, code: str, stopped_by: P, *, without: tuple[P, ...] | str = ()) -> Attack:
    return Attack(
        name=name,
        tries=tries,
        code=f"{UNTIL}{code}\nprint('WON still here')",
        timeout_s=RUN_S,
        stopped_by=stopped_by,
        shows=INTERRUPTED if stopped_by is P.DEADLINE else KILLED,
        without=without,
    )


ATTACKS = (
    late("endless-loop", "a loop without end", "while time.monotonic() < end: pass", P.DEADLINE),
    late("sleep", "sleeping through the deadline", "time.sleep(2.4)", P.DEADLINE),
    late(
        "sleeping-threads",
        "threads that are waited for",
        "threads = [threading.Thread(target=time.sleep, args=(2.4,), daemon=True) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()",
        P.DEADLINE,
    ),
    late("awaiting", "awaiting something that takes too long", "import asyncio\nawait asyncio.sleep(2.4)", P.DEADLINE),
    late(
        "waiting-for-a-program",
        "waiting for a program that runs on",
        'subprocess.run(["/bin/sleep", "2.4"])',
        P.DEADLINE,
    ),
    late(
        "masked-signals",
        "every signal blocked in the main thread",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile time.monotonic() < end: pass",
        P.DEADLINE,
    ),
    late(
        "swallowed-interrupt",
        "a loop that catches the interrupt",
        "while time.monotonic() < end:\n"
        "    try:\n"
        "        while time.monotonic() < end: time.sleep(0.01)\n"
        "    except BaseException: pass",
        P.KILL,
    ),
    late(
        "ignored-interrupt",
        "SIGINT ignored",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile time.monotonic() < end: pass",
        P.KILL,
    ),
    late(
        "own-handler",
        "SIGINT handled by a function that does nothing",
        "signal.signal(signal.SIGINT, lambda *_: None)\nwhile time.monotonic() < end: pass",
        P.KILL,
    ),
    late(
        "loop-in-c",
        "a loop in C that never asks for signals",
        "from itertools import repeat\n"
        "late = filter(end.__lt__, iter(time.monotonic, None))\n"
        "said = next(zip(late, map(os.write, repeat(1), repeat(b'WON in c\\n'))))",
        P.KILL,
    ),
    late(
        "stopped-process",
        "a stopped process, which takes no interrupt, woken later by its child",
        "me = os.getpid()\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); time.sleep(2.0); os.kill(me, signal.SIGCONT); os._exit(0)\n"
        "os.kill(me, signal.SIGSTOP)\n"
        "while time.monotonic() < end: time.sleep(0.05)",
        P.KILL,
    ),
    late(
        "session-of-its-own",
        "the work done by a process in another session",
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    for number in range(1, 64):\n"
        "        try: signal.signal(number, signal.SIG_IGN)\n"
        "        except (OSError, ValueError): pass\n"
        "    while time.monotonic() < end: pass\n"
        "    os._exit(0)\n"
        "os.wait()",
        P.DEADLINE,
    ),
    Attack(
        name="slow-expression",
        tries="a regular expression that takes years",
        code='import re\nre.match(r"(a+)+$", "a" * 40 + "b")\nprint("WON")',
        timeout_s=RUN_S,
        stopped_by=P.DEADLINE,
        shows=INTERRUPTED,
        without="it would take years; endless-loop meets the same deadline",
    ),
    Attack(
        name="huge-number",
        tries="a number that takes minutes",
        code='10 ** 10 ** 9\nprint("WON")',
        timeout_s=RUN_S,
        stopped_by=P.DEADLINE,
        shows=r"status=(timeout|died)|OverflowError|MemoryError",
        without="it would take minutes; endless-loop meets the same deadline",
    ),
    Attack(
        name="slow-tool",
        tries="waiting for a tool that never answers",
        code='desk.never(value=1)\nprint("WON")',
        timeout_s=RUN_S,
        stopped_by=P.DEADLINE,
        shows=INTERRUPTED,
        without="the tool never answers, so nothing could be won but time; endless-loop tries that",
    ),
    Attack(
        name="interrupt-storm",
        tries="a process that interrupts the interpreter without pause",
        code="""
me = os.getpid()
if os.fork() == 0:
    while True: os.kill(me, signal.SIGINT)
time.sleep(5)
""",
        timeout_s=RUN_S,
        stopped_by=P.SWEEP,
        shows=r"then:\nstatus=ok",
        won=lambda outcome: outcome.then.value != "2",
        without="what it would win is the next run of its own task, and that is what `then` looks at",
    ),
    Attack(
        name="alarm-between-runs",
        tries="a timer that ends the interpreter between two runs",
        code="signal.signal(signal.SIGALRM, signal.SIG_DFL)\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\n1",
        then="import time\ntime.sleep(0.1)\n1 + 1",
        stopped_by=P.RENEWED,
        shows=r"then:\nstatus=(ok|died)",
        won=lambda outcome: False,
        without="it ends the interpreter of its own task; there is nothing to win beyond that",
    ),
    Attack(
        name="late-destructor",
        tries="code that runs after the run, in the destructor of its last object",
        code="class Late:\n"
        "    def __del__(self): time.sleep(2.4); print('WON')\n"
        "late = Late()\n"
        "late.itself = late\n"
        "del late\n"
        "1",
        timeout_s=RUN_S,
        then="import gc\ngc.disable()\n1 + 1",
        stopped_by=P.DEADLINE,
        shows=r"status=ok",
        without="a destructor runs in some run and counts there; endless-loop meets that deadline",
    ),
)
