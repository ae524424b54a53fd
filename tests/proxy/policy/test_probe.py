"""The probe: a competent model passes, one that misses anything of it does not, and what was found is kept."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.responses import Response

from proxy.commands.probing import probed, toy_gateway
from proxy.policy.probe import TASKS, Probed, keep, may_be_offered, probe
from tests.fixtures.openai_server import Asked, openai_server
from tests.proxy.policy.scripted import LIMIT_S, Turn, doing, done, model_of, observations, saying, settings_of

pytestmark = pytest.mark.anyio


def call(tool: str, **arguments: Any) -> Turn:
    return "call_tool", {"tool": f"office.{tool}", "arguments": arguments}


PLANS: dict[str, list[Turn]] = {
    TASKS[0].text: [
        ("search_tools", {"query": "units of an article"}),
        ("describe_tools", {"tools": ["office.count_units"]}),
        call("count_units", article="KX-417", warehouse="Lund"),
    ],
    TASKS[1].text: [
        ("list_tools", {"server": "office"}),
        call("book_room", room="Aurora", date="2031-03-14", people=6),
    ],
    TASKS[2].text: [
        ("search_tools", {"query": "employee manager telephone extension"}),
        call("find_employee", name="Ines Falk"),
        call("get_extension", employee="E-1040"),
    ],
}
ANSWER = re.compile(r'"units": (\d+)|code: (\S+)|"extension": "(\d+)"')


def competent(asked: Asked) -> Response:
    plan, seen = PLANS[asked.user], observations(asked)
    if len(seen) < len(plan):
        return doing(plan[len(seen)])
    answer = ANSWER.search("\n".join(seen))
    return doing(done(f"It is {next(filter(None, answer.groups()))}." if answer else "?"))


def but(change: Callable[[Asked, str, dict[str, Any]], Response | None]) -> Callable[[Asked], Response]:
    """Competent, but for actions of which `change` makes something else."""

    def answer(asked: Asked) -> Response:
        given = competent(asked)
        function = json.loads(bytes(given.body))["choices"][0]["message"]["tool_calls"][0]["function"]
        return change(asked, function["name"], json.loads(function["arguments"])) or given

    return answer


async def run(answering: Callable[[Asked], Response]) -> Probed:
    async with model_of(answering) as (model, _):
        return await probe(model, toy_gateway)


async def test_a_model_that_finds_calls_and_finishes_passes() -> None:
    result = await run(competent)
    assert [each.lacks for each in result.tried] == ["", "", ""]
    assert result.passed
    assert [each.found for each in result.tried] == [True] * 3
    assert [each.described for each in result.tried] == [True, False, False]


async def test_a_model_that_writes_its_actions_as_text_passes_too() -> None:
    def answering(asked: Asked) -> Response:
        # Without tool calls what it is answered comes from the user.
        said = [each for each in asked.body["messages"][2:] if each["role"] in ("user", "tool")]
        seen = [each["content"] for each in said]
        body = {
            **asked.body,
            "messages": [*asked.body["messages"][:2], *({"role": "tool", "content": x} for x in seen)],
        }
        given = competent(Asked(body, asked.headers, asked.place))
        function = json.loads(bytes(given.body))["choices"][0]["message"]["tool_calls"][0]["function"]
        return saying(f"{function['name']} {function['arguments']}")

    assert (await run(answering)).passed


FAILING: dict[str, tuple[Callable[[Asked, str, dict[str, Any]], Response | None], str]] = {
    "talks": (lambda asked, name, arguments: saying("I would search for tools first."), "no tool was found"),
    "guesses": (lambda asked, name, arguments: doing(done("It is 42.")), "no right call, no right answer"),
    "wrong value": (
        lambda asked, name, arguments: (
            doing((name, json.loads(json.dumps(arguments).replace("417", "418")))) if name == "call_tool" else None
        ),
        "no right call",
    ),
    "never finishes": (
        lambda asked, name, arguments: doing(("list_servers", {})) if name == "finish_task" else None,
        "no right answer, not finished",
    ),
    "gives up": (
        lambda asked, name, arguments: (
            doing((name, {**arguments, "outcome": "failed"})) if name == "finish_task" else None
        ),
        "not finished",
    ),
    "cannot write JSON": (
        lambda asked, name, arguments: (
            saying(None, tool_calls=[{"id": "1", "function": {"name": name, "arguments": "{'tool': "}}])
        ),
        "malformed actions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", FAILING)
async def test_a_model_that_misses_anything_does_not_pass(how: str) -> None:
    change, lacks = FAILING[how]
    result = await run(but(change))
    assert not result.passed
    assert lacks in result.tried[0].lacks


async def test_what_was_found_is_kept_for_that_model_and_for_these_tasks(tmp_path: Path) -> None:
    assert not may_be_offered(tmp_path, "scripted at x")
    async with openai_server(competent) as served:
        settings = settings_of(served)
        keep(tmp_path, await probed(settings))
    assert may_be_offered(tmp_path, settings.identity)
    assert not may_be_offered(tmp_path, "scripted at elsewhere")
    path = tmp_path / "agent-probe.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text("utf-8").replace('"revision": 1', '"revision": 0'), "utf-8")
    assert not may_be_offered(tmp_path, settings.identity)
    path.write_text("{broken", "utf-8")
    assert not may_be_offered(tmp_path, settings.identity)


async def test_a_model_that_passed_once_and_fails_now_is_not_offered_any_more(tmp_path: Path) -> None:
    keep(tmp_path, Probed(model="m", at="2026", passed=True, tried=()))
    keep(tmp_path, Probed(model="other", at="2026", passed=True, tried=()))
    keep(tmp_path, Probed(model="m", at="2026", passed=False, tried=()))
    assert not may_be_offered(tmp_path, "m")
    assert may_be_offered(tmp_path, "other")


@pytest.mark.parametrize("capable", [True, False])
async def test_the_doctor_says_what_it_found_and_keeps_it(tmp_path: Path, capable: bool) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}', "utf-8")
    answering = competent if capable else but(lambda asked, name, arguments: saying("I would search first."))
    async with openai_server(answering) as served:
        own = {
            "TOOLATLAS_STATE_DIR": str(tmp_path / "state"),
            "TOOLATLAS_CACHE_DIR": str(tmp_path / "cache"),
            "TOOLATLAS_AGENT_URL": served.url,
            "TOOLATLAS_AGENT_MODEL": "scripted",
        }
        doctor = [sys.executable, "-m", "proxy.cli", "doctor", "--json", "--config", str(tmp_path / "mcp.json")]
        with anyio.fail_after(LIMIT_S):
            done = await anyio.run_process(doctor, check=False, env={**os.environ, **own})
    found = {each["what"]: each for each in json.loads(done.stdout)}
    identity = f"scripted at {served.url}"
    finding = found[f"agent {identity}"]
    assert finding["ok"] is capable
    assert may_be_offered(tmp_path / "state", identity) is capable
    if capable:
        assert finding["detail"] == "it worked all 3 probe tasks, so delegate_task is offered"
    else:
        assert done.returncode == 1
        assert "it worked 0 of 3 probe tasks (task 1: no tool was found, no right call" in finding["detail"]
        assert finding["advice"].startswith("delegate_task is not offered")
