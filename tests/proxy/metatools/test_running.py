"""run_python from the agent's side: variables that stay, runs that wait, end or are cancelled, and what is recorded."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.errors import ConfigurationError, SandboxBusy
from proxy.metatools.interpreters import MAX_WAITING
from proxy.sandbox.base import Limits, RunResult
from proxy.sandbox.limits import limits_of
from proxy.store.recorder import Outcome
from tests.fixtures.running import Restartable, entry
from tests.fixtures.threads import ThreadInterpreter
from tests.proxy.metatools.conftest import Coding, Ran, StartCoding, run

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
SLOW = "tools.slow(seconds=600)"
LIMIT_S = 20.0


async def until(done: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT_S):
        while not done():
            await anyio.sleep(0.01)


async def called(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


@ERAS
async def test_the_next_run_has_the_variables_of_the_first(start_coding: StartCoding, era: str) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode=era) as client:
        first = await run(client, "def twice(n):\n    return 2 * n\nnumbers = [twice(n) for n in (1, 2)]")
        again = await run(client, "numbers.append(twice(21))\nnumbers", **first.task)
        assert again.rest == "Value:\n[2, 4, 42]"
        assert again.status.endswith("; variables kept]")
        assert [len(opened) for opened in coding.backend.opened.values()] == [1]


async def test_variables_stay_after_an_error_and_after_a_time_limit(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        failed = await run(client, "x = 1\n1 / 0")
        assert failed.failed
        assert failed.rest.endswith("ZeroDivisionError: division by zero")
        stopped = await run(client, f"x += 1\nprint('before')\n{SLOW}", timeout_s=0.3)
        assert stopped.failed
        assert stopped.status.startswith("[stopped after 0.3 s, its time limit; 1 tool call; variables kept")
        assert stopped.rest.startswith("Output:\nbefore\nDo less in one run, or give timeout_s, at most 300")
        assert (await run(client, "x")).rest == "Value:\n2"
        assert [step.outcome for step in coding.runs] == [Outcome.TOOL_ERROR, Outcome.TIMEOUT, Outcome.OK]
        # The call that outlived its run was cancelled at the server.
        assert [step.outcome for step in coding.calls] == [Outcome.CANCELLED]
        assert await called(client, "call_tool", tool="tools.cancellations") == "1"


async def test_reset_forgets_the_variables(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        await run(client, "x = 1")
        assert "NameError: name 'x' is not defined" in (await run(client, "x", reset=True)).rest


@ERAS
async def test_tasks_have_variables_of_their_own(start_coding: StartCoding, era: str) -> None:
    async with start_coding({"tools": entry("echo")}) as coding:
        async with Client(coding.app.server, mode=era) as one, Client(coding.app.server, mode=era) as other:
            first = await run(one, "secret = 7")
            assert "NameError" in (await run(other, "secret")).rest
            assert (await run(one, "secret", **first.task)).rest == "Value:\n7"


async def finish(client: Client, coding: Coding) -> None:
    await called(client, "finish_task", outcome="done")


async def leave(client: Client, coding: Coding) -> None:
    await client.__aexit__(None, None, None)


async def be_forgotten(client: Client, coding: Coding) -> None:
    (task_id,) = coding.backend.opened
    assert coding.app.interpreters is not None
    coding.app.interpreters.drop(task_id)


@pytest.mark.parametrize("end", [finish, leave, be_forgotten])
async def test_an_interpreter_ends_with_its_task(
    start_coding: StartCoding, end: Callable[[Client, Coding], Awaitable[None]]
) -> None:
    async with start_coding({"tools": entry("echo")}) as coding:
        client = await Client(coding.app.server, mode="legacy").__aenter__()
        try:
            await run(client, "x = 1")
            ((interpreter,),) = coding.backend.opened.values()
            assert not interpreter.closed
            await end(client, coding)
            await until(lambda: interpreter.closed)
            if end is not leave:
                assert "NameError" in (await run(client, "x")).rest
        finally:
            if end is not leave:
                await client.__aexit__(None, None, None)


async def test_interpreters_end_with_the_gateway(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding:
        async with Client(coding.app.server) as client:
            await run(client, "x = 1")
            ((interpreter,),) = coding.backend.opened.values()
            assert not interpreter.closed
    assert interpreter.closed


async def test_runs_of_one_task_come_one_after_the_other(start_coding: StartCoding) -> None:
    """Some clients send several calls at once. They run in order, up to a number that can wait."""
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        await run(client, "import threading\ngate = threading.Event()\norder = []")
        ((interpreter,),) = coding.backend.opened.values()
        answers: list[Ran] = []

        async def one(number: int) -> None:
            answers.append(await run(client, f"order.append({number})\ngate.wait(20)\norder.append({number})"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, 0)
            await until(lambda: interpreter.variables["order"] == [0])
            for number in range(1, MAX_WAITING + 2):
                tasks.start_soon(one, number)
            await until(lambda: bool(answers))
            interpreter.variables["gate"].set()
        assert answers[0].failed
        assert f"{MAX_WAITING} runs of this task wait already" in answers[0].status
        assert coding.runs[1].outcome is Outcome.SERVER_DOWN
        assert not any(answer.failed for answer in answers[1:])
        order = interpreter.variables["order"]
        assert order[::2] == order[1::2]
        assert len(set(order)) == MAX_WAITING + 1


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_cancelled_run_cancels_its_calls_at_the_server_and_keeps_its_variables(
    start_coding: StartCoding, kind: str
) -> None:
    """Each server obeys a cancellation only under the id that the request had for it."""
    async with Restartable() as remote:
        servers = {"tools": entry("echo") if kind == "stdio" else remote.entry}
        async with start_coding(servers) as coding, Client(coding.app.server, mode="legacy") as client:
            await run(client, "x = 1\ntools.counter()")
            code = "x = 2\nparallel(lambda n: tools.slow(seconds=600), range(2))"
            begun: list[str] = []
            cancelled = anyio.CancelScope()

            async def note(progress: float, total: float | None, message: str | None) -> None:
                begun.append(message or "")

            async def doomed() -> None:
                with cancelled:
                    await client.call_tool("run_python", {"code": code}, progress_callback=note)
                    raise AssertionError("it was not cancelled")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(doomed)
                await until(lambda: begun.count("tools.slow: step 1") == 2)
                cancelled.cancel()
            await until(lambda: len(coding.runs) == 2)
            assert coding.runs[-1].outcome is Outcome.CANCELLED
            assert [step.outcome for step in coding.calls] == [Outcome.OK, Outcome.CANCELLED, Outcome.CANCELLED]
            assert {step.parent for step in coding.calls[1:]} == {coding.runs[-1].id}
            with anyio.fail_after(LIMIT_S):
                while await called(client, "call_tool", tool="tools.cancellations") != "2":
                    await anyio.sleep(0.01)
            # The same connection and the same interpreter go on.
            assert (await run(client, "[x, tools.counter()]")).rest == 'Value:\n[2, "2"]'


async def test_a_run_whose_task_ends_is_stopped(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        ran: list[Ran] = []

        async def doomed() -> None:
            ran.append(await run(client, f"begun = True\n{SLOW}"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(doomed)
            await until(lambda: any("begun" in opened[0].variables for opened in coding.backend.opened.values()))
            await called(client, "finish_task", outcome="abandoned")
        assert ran[0].failed
        assert "the task ended before the code was done" in ran[0].status
        ((interpreter,),) = coding.backend.opened.values()
        await until(lambda: interpreter.closed)


async def test_an_interpreter_that_fails_is_replaced_and_the_loss_is_said(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        await run(client, "x = 1")
        ((interpreter,),) = coding.backend.opened.values()
        interpreter.broken = True
        failed = await run(client, "x")
        assert failed.failed
        assert failed.status == "the test has broken the interpreter. The variables of the task are gone"
        assert coding.runs[-1].outcome is Outcome.SERVER_DOWN
        assert interpreter.closed
        assert "NameError" in (await run(client, "x")).rest


async def test_an_interpreter_that_is_only_busy_keeps_its_variables(
    start_coding: StartCoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_: object) -> RunResult:
        raise SandboxBusy("all 1 interpreters are busy; try again in a moment")

    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        await run(client, "x = 1")
        with monkeypatch.context() as patched:
            patched.setattr(ThreadInterpreter, "run", busy)
            assert (await run(client, "x")).status == "all 1 interpreters are busy; try again in a moment"
        assert (await run(client, "x")).rest == "Value:\n1"


async def test_what_was_too_long_to_show_can_be_read_on(start_coding: StartCoding) -> None:
    code = "for n in range(5000):\n    print('line', n)\nlist(range(3000))"
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        ran = await run(client, code)
        output, value = re.findall(r'read_result\(id="(\w+)"', ran.status)
        assert "line 2500\n" not in ran.rest
        assert ran.rest.startswith("Output:\nline 0\n")
        assert "line 4999\nValue:\n[0, 1," in ran.rest
        assert "line 2500" in await called(client, "read_result", id=output, find="line 2500")
        assert "2998, 2999]" in await called(client, "read_result", id=value, offset=10_000)


@pytest.mark.parametrize("limit", [2_000, 10_000])
async def test_a_report_is_never_cut_again(start_coding: StartCoding, limit: int) -> None:
    code = "print('漢字\\n' * 20_000)\n'é' * 20_000"
    async with start_coding({"tools": entry("echo")}, result_limit=limit) as coding:
        async with Client(coding.app.server, mode="legacy") as client:
            ran = await run(client, code)
    assert ran.status.startswith("[ok in ")
    assert "[toolatlas:" not in ran.rest
    assert len(ran.rest.encode()) < limit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"code": "1", "timeout_s": 301}, "timeout_s: more than 0, at most 300 seconds, not 301"),
        ({"code": "1", "timeout_s": 0}, "timeout_s: more than 0"),
        ({"code": "x = '" + "x" * 100_000 + "'"}, "code: 100,006 bytes, at most 100,000"),
        ({}, "code: required"),
        ({"code": "1", "time_out": 3}, "did you mean 'timeout_s'"),
    ],
)
async def test_arguments_that_cannot_be_meant_are_explained(
    start_coding: StartCoding, arguments: dict[str, Any], said: str
) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server) as client:
        assert said in await called(client, "run_python", **arguments)
        assert coding.runs[-1].outcome is Outcome.INVALID_ARGUMENTS
        assert not coding.backend.opened


@pytest.mark.parametrize("fence", ["```python\n{}\n```", "```\n{}\n```\n", "\n```py\n{}```"])
async def test_fenced_code_is_understood(start_coding: StartCoding, fence: str) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server) as client:
        assert (await run(client, fence.format("x = 6\nx * 7"))).rest == "Value:\n42"


async def test_a_misspelled_server_is_answered_with_the_nearest(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server) as client:
        ran = await run(client, "tolls.add(a=1, b=2)")
    assert ran.rest.endswith("NameError: name 'tolls' is not defined\nDid you mean tools?")
    assert 'File "<run>", line 1' in ran.rest
    assert "    tolls.add(a=1, b=2)\n" in ran.rest


async def test_a_result_used_as_what_it_is_not_is_answered_with_what_it_is(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        ran = await run(client, "who = tools.whoami()\nwho.pid")
        assert "AttributeError: 'dict' object has no attribute 'pid'\ntools.whoami returns " in ran.rest
        assert 'a dict, so ["pid"] and not .pid' in ran.rest
        text = await run(client, "tools.echo(text='a')['b']")
        assert text.rest.rpartition("\n")[2].startswith("tools.echo returns str")
        # What was learned is told before the next call.
        for described in (
            (await run(client, "print(describe('tools.whoami'))")).rest,
            await called(client, "describe_tools", tools=["tools.whoami"]),
        ):
            assert "learned from results" in described
            assert "pid" in described


async def test_nothing_is_learned_of_what_is_said_to_one_agent(start_coding: StartCoding) -> None:
    servers = {"all": entry("unknown_fields"), "own": {**entry("unknown_fields", OWN="1"), "isolation": "session"}}
    async with start_coding(servers) as coding, Client(coding.app.server, mode="legacy") as client:
        await run(client, "all.mirror(value=[1, 2]), own.mirror(value=[1, 2])")
        assert "learned from results" in await called(client, "describe_tools", tools=["all.mirror"])
        assert "learned from results" not in await called(client, "describe_tools", tools=["own.mirror"])


async def test_what_call_tool_answers_is_learned_as_well(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        assert "learned" not in await called(client, "describe_tools", tools=["tools.whoami"])
        await called(client, "call_tool", tool="tools.whoami", arguments={})
        await called(client, "call_tool", tool="tools.fail", arguments={})
        assert "learned from results" in await called(client, "describe_tools", tools=["tools.whoami"])
        assert "learned" not in await called(client, "describe_tools", tools=["tools.fail"])


async def test_the_definition_says_what_the_language_cannot_do(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}, language="No classes.") as coding:
        async with Client(coding.app.server) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert (tools["run_python"].description or "").endswith(" No classes.")
            assert tools["run_python"].annotations is not None
            assert tools["run_python"].annotations.destructive_hint is True
            assert "task_id" in tools["run_python"].input_schema["properties"]
            assert "run_python" in (client.instructions or "")


async def test_without_a_sandbox_there_is_no_such_tool(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}, off=True) as coding, Client(coding.app.server) as client:
        assert "run_python" not in {tool.name for tool in (await client.list_tools()).tools}
        assert "run_python" not in (client.instructions or "")
        assert "no tool 'run_python'" in await called(client, "run_python", code="1")


def test_limits_are_set_by_name() -> None:
    limits = limits_of(["memory_bytes=1.5g", "run_s=0.5", "calls=7", "warm=0"])
    assert limits == Limits(memory_bytes=3 * 512 * 1024**2, run_s=0.5, calls=7, warm=0)
    assert limits_of([]) == Limits()


def test_every_limit_is_documented_with_its_default() -> None:
    text = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
    section = text.partition("## Limits of agents' code")[2].partition("\n## ")[0]
    documented: dict[str, str] = {}
    for names, _, defaults in re.findall(r"^\| (`.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE):
        documented |= dict(zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True))
    assert limits_of([f"{name}={default}" for name, default in documented.items()]) == Limits()
    assert documented.keys() == {each.name for each in fields(Limits)}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("memory=1g", "no limit of the sandbox is called 'memory'; did you mean memory_bytes?"),
        ("zzz=1", "there are run_s, max_run_s"),
        ("calls=many", "calls is a whole number above 0, such as 100, not 'many'"),
        ("calls=0", "above 0"),
        ("calls=1.5", "a whole number"),
        ("calls", "not ''"),
        ("run_s=-1", "not '-1'"),
        ("run_s=nan", "not 'nan'"),
        ("run_s=301", "run_s (301) is more than max_run_s (300)"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(setting: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        limits_of([setting])
    assert said in str(refused.value)
