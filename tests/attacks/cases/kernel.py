"""Attacks on the kernel that container and host share, and on what of the host shows through it."""

from __future__ import annotations

from tests.attacks.case import SYSTEM_CALLS, Attack
from tests.attacks.protection import Protection as P

FILTERS = (P.ENGINE_FILTER, P.SUPERVISOR_FILTER)
NOT_ALL = "not every kernel has them; netlink meets the same filter"
ROOT = (P.USER, P.ADMINISTRATION, P.ENGINE_FILTER, P.SUPERVISOR_FILTER)


def refused(name: str, tries: str, numbers: tuple[int, int], arguments: str, without: tuple[P, ...] | str) -> Attack:
    """One system call; `stopped_by` is the last of what has to be taken away."""
    return Attack(
        name=name,
        tries=tries,
        code=f"{SYSTEM_CALLS}\nsystem_call({name!r}, {numbers}, {arguments})",
        stopped_by=without[-1] if isinstance(without, tuple) else P.CAPABILITIES,
        shows=rf"^HELD {name}: (EPERM|EACCES|ENOSYS)",
        without=without,
    )


def opened(
    name: str, tries: str, paths: tuple[str, ...], flags: str, shows: str, stopped_by: P, **more: object
) -> Attack:
    """Opening files, which alone does no harm."""
    return Attack(
        name=name,
        tries=tries,
        code=f"for path in {paths}: attempt(path, lambda: os.open(path, {flags}))",
        stopped_by=stopped_by,
        shows=shows,
        **more,  # type: ignore[arg-type]
    )


def connecting(name: str, tries: str, family: str, kind: str, protocol: int, without: tuple[P, ...] | str) -> Attack:
    return Attack(
        name=name,
        tries=tries,
        code=f"attempt({name!r}, lambda: socket.socket({family}, {kind}, {protocol}))",
        stopped_by=P.SUPERVISOR_FILTER,
        shows=rf"^HELD {name}: (OSError|PermissionError)",
        without=without,
    )


ATTACKS = (
    # Name spaces and mounts
    refused("mount", "mount a file system", (165, 40), 'b"none", b"/tmp", b"tmpfs", 0, None', ROOT),
    refused("umount", "uncover what the engine's mounts hide", (166, 39), 'b"/proc/kcore", 2', ROOT),
    refused("unshare-user", "a user name space, to be root in", (272, 97), "0x10000000", FILTERS),
    refused("unshare-mount", "a mount name space", (272, 97), "0x20000", ROOT),
    refused("pivot-root", "another root", (155, 41), 'b"/", b"/"', ROOT),
    refused(
        "chroot", "leave the root by changing it", (161, 51), 'b"/tmp"', (P.USER, P.CAPABILITIES, P.SUPERVISOR_FILTER)
    ),
    refused("open-tree", "mounts by the newer calls", (428, 428), '-100, b"/", 1', ROOT),
    refused("fsopen", "a file system context", (430, 430), 'b"tmpfs", 0', ROOT),
    Attack(
        name="clone-user",
        tries="a process in a user name space of its own",
        code=f"""{SYSTEM_CALLS}
process = libc.syscall(ctypes.c_long((56, 220)[column]), 0x10000000 | 17, None, None, None, None)
if process == 0: libc._exit(0)
print(f"WON {{process}}" if process > 0 else f"HELD {{errno.errorcode[ctypes.get_errno()]}}")
if process > 0: os.waitpid(process, 0)
""",
        stopped_by=P.ENGINE_FILTER,
        shows=r"^HELD EPERM",
        without=FILTERS,
    ),
    Attack(
        name="setns",
        tries="enter the name spaces of the first process",
        code=f"""{SYSTEM_CALLS}
try: file = os.open("/proc/1/ns/net", os.O_RDONLY)
except OSError as error: print("HELD open", error); file = os.open("/proc/self/ns/net", os.O_RDONLY)
system_call("setns", (308, 268), file, 0)
os.close(file)
""",
        stopped_by=P.SUPERVISOR_FILTER,
        shows=r"^HELD setns: EPERM",
        without=ROOT,
    ),
    refused("open-by-handle", "open a file of the host by its number", (304, 265), "-100, None, 0", ROOT),
    # Other processes
    Attack(
        name="ptrace",
        tries="control the supervisor",
        code=f"{SYSTEM_CALLS}\nsystem_call('ptrace', (101, 117), 16, 1, None, None)",
        stopped_by=P.CLOSED_MEMORY,
        shows=r"^HELD ptrace: EPERM",
        without=(*FILTERS, P.CLOSED_MEMORY),
        timeout_s=0.5,
        # A supervisor that is traced stands still.
        won=lambda outcome: "HELD" not in outcome.said,
    ),
    refused(
        "read-memory",
        "read the supervisor's memory",
        (310, 270),
        "1, None, 0, None, 0, 0",
        FILTERS,
    ),
    opened(
        "memory-of-the-supervisor-file",
        "read and write the supervisor's memory as a file",
        ("/proc/1/mem",),
        "os.O_RDWR",
        r"^HELD /proc/1/mem: PermissionError",
        P.CLOSED_MEMORY,
    ),
    Attack(
        name="streams-of-the-supervisor",
        tries="the supervisor's channel, by the files it has open",
        code="""
attempt("list", lambda: os.listdir("/proc/1/fd"))
attempt("environment", lambda: open("/proc/1/environ", "rb").read())
attempt("root", lambda: os.listdir("/proc/1/root"))
for number in range(12): attempt(f"open {number}", lambda: os.open(f"/proc/1/fd/{number}", os.O_WRONLY))
""",
        stopped_by=P.CLOSED_MEMORY,
        shows=r"^HELD list: PermissionError[^$]*^HELD environment: PermissionError[^$]*^HELD open 11",
    ),
    Attack(
        name="descriptor-of-the-supervisor",
        tries="the supervisor's channel, by a copy of its descriptor",
        code=f"""{SYSTEM_CALLS}
process = libc.syscall(ctypes.c_long(434), 1, 0)
print("HELD pidfd_open:" if process < 0 else "opened", process, errno.errorcode.get(ctypes.get_errno()))
for number in range(12): system_call("pidfd_getfd", (438, 438), process, number, 0)
""",
        stopped_by=P.CLOSED_MEMORY,
        shows=r"^HELD pidfd_getfd: (EPERM|ENOSYS)",
        without=(*FILTERS, P.CLOSED_MEMORY),
    ),
    Attack(
        name="kill-the-supervisor",
        tries="end or stop the supervisor by any signal",
        code="""
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError as error: print(number, error)
time.sleep(0.2)
print("HELD", open("/proc/1/stat").read().split()[2])
""",
        stopped_by=P.FIRST_PROCESS,
        shows=r"^HELD [SR][^$]*then:\nstatus=ok",
        without="tried as kill-the-parent, where the supervisor is another process than the first",
        won=lambda outcome: "HELD" not in outcome.result.output.text,
    ),
    Attack(
        name="kill-the-parent",
        tries="end the supervisor, whichever process it is",
        code='os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(0.3)\nprint("HELD", os.getppid())',
        stopped_by=P.FIRST_PROCESS,
        shows=r"^HELD 1$",
        won=lambda outcome: "HELD" not in outcome.result.output.text,
    ),
    Attack(
        name="kill-everything",
        tries="end all processes at once",
        code="os.kill(-1, signal.SIGKILL)\ntime.sleep(0.3)\nprint('HELD')",
        stopped_by=P.FIRST_PROCESS,
        shows=r"(HELD|status=died|ProcessLookupError)[^$]*then:\nstatus=ok",
        won=lambda outcome: False,
        without="it ends its own interpreter only, as os._exit does; kill-the-parent shows what it would end else",
    ),
    # Rights
    refused("setuid", "become root", (105, 146), "0", (P.USER, P.CAPABILITIES)),
    Attack(
        name="setuid-programs",
        tries="a program that makes root of its caller",
        code="""
found = []
for folder, _, names in os.walk("/"):
    if folder.startswith(("/proc", "/sys")): continue
    for name in names:
        path = os.path.join(folder, name)
        try: state = os.lstat(path)
        except OSError: continue
        if state.st_mode & 0o6000 and not os.path.islink(path): found.append(path)
print("WON" if found else "HELD none", found)
""",
        stopped_by=P.IMAGE,
        shows=r"^HELD none",
        timeout_s=15,
        without="the image would need such a program; new privileges are refused beside that",
    ),
    Attack(
        name="rights-of-the-interpreter",
        tries="any right or capability at all",
        code="""
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    value = value.strip()
    if name.startswith("Cap"): print("WON" if int(value, 16) else "HELD", name, value)
    if name == "NoNewPrivs": print("HELD" if value == "1" else "WON", name, value)
    if name == "Seccomp": print("HELD" if value == "2" else "WON", name, value)
    if name == "Uid": print("WON" if "0" in value.split() else "HELD", name, value)
""",
        stopped_by=P.CAPABILITIES,
        shows=r"^HELD CapEff[^$]*^HELD CapBnd[^$]*^HELD NoNewPrivs",
        without=(P.USER, P.CAPABILITIES),
    ),
    Attack(
        name="device-node",
        tries="a file that is the host's disk",
        code='import stat\nattempt("node", lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)))',
        stopped_by=P.CAPABILITIES,
        shows=r"^HELD node: PermissionError",
        without=(P.USER, P.CAPABILITIES),
    ),
    opened(
        "devices",
        "devices of the host",
        ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/vsock", "/dev/net/tun", "/dev/vda", "/dev/sda"),
        "os.O_RDONLY",
        r"^HELD /dev/kvm: FileNotFoundError",
        P.DEVICES,
    ),
    Attack(
        name="program-in-tmp",
        tries="run a program it wrote itself",
        code="""
open("/tmp/own", "w").write("#!/bin/sh\\necho hello\\n")
os.chmod("/tmp/own", 0o755)
attempt("run", lambda: subprocess.run(["/tmp/own"], capture_output=True, text=True).stdout)
os.remove("/tmp/own")
""",
        stopped_by=P.TMP_NOEXEC,
        shows=r"^HELD run: PermissionError",
    ),
    # The file system
    Attack(
        name="write-outside-of-tmp",
        tries="change the image: programs, libraries, accounts, the supervisor",
        code="""
for path in ("/etc/passwd", "/usr/own", "/opt/own", "/own", "/var/own", "/run/own", "/home/own", "/dev/own"):
    attempt(path, lambda: os.open(path, os.O_CREAT | os.O_WRONLY))
""",
        stopped_by=P.READ_ONLY,
        shows=r"^HELD /etc/passwd[^$]*^HELD /usr/own: OSError.*Read-only[^$]*^HELD /own: OSError.*Read-only",
        without=(P.READ_ONLY, P.USER),
    ),
    opened(
        "kernel-settings",
        "settings of the host's kernel",
        (
            *("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"),
            *("/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/release_agent", "/sys/power/state"),
        ),
        "os.O_WRONLY",
        r"^HELD /proc/sys/kernel/core_pattern[^$]*^HELD /proc/sysrq-trigger",
        P.MASKS,
    ),
    Attack(
        name="kernel-memory",
        tries="memory, keys and timers of the host's kernel",
        code="""
for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list"):
    try: got = open(path, "rb").read(64)
    except OSError as error: print("HELD", path, error)
    else: print("WON" if got else "HELD empty", path, len(got))
attempt("firmware", lambda: os.listdir("/sys/firmware")[0])
""",
        stopped_by=P.MASKS,
        shows=r"^HELD .*/proc/kcore[^$]*^HELD .*/proc/timer_list[^$]*^HELD firmware",
    ),
    # System calls with a history
    refused("bpf", "programs in the kernel", (321, 280), "0, None, 0", FILTERS),
    refused("perf-event", "watch the kernel", (298, 241), "None, 0, -1, -1, 0", FILTERS),
    refused("userfaultfd", "stop the kernel in the middle of a copy", (323, 282), "1", FILTERS),
    refused("io-uring", "system calls that no filter sees", (425, 425), "8, None", FILTERS),
    refused("add-key", "keep something in the kernel's key ring", (248, 217), 'b"user", b"k", b"v", 1, -4', FILTERS),
    refused("keyctl", "read the kernel's key rings", (250, 219), "0, -4, 0", FILTERS),
    refused("request-key", "make the kernel start a program", (249, 218), 'b"user", b"k", None, -4', FILTERS),
    refused("kexec", "another kernel", (246, 104), "0, 0, None, 0", "needs the capability to reboot the host"),
    refused("load-module", "a module in the kernel", (175, 105), 'b"", 0, b""', "needs the capability to load modules"),
    refused("reboot", "restart the host", (169, 142), "0xfee1dead, 672274793, 0, None", "would do it, if it could"),
    refused("set-time", "the host's clock", (227, 112), "0, None", "would change the host's clock"),
    refused("swapon", "a swap file of its own", (167, 224), 'b"/tmp/swap", 0', "would change the host"),
    Attack(
        name="foreign-system-calls",
        tries="32-bit system calls, whose numbers mean something else",
        code="""
import mmap, ctypes, platform
assert platform.machine() == "x86_64"
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b"\\x53\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\x5b\\xc3")
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
got = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
print("WON" if got == os.getpid() else "HELD", got)
""",
        stopped_by=P.SUPERVISOR_FILTER,
        shows=r"status=died|^HELD -",
    ),
    # Sockets
    connecting("vsock", "the machine below this one", "socket.AF_VSOCK", "socket.SOCK_STREAM", 0, FILTERS),
    connecting("netlink", "the kernel's network settings", "socket.AF_NETLINK", "socket.SOCK_RAW", 0, FILTERS),
    connecting("crypto-sockets", "ciphers in the kernel", "socket.AF_ALG", "socket.SOCK_SEQPACKET", 0, NOT_ALL),
    connecting("packet-sockets", "raw frames of the network", "socket.AF_PACKET", "socket.SOCK_RAW", 768, ROOT),
    Attack(
        name="raw-sockets",
        tries="forged packets",
        code='attempt("icmp", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))',
        stopped_by=P.CAPABILITIES,
        shows=r"^HELD icmp: PermissionError",
        without=(P.USER, P.CAPABILITIES),
    ),
    Attack(
        name="odd-sockets",
        tries="protocols that nobody has looked at for years",
        code="""
for family in (3, 4, 5, 9, 15, 19, 21, 23, 26, 29, 30, 31, 33, 35, 37, 39, 41, 43, 44):
    attempt(f"family {family}", lambda: socket.socket(family, socket.SOCK_DGRAM, 0))
""",
        stopped_by=P.SUPERVISOR_FILTER,
        shows=r"^HELD family 3: [^$]*^HELD family 44: ",
        without=NOT_ALL,
    ),
)
