"""The fixture server alone against the same server behind the gateway, for each revision, and the table of both.

Above: __main__.py prints it, test_conformance.py holds it. Below: suite.py, fixtures/served.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.conformance.suite import Revision, Run, Scenario, run
from tests.fixtures.served import Served


@dataclass(frozen=True)
class Comparison:
    """Both runs of one revision."""

    revision: Revision
    direct: Run
    gateway: Run


def compare(served: Served, revision: Revision, folder: Path) -> Comparison:
    """Both runs, one after the other. Raises what `suite.run` raises."""
    return Comparison(
        revision,
        run(served.server, revision, folder / f"{revision}-direct"),
        run(served.passed_through, revision, folder / f"{revision}-gateway"),
    )


def table(comparisons: list[Comparison]) -> str:
    """Every scenario that counts, both ways, then the totals, and apart those that do not count."""
    lines: list[str] = []
    for each in comparisons:
        lines += [f"Protocol {each.revision}", f"  {'scenario':<46} {'direct':<14} gateway"]
        lines += [_row(each, name) for name in each.direct.scenarios if name in each.direct.scored]
        for title, one in (("direct", each.direct), ("gateway", each.gateway)):
            scenarios = [one.scenarios[name] for name in one.scored]
            lines.append(
                f"  {title}: {sum(scenario.passed for scenario in scenarios)} of {len(scenarios)} scenarios, "
                f"{sum(len(scenario.having('SUCCESS')) for scenario in scenarios)} checks passed, "
                f"{sum(len(scenario.having('FAILURE')) for scenario in scenarios)} failed, exit code {one.exit_code}"
            )
        lines += ["", "  not scored:"]
        lines += [
            f"{_row(each, name)}  ({scenario.unscored})"
            for name, scenario in each.direct.scenarios.items()
            if not scenario.scored
        ]
        lines.append("")
    return "\n".join(lines)


def gaps(comparison: Comparison) -> list[str]:
    """What counts and succeeds directly but not through the gateway: a line a scenario, with what the suite says."""
    missing: dict[str, list[str]] = {}
    for name, check_id in sorted(comparison.direct.good - comparison.gateway.good):
        missing.setdefault(name, []).append(check_id)
    lines: list[str] = []
    for name, ids in missing.items():
        scenario = comparison.gateway.scenarios.get(name)
        found = scenario.having("FAILURE", "WARNING", "SKIPPED") if scenario else []
        said = [f"{check.id} {check.status}: {check.message} {check.details[:600]}" for check in found]
        lines.append(f"{name}, without {', '.join(ids)}: {'; '.join(said) or 'the scenario did not get there'}")
    return lines


def _row(comparison: Comparison, name: str) -> str:
    cells = [_cell(one.scenarios.get(name)) for one in (comparison.direct, comparison.gateway)]
    return f"  {name:<46} {cells[0]:<14} {cells[1]}"


def _cell(scenario: Scenario | None) -> str:
    if scenario is None or not scenario.checks:
        return "nothing"
    counted = len(scenario.having("SUCCESS", "FAILURE"))
    return f"{'ok' if scenario.passed else 'FAILED':<6} {len(scenario.having('SUCCESS'))}/{counted}"
