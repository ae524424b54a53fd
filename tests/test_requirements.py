"""The register of what must hold, requirements.toml, names tests that exist."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
REGISTER = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text("utf-8"))
REPORTED: list[dict[str, Any]] = REGISTER["reported"]
PRIMITIVES: list[dict[str, Any]] = REGISTER["primitive"]
ENTRIES = REPORTED + PRIMITIVES
FAILURES = [f"F{number:02}" for number in range(1, 26)]
ERAS, MODES = ("2025", "2026"), ("server", "direct", "search")
FOR_EVERY_PAIR = (
    "call",
    "progress",
    "cancellation",
    "logging",
    "resources",
    "subscription",
    "prompts",
    "completion",
    "list_changed",
    "elicitation_form",
    "elicitation_url",
    "sampling",
    "roots",
    "several_questions",
    "capabilities",
    "bound_to_the_caller",
    "approval",
)
NOT_FOR_EVERY_PAIR = (
    # Between two of the newer era the gateway keeps no question open.
    *(f"time_limit {pair}" for pair in ("2025-2025", "2025-2026", "2026-2025")),
    # The newer era has no such message.
    "roots_changed 2025-2025",
)
COLLECT_S = 60


def ids(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["id"] for entry in entries]


def test_every_reported_failure_has_an_entry() -> None:
    assert ids(REPORTED) == FAILURES


def test_every_primitive_has_an_entry_for_every_pair_of_eras() -> None:
    pairs = [f"{agent}-{server}" for agent in ERAS for server in ERAS]
    expected = {f"{name} {pair}" for name in FOR_EVERY_PAIR for pair in pairs} | set(NOT_FOR_EVERY_PAIR)
    assert set(ids(PRIMITIVES)) == expected


def test_no_entry_is_there_twice() -> None:
    assert [name for name, count in Counter(ids(ENTRIES)).items() if count > 1] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=ids(ENTRIES))
def test_an_entry_names_tests_that_exist(entry: dict[str, Any]) -> None:
    assert entry.keys() <= {"id", "assertion", "tests", "modes"}
    assert entry["tests"], "the list of tests is empty"
    missing = [name for name in entry["tests"] if not exists(name)]
    assert not missing


@pytest.mark.parametrize("entry", PRIMITIVES, ids=ids(PRIMITIVES))
def test_the_tests_of_a_primitive_run_for_its_pair_in_every_mode(entry: dict[str, Any]) -> None:
    agent, server = entry["id"].split()[1].split("-")
    for mode in entry.get("modes", MODES):
        way = f"agent={agent},server={server},mode={mode}"
        assert any(way in node for name in entry["tests"] for node in collected() if node.startswith(f"{name}["))
    # And each of them for its pair in some.
    way = f"agent={agent},server={server},"
    for name in entry["tests"]:
        assert any(way in node for node in collected() if node.startswith(f"{name}[")), name


def exists(name: str) -> bool:
    path, _, function = name.partition("::")
    return function in functions(ROOT / path)


@cache
def functions(path: Path) -> frozenset[str]:
    """The tests of a module, without importing it."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_"))


@cache
def collected() -> tuple[str, ...]:
    """The tests of the primitives with their parameters."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/primitives"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=COLLECT_S, check=True)
    return tuple(line for line in found.stdout.splitlines() if "::" in line)
