"""A system call filter of our own, on top of the engine's: what one engine's profile leaves open stays closed here.

A list of what is refused, not of what is allowed: a newer C library with calls unknown to us goes on working, and the
engine's profile still has the last word. Numbers of x86_64 and aarch64; the supervisor does not start elsewhere.
"""

import ctypes
import errno
import platform
import struct

REFUSED = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # Namespaces, mounts, other roots.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # Large parts of the kernel that nothing here needs, and that its exploits go through.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "personality": (135, 92),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "quotactl": (179, 60),
    "ioprio_set": (251, 30),
    # The machine as a whole.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
}
"""Answered with EPERM: number on x86_64, on aarch64."""
OF_OTHERS = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
"""Refused unless the process in the first argument is 0, the caller: the kernel would let code take the supervisor's
time and limits from it, for both are of one user."""
SETPRIORITY = (141, 140)
"""Refused unless it is of a process (0), and of the caller (0)."""
FAMILIES = (1, 2, 10)
"""Sockets there may be: UNIX, INET, INET6. A container without a network still reaches the host of a virtual machine
through AF_VSOCK, and the kernel through AF_NETLINK and AF_ALG."""

MACHINES = {"x86_64": 0, "aarch64": 1}
AUDIT_ARCH = (0xC000003E, 0xC00000B7)
SOCKET = (41, 198)
CLONE = (56, 220)
CLONE3 = (435, 435)
NEW_NAMESPACE = 0x7E020000
"""Flags of clone: NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS."""
X32 = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000
NUMBER, ARCH, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in what the kernel shows to a filter."""


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as instructions (operation, jump if true, jump if false, operand).

    Raises:
        RuntimeError: No numbers for this machine.
    """
    if machine not in MACHINES:
        raise RuntimeError(f"the sandbox has no system call filter for {machine}, only for {', '.join(MACHINES)}")
    column = MACHINES[machine]
    refuse, allow = (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)
    steps = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, AUDIT_ARCH[column]), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        steps += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, KILL)]
    for numbers in REFUSED.values():
        steps += [(EQUAL, 0, 1, numbers[column]), refuse]
    for numbers in OF_OTHERS.values():
        steps += [(EQUAL, 0, 4, numbers[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0), refuse, allow]
    steps += [(EQUAL, 0, 7, SETPRIORITY[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0), refuse]
    steps += [(LOAD, 0, 0, SECOND_ARGUMENT), (EQUAL, 1, 0, 0), refuse, allow]
    # The flags of clone3 lie behind a pointer: it is said to be missing, and C libraries use clone instead.
    steps += [(EQUAL, 0, 1, CLONE3[column]), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    steps += [(EQUAL, 0, 4, CLONE[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, NEW_NAMESPACE), refuse, allow]
    steps += [(EQUAL, 0, len(FAMILIES) + 2, SOCKET[column]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    steps += [(EQUAL, len(FAMILIES) - at, 0, family) for at, family in enumerate(FAMILIES)]
    return [*steps, (RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT), allow]


def install(libc: ctypes.CDLL) -> None:
    """Put the filter over this process and all that it starts, for good. Needs no privilege.

    Raises:
        OSError: The kernel has refused it.
        RuntimeError: No numbers for this machine.
    """

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    steps = program(platform.machine())
    raw = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(raw, len(raw))
    filter_program = Program(len(steps), ctypes.cast(buffer, ctypes.c_void_p))
    set_no_new_privs, set_seccomp, with_filter = 38, 22, 2
    if libc.prctl(set_no_new_privs, 1, 0, 0, 0) or libc.prctl(
        set_seccomp, with_filter, ctypes.byref(filter_program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the kernel has refused the sandbox's system call filter")
