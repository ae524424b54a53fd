"""Attacks on what is shared: processes, memory, processor time, disk, file descriptors, output."""

from __future__ import annotations

from tests.attacks.case import Attack, Outcome
from tests.attacks.protection import Protection as P

AS_FORKS = "the limit that 150-forks runs into; without it this one would take the machine that tries it"
AS_MEMORY = "the limit that memory runs into, tried there"


def more_than_kept(outcome: Outcome) -> bool:
    """More than the megabyte that is kept came out."""
    texts = (outcome.result.output.text, outcome.result.value or "", getattr(outcome.result.failure, "message", ""))
    return any(len(text) > 1_100_000 for text in texts)


def was_logged(outcome: Outcome) -> bool:
    """The engine wrote what passed the channel to the host's disk."""
    return "log=0" not in outcome.outside


ATTACKS = (
    Attack(
        name="150-forks",
        tries="150 processes at a time",
        code="""
made = 0
try:
    for made in range(150):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
except OSError as error:
    print("HELD", made, error)
else:
    print("WON", made)
""",
        stopped_by=P.PIDS,
        shows=r"^HELD \d+ .*(temporarily|BlockingIO)",
    ),
    Attack(
        name="fork-bomb",
        tries="processes that double until the machine stands",
        code="""
while True:
    try: os.fork()
    except OSError: pass
""",
        timeout_s=1.0,
        stopped_by=P.PIDS,
        shows=r"status=(timeout|died)",
        without=AS_FORKS,
    ),
    Attack(
        name="shell-fork-bomb",
        tries="the same without Python",
        code="""
attempt("bomb", lambda: subprocess.run(["/bin/sh", "-c", "b() { b | b & }; b; sleep 20; sleep 20; echo over"],
    check=True, stderr=subprocess.DEVNULL).returncode and None)
""",
        timeout_s=1.0,
        stopped_by=P.PIDS,
        shows=r"status=(timeout|died)|^HELD bomb",
        without=AS_FORKS,
    ),
    Attack(
        name="400-threads",
        tries="400 threads at a time",
        code="""
made, stop = 0, threading.Event()
try:
    for made in range(400):
        threading.Thread(target=stop.wait, args=(20,), daemon=True).start()
except RuntimeError as error:
    print("HELD", made, error)
else:
    print("WON", made)
stop.set()
""",
        stopped_by=P.PIDS,
        shows=r"^HELD \d+ can't start new thread",
    ),
    Attack(
        name="memory",
        tries="600 MB of memory",
        code="""
taken = bytearray(600 << 20)
for page in range(0, len(taken), 4096): taken[page] = 1
print("WON", len(taken) >> 20, "MB")
del taken
""",
        stopped_by=P.MEMORY,
        shows=r"status=died kept=False[^$]*memory",
    ),
    Attack(
        name="memory-of-children",
        tries="600 MB in four processes, each below the limit",
        code="""
children = []
for _ in range(4):
    if (child := os.fork()) == 0:
        taken = bytearray(150 << 20)
        for page in range(0, len(taken), 4096): taken[page] = 1
        time.sleep(0.5)
        os._exit(0)
    children.append(child)
ends = [os.waitpid(child, 0)[1] for child in children]
print("WON" if not any(ends) else "HELD", ends)
""",
        stopped_by=P.MEMORY,
        shows=r"^HELD \[.*9|status=died",
    ),
    Attack(
        name="memory-in-files",
        tries="600 MB in files that exist in memory only",
        code="""
files = [os.memfd_create(f"hidden{number}") for number in range(20)]
for file in files:
    for _ in range(30): os.write(file, bytes(1 << 20))
print("WON", 600, "MB")
for file in files: os.close(file)
""",
        stopped_by=P.MEMORY,
        shows=r"status=died kept=False[^$]*memory",
    ),
    Attack(
        name="memory-by-recursion",
        tries="memory by frames without end",
        code="""
sys.setrecursionlimit(10 ** 9)
def down(): return down()
down()
print("WON")
""",
        stopped_by=P.MEMORY,
        shows=r"status=died|RecursionError|MemoryError",
        without=AS_MEMORY,
        timeout_s=10,
    ),
    Attack(
        name="memory-of-the-supervisor",
        tries="make the kernel take the supervisor in its place",
        code="""
for value in ("0", "-1000"):
    try: open("/proc/self/oom_score_adj", "w").write(value)
    except OSError as error: print("HELD", error)
try: open("/proc/1/oom_score_adj", "w").write("1000"); print("the supervisor's score could be written")
except OSError as error: print("HELD", error)
taken = []
while True: taken.append(bytearray(8 << 20))
""",
        stopped_by=P.MEMORY,
        shows=r"status=died kept=False[^$]*memory[^$]*then:\nstatus=ok",
        without="the kernel takes the largest process, and the supervisor is the smallest: there is nothing to remove",
    ),
    Attack(
        name="processor-time",
        tries="more processors than one",
        code="""
places = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu.max"
for path in filter(os.path.exists, places):
    quota = open(path).read().split()[0]
    print("WON no quota" if quota in ("-1", "max") else "HELD quota", quota)
""",
        stopped_by=P.CPUS,
        shows=r"^HELD quota \d",
    ),
    Attack(
        name="rank-before-others",
        tries="real-time scheduling, before all other processes of the host",
        code="""
attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
""",
        stopped_by=P.CAPABILITIES,
        shows=r"^HELD real time: PermissionError",
        without="a group of processes needs a share of real time too, which engines give none; rank-by-nice is tried",
    ),
    Attack(
        name="rank-by-nice",
        tries="a better rank than the host's processes",
        code='attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))',
        stopped_by=P.CAPABILITIES,
        shows=r"^HELD nice: PermissionError",
        without=(P.USER, P.SCHEDULING, P.ULIMITS),
    ),
    Attack(
        name="one-large-file",
        tries="a file of 128 MB, which would be memory of the host",
        code="""
def fill():
    with open("/tmp/large", "wb") as file:
        for _ in range(128): file.write(bytes(1 << 20))
attempt("128 MB", fill)
os.remove("/tmp/large")
""",
        stopped_by=P.TMP_SIZE,
        shows=r"^HELD 128 MB: OSError",
        without=(P.TMP_SIZE, P.ULIMITS),
    ),
    Attack(
        name="many-large-files",
        tries="128 MB in files that are each allowed",
        code="""
def fill():
    for number in range(128):
        with open(f"/tmp/part{number}", "wb") as file: file.write(bytes(1 << 20))
attempt("128 files", fill)
for name in os.listdir("/tmp"):
    if name.startswith("part"): os.remove(f"/tmp/{name}")
""",
        stopped_by=P.TMP_SIZE,
        shows=r"^HELD 128 files: OSError: .*No space",
    ),
    Attack(
        name="many-empty-files",
        tries="20,000 files without content, which no limit of bytes sees",
        code="""
os.mkdir("/tmp/many")
def fill():
    for number in range(20_000): os.close(os.open(f"/tmp/many/{number}", os.O_CREAT | os.O_WRONLY))
attempt("20,000 files", fill)
import shutil; shutil.rmtree("/tmp/many")
""",
        stopped_by=P.TMP_FILES,
        shows=r"^HELD 20,000 files: OSError: .*No space",
    ),
    Attack(
        name="sparse-file",
        tries="a file that says it has a terabyte",
        code="""
attempt("1 TB", lambda: os.truncate(os.open("/tmp/sparse", os.O_CREAT | os.O_RDWR), 1 << 40))
os.remove("/tmp/sparse")
""",
        stopped_by=P.ULIMITS,
        shows=r"^HELD 1 TB: OSError: .*too large",
    ),
    Attack(
        name="shared-memory",
        tries="64 MB in /dev/shm",
        code="""
def fill():
    with open("/dev/shm/filled", "wb") as file:
        for _ in range(60): file.write(bytes(1 << 20))
attempt("60 MB", fill)
if os.path.exists("/dev/shm/filled"): os.remove("/dev/shm/filled")
""",
        stopped_by=P.SHM,
        shows=r"^HELD 60 MB: OSError: .*No space",
    ),
    Attack(
        name="2000-open-files",
        tries="file descriptors until the host has none",
        code="""
files = []
def many():
    for _ in range(2_000): files.append(os.open("/dev/null", os.O_RDONLY))
attempt("2,000 descriptors", many)
for file in files: os.close(file)
""",
        stopped_by=P.ULIMITS,
        shows=r"^HELD 2,000 descriptors: OSError: .*Too many open files",
    ),
    Attack(
        name="raised-ulimits",
        tries="more descriptors and core dumps by raising the limits",
        code="""
import resource
attempt("descriptors", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5_000, 5_000)))
attempt("core dumps", lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30)))
attempt("file size", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40)))
""",
        stopped_by=P.ULIMITS,
        shows=r"^HELD descriptors[^$]*^HELD core dumps[^$]*^HELD file size",
    ),
    Attack(
        name="printed-flood",
        tries="100 MB of output into the gateway's memory and the agent's context",
        code='for _ in range(100): print("y" * (1 << 20))',
        timeout_s=15,
        stopped_by=P.CUTS,
        shows=r"status=ok kept=True printed=\d+ left_out=10[34]\d{6}",
        won=more_than_kept,
        without="the gateway ends a container that sends a longer frame: tried as huge-frame",
    ),
    Attack(
        name="flood-of-a-program",
        tries="output without end by a program that Python cannot stop",
        code='subprocess.run(["/bin/sh", "-c", "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"])',
        timeout_s=1,
        stopped_by=P.CUTS,
        shows=r"status=timeout",
        won=more_than_kept,
        without="as printed-flood",
    ),
    Attack(
        name="flood-of-bytes",
        tries="binary output past sys.stdout",
        code="for _ in range(300): os.write(2, bytes(range(256)) * 256)",
        stopped_by=P.CUTS,
        shows=r"status=ok kept=True",
        won=more_than_kept,
        without="as printed-flood",
    ),
    Attack(
        name="huge-value",
        tries="a last expression of 50 MB",
        code='"z" * 50_000_000',
        stopped_by=P.CUTS,
        shows=r"status=ok kept=True[^$]*value=.?zzzz",
        won=more_than_kept,
        without="as printed-flood",
    ),
    Attack(
        name="huge-error",
        tries="an error with a text of 50 MB",
        code='raise ValueError("z" * 50_000_000)',
        stopped_by=P.CUTS,
        shows=r"status=error kept=True[^$]*failure=ValueError: zzz",
        won=more_than_kept,
        without="as printed-flood",
    ),
    Attack(
        name="huge-chain-of-errors",
        tries="2,000 errors, each the cause of the next",
        code="""
error = ValueError("first")
for number in range(2_000):
    following = ValueError("x" * 1_000)
    following.__cause__ = error
    error = following
raise error
""",
        stopped_by=P.CUTS,
        shows=r"status=error kept=True[^$]*failure=ValueError",
        won=more_than_kept,
        without="as printed-flood",
    ),
    Attack(
        name="log-flood",
        tries="fill the host's disk by what the engine logs",
        code='for _ in range(20): print("x" * 100_000)\ndesk.echo(value="x" * 200_000)',
        stopped_by=P.NO_LOG,
        shows=r"log=0",
        won=was_logged,
    ),
)
