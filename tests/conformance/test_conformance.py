"""What the official conformance suite finds: nothing at the fixture server, and nothing that the gateway adds to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.comparison import Comparison, compare, gaps
from tests.conformance.suite import REVISIONS, Revision, run
from tests.fixtures.served import Served, served

SCORED: Mapping[Revision, int] = {"2025-11-25": 30, "2026-07-28": 37}
"""How many scenarios each revision requires of a server; frozen with it."""
NOT_BRIDGED = {
    "input-required-result-basic-elicitation",
    "input-required-result-multiple-input-requests",
    "input-required-result-ignore-extra-params",
}
"""What a server of the initialize era cannot do, whoever translates: it asks one thing at a time, its questions have no
names that could be known beforehand, and no answer can come before its question."""

pytestmark = [pytest.mark.published, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module", params=REVISIONS)
def comparison(both: Served, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(both, request.param, tmp_path_factory.mktemp("runs"))


def test_every_required_scenario_was_run_both_ways(comparison: Comparison) -> None:
    assert len(comparison.direct.scored) == SCORED[comparison.revision]
    assert comparison.direct.scored == comparison.gateway.scored


def test_the_fixture_server_passes_without_a_warning(comparison: Comparison) -> None:
    scenarios = [comparison.direct.scenarios[name] for name in comparison.direct.scored]
    assert all(scenario.passed for scenario in scenarios)
    assert [check for scenario in scenarios for check in scenario.checks if check.status != "SUCCESS"] == []
    assert comparison.direct.exit_code == 0, comparison.direct.output[-3000:]


def test_it_passes_through_the_gateway_too(comparison: Comparison) -> None:
    assert gaps(comparison) == []
    assert comparison.gateway.exit_code == 0, comparison.gateway.output[-3000:]


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("bridged"), legacy_only=True) as running:
        yield running


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_server_of_the_initialize_era_passes_through_the_gateway_in_both(
    bridged: Served, revision: Revision, tmp_path: Path
) -> None:
    found = run(bridged.passed_through, revision, tmp_path / "run")
    failed = {name for name in found.scored if found.scenarios[name].having("FAILURE", "WARNING", "SKIPPED")}
    assert failed == (NOT_BRIDGED if revision == "2026-07-28" else set())
    assert len(found.scored) == SCORED[revision]


def test_a_run_against_nothing_is_no_success(tmp_path: Path) -> None:
    comparison = compare(Served("http://127.0.0.1:1/mcp", "http://127.0.0.1:1/mcp"), "2025-11-25", tmp_path)
    assert comparison.direct.exit_code != 0
    assert not any(comparison.direct.scenarios[name].passed for name in comparison.direct.scored)
