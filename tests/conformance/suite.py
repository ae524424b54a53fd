"""The official conformance suite as a function: run it against a URL and get what it found, scenario by scenario.

A revision of the protocol requires a set of scenarios, frozen when it was released. The suite runs others too
(extensions, scenarios that came later) and does not count them. Above: comparison.py. Below: fixtures/node.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.fixtures import node

Revision = Literal["2025-11-25", "2026-07-28"]
REVISIONS: tuple[Revision, ...] = ("2025-11-25", "2026-07-28")
RUN_S = 120.0
SCENARIO_S = 20.0

_PACKAGE = Path(__file__).with_name("package.json")
_STARTED = re.compile(r"^=== Running scenario: (\S+) ===$", re.MULTILINE)
_NOT_SCORED = re.compile(r"^  [✓✗] (\S+) \((\S+)\)$", re.MULTILINE)
_FOLDER = re.compile(r"^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True)
class Check:
    """One thing that a scenario looked at. `status` is SUCCESS, FAILURE, WARNING or SKIPPED."""

    id: str
    status: str
    message: str
    details: str


@dataclass(frozen=True)
class Scenario:
    """What one scenario found. `unscored` says why it does not count, and is empty where it does."""

    name: str
    unscored: str
    checks: tuple[Check, ...]

    @property
    def scored(self) -> bool:
        return not self.unscored

    def having(self, *statuses: str) -> list[Check]:
        return [check for check in self.checks if check.status in statuses]

    @property
    def passed(self) -> bool:
        return not self.having("FAILURE") and bool(self.checks)


@dataclass(frozen=True)
class Run:
    """A whole run: the exit code of the suite, its scenarios by name, and what it printed."""

    exit_code: int
    scenarios: Mapping[str, Scenario]
    output: str

    @property
    def scored(self) -> set[str]:
        return {name for name, scenario in self.scenarios.items() if scenario.scored}

    @property
    def good(self) -> set[tuple[str, str]]:
        """Scenario and id of each check of the scored scenarios that succeeded and never did not."""
        checks = [(name, check) for name in self.scored for check in self.scenarios[name].checks]
        bad = {(name, check.id) for name, check in checks if check.status != "SUCCESS"}
        return {(name, check.id) for name, check in checks} - bad


def run(url: str, revision: Revision, folder: Path) -> Run:
    """Run what `revision` requires against the server at `url`; `folder` is new and takes the suite's own files.

    Raises:
        RuntimeError: the suite could not be installed, or ended before it had run every scenario.
        subprocess.TimeoutExpired: it took more than RUN_S seconds.
    """
    packages = node.installed(_PACKAGE)
    folder.mkdir(parents=True)
    program = packages / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    command = [node.NODE, program, "server", "--url", url, "--requirements", revision]
    done = subprocess.run(
        [*map(str, command), "--timeout", str(int(SCENARIO_S * 1000)), "--output-dir", str(folder)],
        env=node.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_S,
        encoding="utf-8",
    )
    names = _STARTED.findall(done.stdout)
    if not names or "\nTotal: " not in done.stdout:
        raise RuntimeError(f"the suite did not run to its end against {url}:\n{done.stdout[-3000:]}")
    unscored = dict(_NOT_SCORED.findall(done.stdout.partition("\nNot scored for ")[2]))
    checks = _checks(folder)
    scenarios = {name: Scenario(name, unscored.get(name, ""), checks.get(name, ())) for name in names}
    return Run(done.returncode, scenarios, done.stdout)


def _checks(folder: Path) -> dict[str, tuple[Check, ...]]:
    """What the suite wrote for each scenario, without what it only notes. A scenario that broke off wrote nothing."""
    found: dict[str, tuple[Check, ...]] = {}
    for path in folder.glob("*/checks.json"):
        if (named := _FOLDER.match(path.parent.name)) is None:
            raise RuntimeError(f"a folder of the suite with an unknown name: {path.parent.name}")
        found[named[1]] = tuple(
            Check(each["id"], each["status"], each.get("errorMessage", ""), json.dumps(each.get("details")))
            for each in json.loads(path.read_text(encoding="utf-8"))
            if each["status"] != "INFO"
        )
    return found
