"""The gateway as clients see it that nobody here wrote, each in a process of its own, at a pinned version.

Below: the gateway in front of the conformance server, and the programs of `clients/`, which take the steps that they
are given and tell what came of each. The MCP Inspector takes one step a start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from tests.fixtures import node
from tests.fixtures.served import NAME, Served, served

HERE = Path(__file__).parent / "clients"
PYTHON_SDK_1 = "mcp==1.30.0"
RUN_S = 180.0
"""On a new machine the client is downloaded first."""

Step = tuple[str, dict[str, Any]]
INITIALIZE_ERA, MODERN_ERA = "2025-11-25", "2026-07-28"

pytestmark = [pytest.mark.published, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Program:
    """A client: how it is started, without the address, and the version of the protocol that it settles on."""

    name: str
    command: tuple[str, ...]
    protocol: str
    options: tuple[str, ...] = ()


PROGRAMS = (
    Program("typescript_sdk_1", (str(node.NODE), str(HERE / "typescript_sdk_1.cjs")), INITIALIZE_ERA),
    Program("typescript_client_2", (str(node.NODE), str(HERE / "typescript_client_2.cjs")), INITIALIZE_ERA),
    Program("typescript_client_2_auto", (str(node.NODE), str(HERE / "typescript_client_2.cjs")), MODERN_ERA, ("auto",)),
    Program(
        "python_sdk_1",
        (
            *(find_uv_bin(), "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable),
            *("--with", PYTHON_SDK_1, "python", str(HERE / "python_sdk_1.py")),
        ),
        INITIALIZE_ERA,
    ),
)


@dataclass(frozen=True)
class Surface:
    """One of the gateway's addresses, and what the conformance server has is called there."""

    name: str
    address: Callable[[Served], str]
    call: Callable[[str, dict[str, Any]], Step]
    shows: frozenset[str]
    """Some of the tools listed there."""
    resource: str
    prompt: str


SURFACES = (
    Surface(
        "server",
        lambda both: both.passed_through,
        lambda tool, arguments: ("callTool", {"name": tool, "arguments": arguments}),
        frozenset({"test_simple_text", "test_elicitation"}),
        resource="test://static-text",
        prompt="test_prompt_with_arguments",
    ),
    Surface(
        "direct",
        lambda both: both.direct,
        lambda tool, arguments: ("callTool", {"name": f"{NAME}__{tool}", "arguments": arguments}),
        frozenset({f"{NAME}__test_simple_text", "plain__echo"}),
        resource=f"toolatlas://{NAME}/test://static-text",
        prompt=f"{NAME}__test_prompt_with_arguments",
    ),
    Surface(
        "search",
        lambda both: both.gateway,
        lambda tool, arguments: (
            "callTool",
            {"name": "call_tool", "arguments": {"tool": f"{NAME}.{tool}", "arguments": arguments}},
        ),
        frozenset({"search_tools", "call_tool"}),
        resource=f"toolatlas://{NAME}/test://static-text",
        prompt=f"{NAME}__test_prompt_with_arguments",
    ),
)
QUESTION = "Who are you?"


@dataclass(frozen=True)
class Told:
    """What a client told of its session: the version, the questions that it was asked, and each step by its name."""

    protocol: str
    asked: list[str]
    steps: Mapping[str, dict[str, Any]]

    def result(self, name: str) -> dict[str, Any]:
        assert "result" in self.steps[name], self.steps[name]
        return self.steps[name]["result"]

    def text(self, name: str) -> str:
        result = self.result(name)
        assert not result.get("isError"), result
        return "\n".join(item.get("text", "") for item in result["content"])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module")
def packages() -> Path:
    return node.installed(HERE / "package.json") / "node_modules"


@pytest.fixture(scope="module", params=SURFACES, ids=lambda surface: surface.name)
def surface(request: pytest.FixtureRequest) -> Surface:
    return request.param


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    return request.param


@pytest.fixture(scope="module")
def told(both: Served, packages: Path, surface: Surface, program: Program) -> Told:
    """A whole session of one client at one address."""
    return _session(program, surface.address(both), packages, _steps(surface))


def test_it_connects_in_its_era(told: Told, program: Program) -> None:
    assert told.protocol == program.protocol


def test_it_lists_tools(told: Told, surface: Surface) -> None:
    assert {tool["name"] for tool in told.result("tools")["tools"]} >= surface.shows


def test_it_calls_a_tool(told: Told) -> None:
    assert "This is a simple text response for testing." in told.text("text")


def test_it_sees_the_progress_of_a_call(told: Told) -> None:
    assert told.text("progress")
    assert told.steps["progress"]["progress"] == [0, 50, 100]


def test_its_user_is_asked(told: Told) -> None:
    assert "ada@example.com" in told.text("user")
    assert any(QUESTION in question for question in told.asked)


def test_its_model_is_asked(told: Told) -> None:
    assert "sampled" in told.text("model")


def test_it_is_asked_for_its_roots(told: Told) -> None:
    assert "file:///work/here" in told.text("roots")


def test_it_reads_a_resource(told: Told, surface: Surface) -> None:
    assert surface.resource in [resource["uri"] for resource in told.result("resources")["resources"]]
    assert told.result("resource")["contents"][0]["text"] == "This is the content of the static text resource."


def test_it_gets_a_prompt(told: Told, surface: Surface) -> None:
    assert surface.prompt in [prompt["name"] for prompt in told.result("prompts")["prompts"]]
    message = told.result("prompt")["messages"][0]["content"]["text"]
    assert message == "Prompt with arguments: arg1='first', arg2='second'"


def test_a_client_of_the_modern_era_is_asked_by_a_server_of_the_one_before(packages: Path, tmp_path: Path) -> None:
    program = next(program for program in PROGRAMS if program.protocol == MODERN_ERA)
    with served(tmp_path, legacy_only=True) as bridged:
        told = _session(program, bridged.passed_through, packages, _steps(SURFACES[0]))
    assert told.protocol == MODERN_ERA
    assert "ada@example.com" in told.text("user")
    assert "sampled" in told.text("model")
    assert "file:///work/here" in told.text("roots")


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_inspector_sees_the_same(both: Served, packages: Path, surface: Surface, era: str, tmp_path: Path) -> None:
    def inspect(method: str, *options: str) -> dict[str, Any]:
        program = packages / "@modelcontextprotocol" / "inspector" / "clients" / "cli" / "build" / "index.js"
        target = (surface.address(both), "--transport", "http", "--protocol-era", era)
        command = (str(node.NODE), str(program), *target, "--format", "json", "--method", method, *options)
        # It keeps files in its user's home.
        return json.loads(_output(command, "", {**node.environment(), "HOME": str(tmp_path)}))["result"]

    def call(tool: str) -> str:
        _, step = surface.call(tool, {})
        result = inspect("tools/call", "--tool-name", step["name"], "--tool-args-json", json.dumps(step["arguments"]))
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    assert {tool["name"] for tool in inspect("tools/list")["tools"]} >= surface.shows
    assert call("test_simple_text") == "This is a simple text response for testing."
    assert call("test_tool_with_progress") == "Reported progress."
    assert surface.resource in [resource["uri"] for resource in inspect("resources/list")["resources"]]
    contents = inspect("resources/read", "--uri", surface.resource)["contents"]
    assert contents[0]["text"] == "This is the content of the static text resource."
    assert surface.prompt in [prompt["name"] for prompt in inspect("prompts/list")["prompts"]]
    messages = inspect("prompts/get", "--prompt-name", surface.prompt, "--prompt-args", "arg1=first", "arg2=second")
    assert "arg1='first', arg2='second'" in messages["messages"][0]["content"]["text"]


def _steps(surface: Surface) -> dict[str, Step]:
    return {
        "tools": ("listTools", {}),
        "text": surface.call("test_simple_text", {}),
        "progress": surface.call("test_tool_with_progress", {}),
        "user": surface.call("test_elicitation", {"message": QUESTION}),
        "model": surface.call("test_sampling", {"prompt": "Say something"}),
        "roots": surface.call("test_input_required_result_list_roots", {}),
        "resources": ("listResources", {}),
        "resource": ("readResource", {"uri": surface.resource}),
        "prompts": ("listPrompts", {}),
        "prompt": ("getPrompt", {"name": surface.prompt, "arguments": {"arg1": "first", "arg2": "second"}}),
    }


def _session(program: Program, address: str, packages: Path, steps: Mapping[str, Step]) -> Told:
    # NODE_PATH: the packages lie outside of the repository. VIRTUAL_ENV would lead uv to ours.
    environment = {**node.environment(), "NODE_PATH": str(packages)}
    environment.pop("VIRTUAL_ENV", None)
    command = (*program.command, address, *program.options)
    # A client may print notices of its own before.
    answer = json.loads(_output(command, json.dumps(list(steps.values())), environment).splitlines()[-1])
    return Told(answer["protocol"], answer["asked"], dict(zip(steps, answer["results"], strict=True)))


def _output(command: tuple[str, ...], given: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, input=given, env=dict(environment), capture_output=True, text=True, timeout=RUN_S, cwd=HERE
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-2000:]}"
    return done.stdout
