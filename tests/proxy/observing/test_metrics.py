"""What /metrics says right after calls, to whom, and how many time series it can become."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from proxy import app as composition
from proxy.endpoint.tokens import Scope, TokenStore
from proxy.observing.metrics import OTHER, MetricsRecorder
from proxy.sandbox.embedded import EmbeddedBackend
from proxy.sandbox.limits import limits_of
from proxy.store.recorder import Ending, Level, Outcome, Step
from tests.fixtures.raw_agent import LEGACY, raw_agent
from tests.fixtures.running import dead_port_entry, entry
from tests.fixtures.steps import a_call, a_step
from tests.proxy.observing.conftest import WITHIN_S, Observe, Samples

pytestmark = pytest.mark.anyio


async def call(client: Client, name: str, **arguments: Any) -> Any:
    with anyio.fail_after(WITHIN_S):
        return await client.call_tool(name, arguments)


async def test_each_outcome_of_a_call_is_counted_at_once(observe: Observe) -> None:
    servers = {
        "tools": {**entry("echo"), "tools": {"deny": ["delete_file"]}},
        "late": {**entry("echo"), "timeout_s": 2},
        "dead": dead_port_entry(),
    }
    async with observe(servers) as gateway, Client(gateway.app.server, mode="legacy") as client:
        for tool, arguments in (
            ("tools.add", {"a": 1, "b": 2}),
            ("tools.add", {"a": 2, "b": 2}),
            ("tools.fail", {}),
            ("late.silent_slow", {"seconds": 20}),
            ("tools.add", {"a": "one"}),
            ("tools.delete_file", {"path": "x"}),
        ):
            await call(client, "call_tool", tool=tool, arguments=arguments)
        await call(client, "search_tools", query="add numbers")
        found = await gateway.samples()

    def calls(server: str = "tools", **labels: str) -> float:
        return found.value("toolatlas_calls_total", server=server, mode="search", **labels)

    assert calls(tool="add", outcome="ok") == 2
    assert calls(tool="fail", outcome="tool_error") == 1
    assert calls("late", tool="silent_slow", outcome="timeout") == 1
    assert calls(tool="add", outcome="invalid_arguments") == 1
    assert found.value("toolatlas_call_duration_seconds_count", server="tools") == calls() == 4
    # In seconds: a call that got two of them is in none of the buckets below.
    assert found.value("toolatlas_call_duration_seconds_bucket", server="late", le="0.5") == 0
    assert found.value("toolatlas_call_duration_seconds_bucket", server="late", le="+Inf") == 1

    def steps(**labels: str) -> float:
        return found.value("toolatlas_steps_total", mode="search", **labels)

    assert steps(metatool="call_tool", outcome="ok") == 2
    assert steps(metatool="call_tool", outcome="denied") == 1
    assert steps(metatool="search_tools", outcome="ok") == 1
    assert found.value("toolatlas_step_duration_seconds_count", metatool="call_tool") == 6
    assert found.value("toolatlas_decisions_total", policy="lexical", degraded="") == 1
    assert found.value("toolatlas_decision_duration_seconds_count", policy="lexical") == 1


async def test_calls_of_code_are_counted_beside_the_run(observe: Observe) -> None:
    backend = EmbeddedBackend(limits_of(()))
    async with observe({"tools": entry("echo")}, backend=backend) as gateway:
        async with Client(gateway.app.server, mode="legacy") as client:
            await call(client, "run_python", code="print(tools.add(a=1, b=2))\ntools.fail()")
        found = await gateway.samples()
    assert found.value("toolatlas_calls_total", server="tools", tool="add", mode="code", outcome="ok") == 1
    assert found.value("toolatlas_calls_total", tool="fail", mode="code", outcome="tool_error") == 1
    assert found.value("toolatlas_steps_total", mode="search", metatool="run_python") == 1
    assert found.value("toolatlas_steps_total", mode="code", metatool="") == 2


@pytest.mark.parametrize("mode", ["direct", "server"])
async def test_calls_in_the_pass_through_modes_are_counted_by_server_and_tool(observe: Observe, mode: str) -> None:
    path, name = ("/mcp?mode=direct", "tools__add") if mode == "direct" else ("/mcp/tools", "add")
    async with observe({"tools": entry("echo")}) as gateway:
        async with raw_agent(gateway.app.http, path, LEGACY) as agent:
            assert (await agent.call(name, {"a": 1, "b": 2})).result["content"][0]["text"] == "3"
            await agent.call("an_invention", {})
        found = await gateway.samples()
    assert found.value("toolatlas_calls_total", server="tools", tool="add", mode=mode, outcome="ok") == 1
    assert found.value("toolatlas_steps_total", mode=mode, metatool="") == 2
    assert "an_invention" not in found.text


async def test_a_tool_that_is_not_logged_is_counted_without_its_name(observe: Observe) -> None:
    servers = {"tools": {**entry("echo"), "log": {"*": "full", "ec*": "off"}}}
    async with observe(servers) as gateway:
        async with raw_agent(gateway.app.http, "/mcp/tools", LEGACY) as agent:
            await agent.call("echo", {"text": "a secret"})
            await agent.call("add", {"a": 1, "b": 2})
        found = await gateway.samples()
    assert found.value("toolatlas_calls_total", server="tools", tool="", mode="server", outcome="ok") == 1
    assert found.value("toolatlas_calls_total", server="tools", tool="add", mode="server", outcome="ok") == 1
    assert found.value("toolatlas_steps_total", mode="server", outcome="ok") == 2
    assert "echo" not in found.text


async def test_with_the_log_off_everything_is_counted_and_no_tool_named(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}, log=Level.OFF) as gateway:
        async with Client(gateway.app.server, mode="legacy") as client:
            await call(client, "search_tools", query="add")
            await call(client, "call_tool", tool="tools.add", arguments={"a": 1, "b": 2})
        found = await gateway.samples()
    assert found.value("toolatlas_calls_total", server="tools", tool="", mode="search", outcome="ok") == 1
    assert found.value("toolatlas_steps_total", metatool="call_tool", outcome="ok") == 1
    assert found.value("toolatlas_decisions_total", policy="lexical") == 1
    assert found.labels("toolatlas_calls_total", "tool") == {""}


async def test_what_an_agent_makes_up_becomes_no_label(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}) as gateway:
        async with Client(gateway.app.server, mode="legacy") as client:
            for number in range(5):
                await call(client, f"made_up_{number}")
                await call(client, "call_tool", tool=f"made.up_{number}", arguments={})
        found = await gateway.samples()
    assert found.value("toolatlas_steps_total", metatool="unknown", outcome="invalid_arguments") == 5
    assert "made" not in found.text


async def test_the_state_of_the_gateway_is_read_at_the_scrape(observe: Observe) -> None:
    servers = {"tools": entry("echo"), "off": {**entry("echo"), "enabled": False}}
    async with observe(servers) as gateway, Client(gateway.app.server, mode="legacy") as client:
        before = await gateway.samples()
        await call(client, "search_tools", query="add")
        during = await gateway.samples()
        await call(client, "finish_task", outcome="done")
        after = await gateway.samples()
    assert during.value("toolatlas_tools") == len(gateway.app.gateway.catalog.tools) > 0
    assert [found.value("toolatlas_tasks") for found in (before, during, after)] == [0, 1, 0]
    phases = {phase: during.value("toolatlas_servers", phase=phase) for phase in ("ready", "disabled", "down")}
    assert phases == {"ready": 1, "disabled": 1, "down": 0}
    assert after.value("toolatlas_episodes_total", reason="finished") == 1
    assert during.value("toolatlas_build_info", replica="0") == 1
    assert during.value("process_resident_memory_bytes") > 1_000_000
    assert "toolatlas_log_" not in during.text


async def test_how_far_the_log_is_can_be_seen(observe: Observe, tmp_path: Path) -> None:
    async with observe({"tools": entry("echo")}, database=f"sqlite:///{tmp_path / 'log.db'}") as gateway:
        logbook = gateway.app.logbook
        assert logbook is not None
        async with Client(gateway.app.server, mode="legacy") as client:
            await call(client, "call_tool", tool="tools.add", arguments={"a": 1, "b": 2})
            await call(client, "call_tool", tool="tools.add", arguments={"a": 2, "b": 2})
            assert await logbook.recorder.flushed(WITHIN_S)
        found = await gateway.samples()
    for name in ("assigned", "acknowledged", "shipped"):
        assert found.value(f"toolatlas_log_{name}_total") == 2, name
    assert found.value("toolatlas_log_dropped_total") == 0
    assert found.value("toolatlas_log_problem") == 0
    assert "toolatlas_log_waiting_bytes" in found.text


@pytest.mark.parametrize("logged", [True, False])
async def test_where_agents_need_a_token_metrics_need_one_of_scope_view_or_admin(
    observe: Observe, tmp_path: Path, logged: bool
) -> None:
    tokens = TokenStore(tmp_path / "state" / "tokens.json")
    secrets = {scope: tokens.create(scope.value, None, [scope]) for scope in Scope}
    database = f"sqlite:///{tmp_path / 'log.db'}" if logged else None
    async with observe({}, host="0.0.0.0", database=database) as gateway, gateway.client() as http:
        answers = {
            scope: await http.get("/metrics", headers={"authorization": f"Bearer {secret}"})
            for scope, secret in secrets.items()
        }
        without, wrong = await http.get("/metrics"), await http.get("/metrics", headers={"authorization": "Bearer x"})
    assert {scope.value: answer.status_code for scope, answer in answers.items()} == {
        "agent": 403,
        "view": 200,
        "label": 403,
        "admin": 200,
    }
    assert (without.status_code, wrong.status_code) == (401, 401)
    assert [answer for answer in (without, wrong, answers[Scope.AGENT]) if "toolatlas_" in answer.text] == []


async def test_on_loopback_without_tokens_metrics_are_open_but_not_to_a_page_of_another_site(observe: Observe) -> None:
    async with observe({}) as gateway, gateway.client() as http:
        assert (await http.get("/metrics")).status_code == 200
        assert (await http.get("/metrics", headers={"host": "evil.example"})).status_code == 421
        assert (await http.post("/metrics")).status_code == 405


async def test_a_scraper_gets_the_format_that_it_asks_for(observe: Observe) -> None:
    async with observe({}) as gateway, gateway.client() as http:
        plain = await http.get("/metrics", headers={"accept": "text/plain"})
        newer = await http.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert newer.headers["content-type"].startswith("application/openmetrics-text")
    assert newer.text.endswith("# EOF\n")


def test_only_so_many_tools_are_counted_by_name() -> None:
    registry = CollectorRegistry()
    recorder = MetricsRecorder(registry, {"call_tool"}, max_tools=2)
    for tool in ("a", "b", "c", "d", "a"):
        recorder.record(a_step(call=a_call(server="tools", tool=tool), outcome=Outcome.OK))
    found = Samples(generate_latest(registry).decode())
    assert {tool: found.value("toolatlas_calls_total", tool=tool) for tool in ("a", "b", OTHER)} == {
        "a": 2,
        "b": 1,
        OTHER: 2,
    }
    assert found.labels("toolatlas_calls_total", "tool") == {"a", "b", OTHER}


async def test_two_gateways_in_one_process_count_apart(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}) as one, observe({"tools": entry("echo")}) as other:
        async with Client(one.app.server, mode="legacy") as client:
            await call(client, "list_servers")
        assert (await one.samples()).value("toolatlas_steps_total") == 1
        assert (await other.samples()).value("toolatlas_steps_total") == 0


async def test_the_documentation_names_every_metric_with_its_labels_and_no_other(
    observe: Observe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A router that is never there: searches are degraded, and that is counted.
    monkeypatch.setattr(composition, "missing_package", lambda name: None)
    monkeypatch.setattr(composition, "worker_command", lambda name, cache, *_: ["/no/such/program"])
    text = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(toolatlas_\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    log = f"sqlite:///{tmp_path / 'log.db'}"
    async with observe({"tools": entry("echo")}, database=log, router="fused") as gateway:
        async with Client(gateway.app.server, mode="legacy") as client:
            await call(client, "search_tools", query="add")
            await call(client, "call_tool", tool="tools.add", arguments={"a": 1, "b": 2})
            await call(client, "finish_task", outcome="done")
        found = await gateway.samples()
    told: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(found.text):
        if family.name.startswith("toolatlas_") and not family.name.endswith("_created"):
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            kind = "info" if family.name.endswith("_info") else family.type
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            told[family.name + suffix] = (kind, labels)
    assert told == documented
    alerts = text[text.index("## Alerts") : text.index("## Traces")]
    for name in re.findall(r"toolatlas_\w+", alerts):
        assert name.removesuffix("_bucket") in documented


async def test_of_what_is_not_logged_an_observer_learns_no_contents(observe: Observe) -> None:
    kept: list[Step] = []

    class Keeping:
        def record(self, step: Step) -> None:
            kept.append(step)

        def end(self, ending: Ending) -> None:
            pass

    async with observe({"tools": entry("echo")}, log=Level.OFF) as gateway:
        gateway.app.service.steps.observers.append(Keeping())
        async with Client(gateway.app.server, mode="legacy") as client:
            await call(client, "search_tools", query="hunter2", task="hunter2")
            await call(client, "call_tool", tool="tools.echo", arguments={"text": "hunter2"})
            await call(client, "call_tool", tool="tools.hunter2", arguments={})
    assert [(step.name, step.outcome) for step in kept] == [
        ("search_tools", Outcome.OK),
        ("call_tool", Outcome.OK),
        ("call_tool", Outcome.INVALID_ARGUMENTS),
    ]
    assert kept[1].server == "tools"
    assert "hunter2" not in str(kept)
    assert "echo" not in str(kept)
