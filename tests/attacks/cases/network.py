"""Attacks on what lies outside of the container: network, host, engine, other tasks."""

from __future__ import annotations

from tests.attacks.case import Attack, Outcome
from tests.attacks.protection import Protection as P


def reached(outcome: Outcome) -> bool:
    """What listens on the host was connected to."""
    return "connections=0" not in outcome.outside


ATTACKS = (
    Attack(
        name="loopback-of-the-host",
        tries="a service that the host offers to itself only, such as the gateway",
        code='attempt("host", lambda: socket.create_connection(("127.0.0.1", @PORT@), 2))',
        stopped_by=P.OWN_NETWORK,
        shows=r"^HELD host: ConnectionRefusedError",
        won=reached,
    ),
    Attack(
        name="host-by-its-bridge",
        tries="a service of the host by the address of the engine's bridge",
        code='for address in ("@BRIDGE@", "host.docker.internal", "gateway.docker.internal"):\n'
        "    attempt(address, lambda: socket.create_connection((address, @PORT@), 2))",
        stopped_by=P.NETWORK,
        shows=r"^HELD [\d.]+: OSError: .*unreachable",
        won=reached,
    ),
    Attack(
        name="metadata-service",
        tries="credentials of the host's cloud",
        code="""
def ask():
    talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    talk.connect(("169.254.169.254", 80))
    return talk.getsockname()
attempt("a way there", ask)
attempt("connected", lambda: socket.create_connection(("169.254.169.254", 80), 0.3))
""",
        stopped_by=P.NETWORK,
        shows=r"^HELD a way there: OSError: .*unreachable[^$]*^HELD connected",
    ),
    Attack(
        name="names",
        tries="carry something away by looking up names",
        code="""
attempt("resolved", lambda: socket.getaddrinfo("example.org", 443))
def ask(address):
    talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return talk.sendto(bytes(12), (address, 53))
for address in ("192.0.2.53", "127.0.0.11"): attempt(address, lambda: ask(address))
""",
        stopped_by=P.NETWORK,
        shows=r"^HELD resolved: gaierror[^$]*^HELD 192.0.2.53: OSError: .*unreachable",
        won=lambda outcome: "WON 192.0.2.53" in outcome.said or "WON resolved" in outcome.said,
    ),
    Attack(
        name="other-interfaces",
        tries="any interface but its own loopback",
        code="""
try: names = [name for _, name in socket.if_nameindex()]
except OSError as error: print("HELD", error)
else: print("HELD" if set(names) <= {"lo"} else "WON", names)
""",
        stopped_by=P.NETWORK,
        shows=r"^HELD .*Address family|^HELD \['lo'\]",
        without="it asks the kernel by netlink, which the supervisor's filter refuses as well; tried as network-files",
    ),
    Attack(
        name="network-files",
        tries="learn of the host's network",
        code="""
names = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
extra = [name for name in names if name.startswith(("eth", "en", "wl", "docker", "br"))]
print("WON" if extra else "HELD", names)
""",
        stopped_by=P.NETWORK,
        shows=r"^HELD \[",
    ),
    Attack(
        name="multicast",
        tries="neighbours, by sending to all of them",
        code="""
def send(family, address):
    talk = socket.socket(family, socket.SOCK_DGRAM)
    talk.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    return talk.sendto(b"hello", (address, 5353))
attempt("multicast", lambda: send(socket.AF_INET, "224.0.0.251"))
attempt("broadcast", lambda: send(socket.AF_INET, "255.255.255.255"))
attempt("all nodes", lambda: send(socket.AF_INET6, "ff02::1"))
""",
        stopped_by=P.NETWORK,
        shows=r"^HELD multicast: OSError[^$]*^HELD broadcast: OSError[^$]*^HELD all nodes: OSError",
    ),
    Attack(
        name="abstract-sockets",
        tries="a socket of the host that has a name but no file",
        code="""
talk = socket.socket(socket.AF_UNIX)
attempt("abstract", lambda: talk.connect("\\0@ABSTRACT@"))
""",
        stopped_by=P.OWN_NETWORK,
        shows=r"^HELD abstract: ConnectionRefusedError",
        won=reached,
    ),
    Attack(
        name="socket-of-the-engine",
        tries="start a container with all rights",
        code="""
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"):
    talk = socket.socket(socket.AF_UNIX)
    attempt(path, lambda: talk.connect(path))
""",
        stopped_by=P.NO_ENGINE,
        shows=r"^HELD /var/run/docker.sock: FileNotFoundError",
    ),
    Attack(
        name="files-of-the-host",
        tries="read and write a folder of the host",
        code='attempt("host", lambda: os.listdir("@HOST@"))',
        stopped_by=P.NO_FILES,
        shows=r"^HELD host: FileNotFoundError",
    ),
    Attack(
        name="link-to-the-host",
        tries="leave the container by links",
        code="""
for number, target in enumerate(("@HOST@", "/proc/1/root@HOST@", "/proc/1/cwd/..@HOST@", "/../../..@HOST@")):
    os.symlink(target, f"/tmp/link{number}")
    attempt(target, lambda: os.listdir(f"/tmp/link{number}"))
    os.remove(f"/tmp/link{number}")
""",
        stopped_by=P.NO_FILES,
        shows=r"^HELD .*FileNotFoundError[^$]*^HELD /proc/1/root",
    ),
    Attack(
        name="secrets-of-the-gateway",
        tries="tokens and keys that the gateway was started with",
        code="""
def look():
    for path in ["self", *filter(str.isdigit, os.listdir("/proc"))]:
        try: got = open(f"/proc/{path}/environ", "rb").read()
        except OSError: continue
        if b"SECRET" in got: return path
    raise LookupError("no secret")
attempt("environ", lambda: os.environ["SECRET"])
attempt("processes", look)
for name in os.environ: print(name)
""",
        stopped_by=P.NO_ENVIRONMENT,
        shows=r"^HELD environ: KeyError[^$]*^HELD processes: LookupError",
    ),
    Attack(
        name="mounts",
        tries="learn where the host keeps the container's files, and reach them",
        code="""
for line in open("/proc/self/mountinfo"):
    for part in line.split("lowerdir=")[1:]:
        for folder in part.split(",")[0].split(":"):
            attempt("layer", lambda: os.listdir(folder))
print("HELD looked")
""",
        stopped_by=P.NO_FILES,
        shows=r"^HELD looked",
        without="the layers are folders of the host, which files-of-the-host shows to be absent",
    ),
    Attack(
        name="processes-of-the-host",
        tries="see and signal processes of the host",
        code="""
found = []
for path in filter(str.isdigit, os.listdir("/proc")):
    try:
        if open(f"/proc/{path}/status").read().startswith("Name:\\tkthreadd"): found.append(path)
    except OSError: pass
print("WON" if found else "HELD", found)
""",
        stopped_by=P.OWN_PROCESSES,
        shows=r"^HELD \[\]",
    ),
    Attack(
        name="memory-of-another-task",
        tries="shared memory by a number that two tasks agreed on",
        other="import ctypes\nprint(ctypes.CDLL(None).shmget(0x70A5, 4096, 0o1666))",
        code="""
import ctypes
got = ctypes.CDLL(None).shmget(0x70A5, 4096, 0o666)
print("WON" if got >= 0 else "HELD", got)
if got >= 0: ctypes.CDLL(None).shmctl(got, 0, None)
""",
        stopped_by=P.OWN_IPC,
        shows=r"^HELD -1",
    ),
    Attack(
        name="files-of-another-task",
        tries="files that another task wrote",
        other='open("/tmp/private", "w").write("of another task")',
        code='attempt("file", lambda: open("/tmp/private").read())',
        stopped_by=P.OWN_TMP,
        shows=r"^HELD file: FileNotFoundError",
    ),
    Attack(
        name="variables-of-another-task",
        tries="variables that another task set, here and in modules",
        other="import builtins, sys\nprivate = builtins.private = sys.private = 'of another task'",
        code="""
import builtins
for place in (globals(), vars(builtins), vars(sys)): attempt("variable", lambda: place["private"])
""",
        stopped_by=P.OWN_CONTAINER,
        shows=r"^HELD variable: KeyError",
        without="only one interpreter for two tasks would take it away, and the backend never gives one twice",
    ),
    Attack(
        name="processes-of-another-task",
        tries="see and end processes of another task",
        other='import subprocess, time\nprocess = subprocess.Popen(["/bin/sleep", "300"])\ntime.sleep(0.1)',
        code="""
found = []
for path in filter(str.isdigit, os.listdir("/proc")):
    try:
        if b"300" in open(f"/proc/{path}/cmdline", "rb").read(): found.append(path)
    except OSError: pass
print("WON" if found else "HELD", found)
""",
        stopped_by=P.OWN_CONTAINER,
        shows=r"^HELD \[\]",
        without="what another run leaves behind ends with it, and processes-of-the-host shows the name space",
    ),
)
