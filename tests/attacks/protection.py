"""What stops attacks, and how each protection is taken away from one container to see that it was that one.

Above: case.py. A removal changes options that the container is created with, or text of the supervisor that runs in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

NO_DEADLINE = "Supervisor._keep_time = Supervisor._time_left = lambda self: None"
NO_KILL = """
interrupt_only, until_interrupt = Supervisor._keep_time, Supervisor._time_left
def before(self): return self._run is not None and self._run.stopped is None
Supervisor._keep_time = lambda self: interrupt_only(self) if before(self) else None
Supervisor._time_left = lambda self: until_interrupt(self) if before(self) else None
"""


def _tmp(options: str) -> dict[str, Any]:
    return {"tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,{options}"}}


@dataclass(frozen=True, slots=True)
class Removal:
    """How a protection is taken away from one container."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other values for `create_container` and `create_host_config` of the docker SDK, or, with an upper-case name, in
    the configuration that the latter returns; None leaves an option out.
    `@HOST@` is a folder of the host that anyone may write to, `@SECRET@` a value of the gateway's environment."""
    supervisor: str = ""
    """Statements run among the names of the module `supervisor` before it starts."""


class Protection(Enum):
    """By the words of the table; `removal` is None where no option and no line of code is all that it consists of."""

    def __init__(self, words: str, removal: Removal | None = None) -> None:
        self.words = words
        self.removal = removal

    # The container
    PIDS = "limit of processes", Removal({"pids_limit": 1_000})
    MEMORY = "limit of memory", Removal({"mem_limit": "2g", "memswap_limit": "2g"})
    CPUS = "limit of processor time", Removal({"nano_cpus": None})
    TMP_SIZE = "size of /tmp", Removal(_tmp("noexec,size=512m,nr_inodes=10000"))
    TMP_FILES = "number of files in /tmp", Removal(_tmp("noexec,size=64m"))
    TMP_NOEXEC = "/tmp holds no programs", Removal(_tmp("exec,size=64m,nr_inodes=10000"))
    SHM = "size of /dev/shm", Removal({"shm_size": "128m"})
    ULIMITS = "ulimits", Removal({"ulimits": None})
    READ_ONLY = "read-only files", Removal({"read_only": False})
    USER = "no root", Removal({"user": "0:0"})
    CAPABILITIES = "no capabilities", Removal({"cap_drop": None})
    SCHEDULING = "no capability to go before others", Removal({"cap_drop": None, "cap_add": ["SYS_NICE"]})
    ADMINISTRATION = "no capability to administer", Removal({"cap_drop": None, "cap_add": ["SYS_ADMIN"]})
    ENGINE_FILTER = (
        "engine's system call filter",
        Removal({"security_opt": ["no-new-privileges", "seccomp=unconfined"]}),
    )
    MASKS = "engine's masks over /proc and /sys", Removal({"MaskedPaths": [], "ReadonlyPaths": [], "user": "0:0"})
    DEVICES = "no devices of the host", Removal({"devices": ["/dev/full:/dev/kvm:r"]})
    NETWORK = "no network", Removal({"network_mode": "bridge", "network_disabled": False})
    OWN_NETWORK = "network namespace of its own", Removal({"network_mode": "host", "network_disabled": False})
    OWN_IPC = "IPC namespace of its own", Removal({"ipc_mode": "host"})
    OWN_PROCESSES = "PID namespace of its own", Removal({"pid_mode": "host"})
    FIRST_PROCESS = "first process takes no signals from its namespace", Removal({"init": True})
    NO_LOG = "no log driver", Removal({"log_config": {"Type": "json-file", "Config": {}}})
    NO_FILES = "no files of the host", Removal({"binds": {"@HOST@": {"bind": "@HOST@", "mode": "rw"}}})
    NO_ENGINE = (
        "no socket of the engine",
        Removal({"user": "0:0", "binds": {"/var/run/docker.sock": {"bind": "/var/run/docker.sock", "mode": "ro"}}}),
    )
    OWN_TMP = "/tmp of its own", Removal({"tmpfs": None, "binds": {"@HOST@": {"bind": "/tmp", "mode": "rw"}}})
    NO_ENVIRONMENT = "no environment of the gateway", Removal({"environment": {"HOME": "/tmp", "SECRET": "@SECRET@"}})
    IMAGE = ("nothing more in the image",)
    OWN_CONTAINER = ("container of its own for each task",)
    # The supervisor
    SUPERVISOR_FILTER = "supervisor's system call filter", Removal(supervisor="filter_system_calls = lambda libc: None")
    CLOSED_MEMORY = "supervisor's memory is closed", Removal(supervisor="hide_from_children = lambda libc: None")
    DEADLINE = "supervisor's deadline", Removal(supervisor=NO_DEADLINE)
    KILL = "supervisor's kill after the grace", Removal(supervisor=NO_KILL)
    SWEEP = "supervisor ends what a run leaves behind", Removal(supervisor="Supervisor.sweep = lambda self: None")
    FRAMES = ("supervisor checks every frame",)
    BETWEEN_RUNS = ("supervisor takes calls in runs only",)
    STREAMS = ("output is never protocol",)
    CUTS = ("supervisor cuts output",)
    RENEWED = ("supervisor starts a new interpreter",)
    # The embedded interpreter
    EMBEDDED = ("embedded interpreter has nothing outside",)
    OWN_WORKER = ("interpreter of its own for each task",)
    # The interpreter and the gateway
    BOUND = ("interpreter holds what it needs from the start",)
    INTERPRETER = ("Python's own limits",)
    JSON = ("values cross as JSON only",)
    GATEWAY = ("gateway checks every call",)


@dataclass(frozen=True, slots=True)
class Weakened:
    """The sum of several removals."""

    options: Mapping[str, Any]
    supervisor: str


def weakened(protections: tuple[Protection, ...]) -> Weakened:
    """All of them taken away together.

    Raises:
        ValueError: One of them cannot be taken away.
    """
    options: dict[str, Any] = {}
    statements: list[str] = []
    for protection in protections:
        if protection.removal is None:
            raise ValueError(f"{protection.name} cannot be taken away")
        options |= protection.removal.options
        statements.append(protection.removal.supervisor)
    return Weakened(options, "\n".join(statements).strip())
