"""Attacks on the line to the gateway: forged, broken, huge and late frames, and calls outside of a run.

Code can find the interpreter's own end of the line among its open files. What it writes there counts as what the
interpreter says, no more: calls with the rights that the code has anyway, or nonsense that costs it its variables.
"""

from __future__ import annotations

from tests.attacks.case import Attack, Outcome
from tests.attacks.protection import Protection as P

EVERYWHERE = """
def everywhere(*lines):
    for number in range(3, 64):
        for line in lines:
            try: os.write(number, line if line.endswith(b"\\n") else line + b"\\n")
            except OSError: break
"""
INTERPRETER_LOST = r"status=died kept=False[^$]*^lost: the code wrote to the interpreter's own channel"
NOTHING_TO_REMOVE = "what reads these frames cannot be left out: it is how calls leave the container at all"


def rogue_call(outcome: Outcome) -> bool:
    """A call was made that the code could not have made by name."""
    return any(not tool.startswith("desk.") for tool, _ in outcome.calls)


def believed(outcome: Outcome) -> bool:
    """The forged end of the run was taken for the real one by the gateway, or for that of the next run."""
    return "forged" in (outcome.result.value or "") or "forged" in outcome.then.output.text + (outcome.then.value or "")


def never(outcome: Outcome) -> bool:
    """Success would be a task or a gateway that does not go on, which `then` shows."""
    return False


def for_all_runs(frame: str) -> str:
    """Source of bytes: the frame for whichever run may be going on."""
    return f"*[b'''{frame}'''.replace(b'RUN', str(run).encode()) for run in range(1, 1_000)]"


def on_the_line(name: str, tries: str, lines: str, shows: str = INTERPRETER_LOST, **more: object) -> Attack:
    """Lines (Python expressions of bytes) written to all that is open."""
    given = {"won": never, "without": NOTHING_TO_REMOVE, "stopped_by": P.FRAMES, "timeout_s": 3.0, **more}
    return Attack(
        name=name, tries=tries, code=f"{EVERYWHERE}\neverywhere({lines})\ntime.sleep(0.1)", shows=shows, **given
    )  # type: ignore[arg-type]


DONE = (
    '{"op": "done", "run": RUN, "status": "ok", "output": "forged", "gap_at": 0, "left_out": 0, "value": "forged", '
    '"failure": null, "kept": true, "lost_because": null, "seconds": 0.1}'
)
CALL = '{"op": "call", "run": RUN, "call": 77, "tool": "vault.open", "arguments": {}}'

ATTACKS = (
    Attack(
        name="frames-on-stdout",
        tries="a call and an end of the run that are printed",
        code=f"print('''{CALL}''')\nfor run in range(9): print('''{DONE}'''.replace('RUN', str(run)))",
        stopped_by=P.STREAMS,
        shows=r'status=ok[^$]*"op": "call"[^$]*calls=0',
        won=lambda outcome: rogue_call(outcome) or believed(outcome),
        without="the descriptors of the channel are closed in the interpreter; no option gives them back",
    ),
    Attack(
        name="frames-on-stderr",
        tries="the same on the other stream, in the engine's own wrapping",
        code=f"""
line = b'''{CALL}''' + b"\\n"
os.write(1, b"\\x01\\0\\0\\0" + len(line).to_bytes(4, "big") + line)
os.write(2, b"\\x01\\0\\0\\0" + len(line).to_bytes(4, "big") + line)
""",
        stopped_by=P.STREAMS,
        shows=r'status=ok[^$]*"op": "call"[^$]*calls=0',
        won=rogue_call,
        without="as frames-on-stdout",
    ),
    Attack(
        name="frames-by-terminal",
        tries="the channel by the names that standard streams have",
        code=f"""
for path in ("/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/console", "/proc/self/fd/0", "/proc/1/fd/1", "/dev/pts/0"):
    try:
        with open(path, "wb", buffering=0) as stream: stream.write(b'''{CALL}''' + b"\\n")
    except OSError as error: print("HELD", path, error)
""",
        stopped_by=P.STREAMS,
        shows=r"^HELD /dev/tty[^$]*^HELD /proc/1/fd/1[^$]*calls=0",
        won=rogue_call,
        without="as frames-on-stdout",
    ),
    on_the_line(
        "forged-call",
        "a call of a tool that its agent may not use",
        for_all_runs(CALL),
        stopped_by=P.GATEWAY,
        shows=r"calls=1 \[\('vault.open'",
        without="it reaches the gateway as any call does, with the rights of its agent, and is refused there",
    ),
    on_the_line("forged-end", "an end of the run before its end", f"b'\"forged\"', {for_all_runs(DONE)}"),
    on_the_line("forged-ready", "a new interpreter that is none", """b'{"op": "ready", "fresh": true}'"""),
    on_the_line(
        "unknown-frame",
        "an operation that does not exist",
        """b'{"op": "owned"}', b'{}', b'[]', b'null', b'7', b'""'""",
    ),
    on_the_line("garbage", "bytes that are no text", r"b'\xff\xfe\x00\x01garbage}{', bytes(range(256)) * 20"),
    on_the_line(
        "missing-fields",
        "frames without what they need",
        """b'{"op": "call"}', b'{"op": "look_up"}', b'{"op": "done"}', b'{"call": 1}'""",
    ),
    on_the_line(
        "wrong-types",
        "fields of other types",
        """b'{"op": "call", "run": "1", "call": [], "tool": {}, "arguments": 7}'"""
        """, b'{"op": ["call"], "run": NaN, "call": true}'""",
    ),
    on_the_line(
        "huge-numbers",
        "numbers that take minutes to read",
        """b'{"op": "call", "run": ' + b"9" * 200_000 + b', "call": 1e999, "tool": "desk.echo", "arguments": {}}'""",
    ),
    on_the_line("deep-frame", "100,000 lists in one another", "b'[' * 100_000", timeout_s=5.0),
    on_the_line(
        "deep-arguments",
        "the same in a call",
        """b'{"op": "call", "run": 1, "call": 5, "tool": "desk.echo", "arguments": {"value": '"""
        """ + b'[' * 50_000 + b']' * 50_000 + b'}}'""",
    ),
    on_the_line(
        "null-in-frame", "frames cut by zeros and by odd line ends", r"""b'{"op": "call"\x00\r\x85\xe2\x80\xa8}'"""
    ),
    Attack(
        name="huge-frame",
        tries="a line of 64 MB, to fill what is between",
        code="""
chunk = b"x" * (1 << 20)
for number in range(3, 64):
    try:
        for _ in range(64): os.write(number, chunk)
        os.write(number, b"\\n")
    except OSError: pass
""",
        timeout_s=5,
        stopped_by=P.FRAMES,
        shows=INTERPRETER_LOST,
        won=never,
        without=NOTHING_TO_REMOVE,
    ),
    Attack(
        name="half-a-frame",
        tries="a line that never ends, before the interpreter's own",
        code="""
for number in range(3, 64):
    try: os.write(number, b'{"op": "call", "run": 1, ')
    except OSError: pass
""",
        timeout_s=1,
        stopped_by=P.FRAMES,
        shows=INTERPRETER_LOST,
        won=never,
        without=NOTHING_TO_REMOVE,
    ),
    Attack(
        name="flood-of-calls",
        tries="100,000 calls without waiting for an answer",
        code=f"""
line = b'''{CALL.replace("vault.open", "desk.echo").replace("77", "NUMBER")}\\n'''
for number in range(3, 64):
    try:
        for call in range(110):
            for run in range(1, 1_000):
                os.write(number, line.replace(b"RUN", str(run).encode()).replace(b"NUMBER", str(call + 1_000).encode()))
    except OSError: pass
""",
        timeout_s=2,
        stopped_by=P.GATEWAY,
        shows=r"status=(timeout|died|ok)[^$]*calls=[1-9]",
        won=lambda outcome: len(outcome.calls) > 100,
        without="the number of calls is counted in the gateway, which has no option for without end",
    ),
    Attack(
        name="closed-files",
        tries="a run without an end, because nothing can say so any more",
        code="os.closerange(0, 256)",
        timeout_s=2,
        stopped_by=P.RENEWED,
        shows=r"status=died kept=False",
        won=never,
        without="it ends its own interpreter",
    ),
    Attack(
        name="swapped-files",
        tries="output and channel changed for one another",
        code="""
for number in range(3, 64):
    try: os.fstat(number)
    except OSError: continue
    if "socket" in os.readlink(f"/proc/self/fd/{number}"):
        os.dup2(1, number); os.dup2(number, 1)
print("hello")
""",
        timeout_s=1,
        stopped_by=P.RENEWED,
        shows=r"status=(died|timeout) kept=False",
        won=never,
        without="it ends its own interpreter",
    ),
    Attack(
        name="stolen-answers",
        tries="read what the gateway answers to others",
        code="""
def read(number):
    try: talk = sockets.socket(fileno=os.dup(number))
    except OSError: return
    try:
        talk.setblocking(False)
        print("read", talk.recv(4096))
    except OSError: pass
import socket as sockets
for number in range(3, 64): read(number)
print("HELD", desk.echo(value=1))
""",
        timeout_s=2,
        stopped_by=P.OWN_CONTAINER,
        shows=r"status=died kept=False|^HELD 1$",
        won=never,
        without="only answers to its own calls come to its own container",
    ),
    Attack(
        name="calls-after-the-run",
        tries="tools called by a thread when no run is going on",
        code="""
def later():
    while True:
        time.sleep(0.02)
        try: desk.echo(value="between runs")
        except BaseException: pass
threading.Thread(target=later, daemon=True).start()
""",
        stopped_by=P.BETWEEN_RUNS,
        shows=r"status=ok kept=True[^$]*then:\nstatus=ok",
        won=never,
        without="outside of a run the gateway has nothing to make a call with, and ends the container that asks",
    ),
    Attack(
        name="calls-of-a-process",
        tries="tools called by a process that outlives the run",
        code=f"""
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(0.02)
        for number in range(3, 64):
            for run in range(1, 1_000):
                try: os.write(number, b'''{CALL}'''.replace(b"RUN", str(run).encode()) + b"\\n")
                except OSError: break
""",
        stopped_by=P.SWEEP,
        shows=r"then:\nstatus=ok",
        won=never,
        without="tried as process-left-behind",
    ),
    Attack(
        name="run-that-ends-twice",
        tries="two ends of one run, by a fork that comes back",
        code="child = os.fork()\nprint('HELD' if child else 'child')\nif not child: time.sleep(0.05)\n'of one of them'",
        stopped_by=P.FRAMES,
        shows=r"status=ok[^$]*then:\nstatus=ok",
        won=lambda outcome: outcome.then.value != "2",
        without=NOTHING_TO_REMOVE,
    ),
    Attack(
        name="process-left-behind",
        tries="a process that lives on after the run",
        code="""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
    os._exit(0)
os.wait()
""",
        then="""
import os
left = [path for path in os.listdir("/proc") if path.isdigit() and int(path) not in (1, os.getpid())
        and open(f"/proc/{path}/stat").read().split()[2] != "Z"]
print("WON" if left else "HELD", left)
1 + 1
""",
        stopped_by=P.SWEEP,
        shows=r"then:[^$]*^HELD \[\]",
    ),
    Attack(
        name="program-left-behind",
        tries="a program that lives on after the run",
        code='subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)\n1',
        then="""
import os
left = [path for path in os.listdir("/proc") if path.isdigit() and int(path) not in (1, os.getpid())
        and open(f"/proc/{path}/stat").read().split()[2] != "Z"]
print("WON" if left else "HELD", left)
1 + 1
""",
        stopped_by=P.SWEEP,
        shows=r"then:[^$]*^HELD \[\]",
    ),
)
