"""Parts of the container that need no process: the system call filter, the store for output, the cutting of lines."""

from __future__ import annotations

import errno
import importlib.util
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.supervised import SANDBOX


def load(name: str) -> ModuleType:
    """A module of the container, which is not installed here."""
    spec = importlib.util.spec_from_file_location(f"toolatlas_container_{name}", SANDBOX / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


syscalls, output, frames = load("syscalls"), load("output"), load("frames")
EPERM, ENOSYS, NO_FAMILY = (0x50000 | number for number in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
ALLOW, KILL = 0x7FFF0000, 0x80000000
X86_64, AARCH64 = 0xC000003E, 0xC00000B7


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter answers, as the kernel would run it."""
    words = {0: number, 4: arch or {"x86_64": X86_64, "aarch64": AARCH64}[machine]}
    words |= {16 + 8 * at: arguments[at] if at < len(arguments) else 0 for at in range(6)}
    steps, at, held = syscalls.program(machine), 0, 0
    while True:
        operation, if_true, if_false, operand = steps[at]
        at += 1
        match operation:
            case 0x20:
                held = words[operand]
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: held == operand, 0x35: held >= operand, 0x45: bool(held & operand)}[operation]
                at += if_true if holds else if_false
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"no such operation: {operation:#x}")


MACHINES = pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])


@MACHINES
def test_what_is_refused_is_refused_whatever_its_arguments(machine: str, column: int) -> None:
    for name, numbers in syscalls.REFUSED.items():
        assert verdict(machine, numbers[column]) == EPERM, name
        assert verdict(machine, numbers[column], 1, 1) == EPERM, name


@MACHINES
def test_what_python_needs_is_allowed(machine: str, column: int) -> None:
    needed = {
        "read": (0, 63),
        "write": (1, 64),
        "mmap": (9, 222),
        "futex": (202, 98),
        "execve": (59, 221),
        "kill": (62, 129),
        "openat": (257, 56),
        "connect": (42, 203),
        "pipe2": (293, 59),
        "wait4": (61, 260),
        "rseq": (334, 293),
        "seccomp": (317, 277),
        "not known yet": (500, 500),
    }
    for name, numbers in needed.items():
        assert verdict(machine, numbers[column], 1, 1) == ALLOW, name


@MACHINES
def test_sockets_are_of_three_families(machine: str, column: int) -> None:
    number = syscalls.SOCKET[column]
    assert [family for family in range(50) if verdict(machine, number, family) == ALLOW] == [1, 2, 10]
    assert verdict(machine, number, 40) == NO_FAMILY


@MACHINES
def test_threads_and_processes_start_and_namespaces_do_not(machine: str, column: int) -> None:
    clone, sigchld, thread = syscalls.CLONE[column], 17, 0x3D0F00
    assert verdict(machine, clone, sigchld) == ALLOW
    assert verdict(machine, clone, thread) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(machine, clone, flag | sigchld) == EPERM
    # Its flags cannot be seen; C libraries take clone when they are told that it is missing.
    assert verdict(machine, syscalls.CLONE3[column]) == ENOSYS


@MACHINES
def test_only_the_callers_own_limits_and_priority_change(machine: str, column: int) -> None:
    for name, numbers in syscalls.OF_OTHERS.items():
        assert verdict(machine, numbers[column], 0, 5) == ALLOW, name
        assert verdict(machine, numbers[column], 1, 5) == EPERM, name
    which, who = (0, 1, 2), (0, 1, 10001)
    allowed = [(a, b) for a in which for b in who if verdict(machine, syscalls.SETPRIORITY[column], a, b) == ALLOW]
    assert allowed == [(0, 0)]


def test_other_architectures_on_the_same_kernel_end_the_caller() -> None:
    assert verdict("x86_64", 11, arch=0x40000003) == KILL
    assert verdict("aarch64", 11, arch=0x40000028) == KILL
    assert verdict("x86_64", 0x40000000 | 101) == KILL


def test_no_filter_no_sandbox() -> None:
    with pytest.raises(RuntimeError, match="no system call filter for riscv64"):
        syscalls.program("riscv64")


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(0, 60), st.integers(1, 9))
def test_output_is_kept_from_both_ends(texts: list[str], kept: int, chunk: int) -> None:
    whole = "".join(texts)
    store, data = output.Output(kept), whole.encode()
    for at in range(0, len(data), chunk):
        store.add(data[at : at + chunk])
    text, gap_at, left_out = store.text()
    assert left_out == max(0, len(whole) - kept)
    assert len(text) == min(kept, len(whole))
    assert text[:gap_at] + whole[gap_at : gap_at + left_out] + text[gap_at:] == whole


def test_output_stays_small_however_much_it_is() -> None:
    store = output.Output(1000)
    for _ in range(1000):
        store.add(b"x" * 65_536)
    text, gap_at, left_out = store.text()
    assert (len(text), gap_at, left_out) == (1000, 250, 65_536_000 - 1000)
    assert sum(map(len, store._tail)) <= 2 * 65_536


def test_output_of_a_letter_at_a_time_is_not_kept_in_letters() -> None:
    store = output.Output(1_000_000)
    for _ in range(100_000):
        store.add(b"x")
    assert len(store._head) + len(store._tail) < 100


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=20), st.integers(1, 7))
def test_lines_come_out_however_they_came_in(lines: list[bytes], chunk: int) -> None:
    data, cutter = b"".join(line + b"\n" for line in lines), frames.Lines(20)
    found: list[bytes] = []
    for at in range(0, len(data), chunk):
        found += cutter.add(data[at : at + chunk])
    assert found == lines


@pytest.mark.parametrize("last", [b"x", b"x\n", b"\n" + b"x" * 21])
def test_a_line_that_is_too_long_is_refused(last: bytes) -> None:
    cutter = frames.Lines(20)
    assert cutter.add(b"short\n" + b"x" * 20) == [b"short"]
    with pytest.raises(frames.Broken):
        cutter.add(last)


@pytest.mark.parametrize("frame", [{"x": float("inf")}, {"x": float("nan")}, {"x": "\ud800"}])
def test_what_is_no_json_does_not_reach_the_gateway(frame: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        frames.encoded(frame)
