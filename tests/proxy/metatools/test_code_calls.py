"""Calls from code go the way of every other call: the same names, checks, permissions, questions and log."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.catalog.records import ToolRecord
from proxy.catalog.schema_reader import Reader
from proxy.catalog.shapes import Shapes
from proxy.metatools.attachments import Attachments
from proxy.metatools.base import Caller, Request
from proxy.metatools.calling import Answers
from proxy.metatools.code_calls import CodeCalls, Means, _takes_null, _without_nulls, origin_within
from proxy.metatools.steps import Steps
from proxy.sandbox.base import Limits, Reply, RunResult, Status
from proxy.servers.peer import ANSWER_WITHIN_S
from proxy.store.recorder import Level, Outcome
from proxy.tasks import Task
from tests.fixtures import plain
from tests.fixtures.origins import agent as origin
from tests.fixtures.running import Restartable, entry
from tests.fixtures.steps import an_episode
from tests.fixtures.threads import ThreadInterpreter
from tests.proxy.metatools.conftest import Coding, StartCoding, run

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
CAUGHT = "try:\n    print({})\nexcept ToolError as error:\n    print('caught', error)"


async def test_every_call_is_a_step_with_the_run_as_its_parent(start_coding: StartCoding) -> None:
    code = "tools.add(a=1, b=2)\n" + CAUGHT.format("tools.fail()") + "\n" + CAUGHT.format("tools.add(a='x')")
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        ran = await run(client, code)
    (whole,) = coding.runs
    assert "; 3 tool calls;" in ran.status
    assert [(step.parent, step.episode.id, step.episode.agent) for step in coding.calls] == [
        (whole.id, whole.episode.id, "local")
    ] * 3
    assert [(step.name, step.server, step.tool, step.outcome) for step in coding.calls] == [
        ("tools.add", "tools", "add", Outcome.OK),
        ("tools.fail", "tools", "fail", Outcome.TOOL_ERROR),
        ("tools.add", "tools", "add", Outcome.INVALID_ARGUMENTS),
    ]
    assert coding.calls[0].arguments == {"a": 1, "b": 2}
    assert coding.calls[0].result == {"content": [{"type": "text", "text": "3"}]}
    assert len({step.id for step in coding.steps.all}) == 4
    assert (whole.parent, whole.server, whole.tool, whole.outcome) == (None, None, None, Outcome.OK)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("tools.fail()", "caught The disk is full."),
        ("tools.ecko(text='x')", "did you mean tools.echo"),
        ("tools.add(a=1, c=2)", "b: required"),
        ("tools.echo(txt='x')", "did you mean 'text'"),
        ("tools.crash()", "exited with code 3"),
        ("describe('tools.ecko')", "did you mean tools.echo"),
        ("help('tolls')", "did you mean tools"),
    ],
)
async def test_what_goes_wrong_can_be_caught_and_says_how_to_repair_it(
    start_coding: StartCoding, call: str, said: str
) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server) as client:
        ran = await run(client, CAUGHT.format(call))
    assert not ran.failed
    assert ran.rest.startswith("Output:\ncaught ")
    assert said in ran.rest


async def test_names_of_the_stub_reach_the_server_as_its_own(start_coding: StartCoding) -> None:
    code = "[tool for tool in help('names').split() if '(' in tool], names.calendar_update(), names.class_()"
    async with start_coding({"names": entry("names")}) as coding, Client(coding.app.server) as client:
        ran = await run(client, code)
    assert [step.tool for step in coding.calls] == ["calendar.update", "class"]
    assert not ran.failed


KEYWORDS = """
import sys
sys.path.insert(0, {folder!r})
from plain import Plain, tool
text = {{"type": "string"}}
class Keywords(Plain):
    def tools(self):
        return [tool("send", "Send.", {{"from": text, "max-count": {{**text, "default": "1"}}, "to": text}})]
Keywords().run()
"""


async def test_arguments_reach_the_server_under_its_names_and_without_what_is_none(
    start_coding: StartCoding, tmp_path: Path
) -> None:
    script = tmp_path / "keywords.py"
    script.write_text(KEYWORDS.format(folder=str(Path(plain.__file__).parent)), encoding="utf-8")
    server = {"command": sys.executable, "args": ["-I", "-S", str(script)]}
    async with start_coding({"mail": server}) as coding, Client(coding.app.server) as client:
        ran = await run(client, "mail.send(from_='a', max_count=None, to='b')['arguments']")
        assert ran.rest == 'Value:\n{"from": "a", "to": "b"}'
        assert "to: expected string, got null" in (await run(client, "mail.send(from_='a', to=None)")).rest
    # As the code wrote them.
    assert coding.calls[0].arguments == {"from_": "a", "max_count": None, "to": "b"}


async def test_a_tool_of_another_server_is_not_meant(start_coding: StartCoding) -> None:
    servers = {"names": entry("names"), "tools": entry("echo")}
    async with start_coding(servers) as coding, Client(coding.app.server) as client:
        ran = await run(client, CAUGHT.format("names.add(a=1, b=2)"))
        assert "caught no tool 'names.add'" in ran.rest
        ran = await run(client, CAUGHT.format("names.counter()"))
        assert "caught no tool 'names.counter'" in ran.rest
    assert {step.server for step in coding.calls} == {None}


@pytest.fixture
def start_calls(start_coding: StartCoding) -> Callable[..., AbstractAsyncContextManager[tuple[Coding, CodeCalls]]]:
    """The calls of one run, without any code."""

    @asynccontextmanager
    async def start(**caller: Any) -> AsyncGenerator[tuple[Coding, CodeCalls]]:
        async with start_coding({"tools": entry("echo")}) as coding:
            gateway = coding.app.gateway
            means = Means(
                gateway=gateway,
                caller=coding.app.service.calls,
                answers=Answers(gateway, Shapes(coding.folder / "shapes"), Level.FULL),
                attachments=Attachments(1_000),
                steps=Steps(gateway, (coding.steps,), Level.FULL),
                limits=Limits(),
                wait_s=1.0,
            )
            agent = Caller(agent="local", origin=origin(), **caller)
            yield coding, CodeCalls(means, Request(Task("t0_1", "local", 0.0, an_episode()), agent, {}))

    return start


@pytest.mark.parametrize("name", ["counter", "?.counter", "tools__counter", "", ".", "tools.", ".counter", "x" * 9_999])
async def test_a_name_without_its_server_means_nothing(start_calls: Any, name: str) -> None:
    async with start_calls() as (coding, calls):
        reply = await calls.call(name, {})
    assert not reply.ok
    assert [(step.server, step.outcome) for step in coding.calls] == [(None, Outcome.INVALID_ARGUMENTS)]
    assert len(coding.calls[0].name) <= 200


async def test_a_run_that_is_over_calls_nothing_and_leaves_nothing_under_way(start_calls: Any) -> None:
    begun = anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        if message == "tools.slow: step 1":
            begun.set()

    replies: list[Reply] = []
    async with start_calls(on_progress=note) as (coding, calls):

        async def slow() -> None:
            replies.append(await calls.call("tools.slow", {"seconds": 600}))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(slow)
                await begun.wait()
                calls.end()
        assert "The run is over" in replies[0].value
        assert [step.outcome for step in coding.calls] == [Outcome.CANCELLED]
        assert not (await calls.call("tools.counter", {})).ok
        assert not (await calls.look_up("servers", "")).ok
        assert len(coding.calls) == 1
        async with Client(coding.app.server, mode="legacy") as client:
            with anyio.fail_after(20):
                while (await run(client, "tools.cancellations()")).rest != 'Value:\n"1"':
                    await anyio.sleep(0.01)


class Careless(ThreadInterpreter):
    """Leaves calls of its code under way when the run is over, as threads of the code may."""

    async def run(self, code: str, timeout_s: float, calls: Any) -> RunResult:
        if code != "careless":
            return await super().run(code, timeout_s, calls)
        asyncio.get_running_loop().create_task(calls.call("tools.slow", {"seconds": 600}))
        while not calls.made:
            await anyio.sleep(0.01)
        return RunResult(status=Status.OK)


async def test_calls_that_outlive_their_run_are_cancelled(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        coding.backend.kind = Careless
        assert not (await run(client, "careless")).failed
        with anyio.fail_after(20):
            while not coding.calls:
                await anyio.sleep(0.01)
        assert [step.outcome for step in coding.calls] == [Outcome.CANCELLED]


async def test_values_arrive_unwrapped_and_exact(start_coding: StartCoding) -> None:
    code = (
        "value = {'big': 2**60 + 1, 'text': 'Việt 😀', 'none': None}\n"
        "mirrored = odd.mirror(value=value)\n"
        "[mirrored['value'] == value, mirrored['id'] - 2**53, tools.structured()['celsius'], tools.whoami()['pid'] > 0]"
    )
    servers = {"odd": entry("unknown_fields"), "tools": entry("echo")}
    async with start_coding(servers) as coding, Client(coding.app.server) as client:
        ran = await run(client, code)
    assert ran.rest == "Value:\n[true, 1, 21.5, true]"
    # What is logged is what the server sent.
    assert coding.calls[0].result["x-vendor"] == {"rank": 1, "id": 2**53 + 1}


@ERAS
async def test_a_server_keeps_its_state_over_the_calls_of_one_run(start_coding: StartCoding, era: str) -> None:
    servers = {"own": entry("echo") | {"isolation": "session"}}
    async with start_coding(servers) as coding, Client(coding.app.server, mode=era) as client:
        ran = await run(client, "[own.counter() for _ in range(3)]")
    assert ran.rest == 'Value:\n["1", "2", "3"]'


async def test_a_long_result_is_there_in_full_in_code(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server) as client:
        ran = await run(client, "len(tools.big(size=500_000))")
    assert ran.rest == "Value:\n500000"


async def test_an_image_is_a_handle_that_the_agent_can_look_at(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        ran = await run(client, "picture = tools.image()\nprint(picture['mime'], picture['bytes'])\npicture['handle']")
        assert "image/png 70" in ran.rest
        handle = ran.rest.rpartition("Value:\n")[2].strip('"')
        shown = await client.call_tool("read_result", {"id": handle})
        assert isinstance(shown.content[0], t.ImageContent)
        await client.call_tool("finish_task", {"outcome": "done"})
        gone = await client.call_tool("read_result", {"id": handle})
        assert gone.is_error


async def test_what_is_denied_is_not_there(start_coding: StartCoding) -> None:
    servers = {"tools": {**entry("echo"), "tools": {"deny": ["a*", "echo"]}}, "other": entry("names")}
    async with start_coding(servers) as coding, Client(coding.app.server, mode="legacy") as client:
        listed = await run(client, "print(help('tools'))")
        assert "tools.counter" in listed.rest
        assert "tools.add" not in listed.rest
        for call in ("tools.add(a=1, b=2)", "tools.Add(a=1, b=2)", "describe('tools.add')", "describe('tools__add')"):
            assert "tools.deny" in (await run(client, CAUGHT.format(call))).rest
        assert "Echo" not in (await run(client, "describe('tools.echo')")).rest
    assert {step.outcome for step in coding.calls} == {Outcome.DENIED}
    assert {step.server for step in coding.calls} == {None}


async def test_a_tool_denied_while_code_runs_is_refused_at_once(start_coding: StartCoding) -> None:
    """A variable that holds the function from before is of no use either."""
    async with start_coding({"tools": entry("echo"), "other": entry("names")}) as coding:
        async with Client(coding.app.server, mode="legacy") as client:
            code = (
                "import time\nadd = tools.add\nprint(add(a=1, b=2))\nlast = ''\n"
                "for _ in range(90):\n"
                "    try:\n        add(a=1, b=2)\n        time.sleep(0.02)\n"
                "    except ToolError as error:\n        last = str(error)\n        break\n"
                "last"
            )
            ran = []

            async def running() -> None:
                ran.append(await run(client, code))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(running)
                with anyio.fail_after(20):
                    while not coding.calls:
                        await anyio.sleep(0.01)
                await coding.apply(tools={**entry("echo"), "tools": {"deny": ["add"]}}, other=entry("names"))
            assert "tools.deny" in ran[0].rest
            assert "tools.deny" in (await run(client, CAUGHT.format("add(a=1, b=2)"))).rest


@pytest.mark.parametrize(
    "withheld",
    [{"on_new": "ask"}, {"enabled": False}],
    ids=["waits to be accepted", "switched off"],
)
async def test_a_server_that_is_withheld_is_not_there(start_coding: StartCoding, withheld: dict[str, Any]) -> None:
    servers = {"hidden": {**entry("echo"), **withheld}, "other": entry("names")}
    async with start_coding(servers) as coding, Client(coding.app.server) as client:
        assert "NameError" in (await run(client, "hidden.add(a=1, b=2)")).rest
        told = await run(client, "print(servers())\n" + CAUGHT.format("help('hidden')"))
        assert "Echoes" not in told.rest
        assert "tools.add" not in told.rest
        assert "caught" in told.rest
    assert not coding.calls


async def test_a_destructive_tool_is_denied_where_the_user_cannot_be_asked(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server) as client:
        ran = await run(client, CAUGHT.format("tools.delete_file(path='x')"))
    assert "caught 'tools.delete_file' was not run" in ran.rest
    assert '"approve": "never"' in ran.rest
    assert [step.outcome for step in coding.calls] == [Outcome.DENIED]


@ERAS
async def test_the_user_is_asked_for_every_destructive_call_of_a_loop(start_coding: StartCoding, era: str) -> None:
    """An agent without sessions gets the question as the answer of run_python, and carries the run on with a reply."""
    asked: list[str] = []

    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action="accept", content={}) if len(asked) < 3 else t.ElicitResult(action="decline")

    code = (
        "done = []\nfor name in 'abc':\n    try:\n        done.append(tools.delete_file(path=name))\n"
        "    except ToolError as error:\n        done.append(str(error))\nprint(*done, sep='\\n')"
    )
    async with start_coding({"tools": entry("echo")}) as coding:
        async with Client(coding.app.server, mode=era, elicitation_callback=answer) as client:
            ran = await run(client, code)
    assert asked == ["Allow tools.delete_file? Its server says it is destructive."] * 3
    assert ran.rest.splitlines()[1:3] == ["deleted a", "deleted b"]
    assert "the user did not allow it" in ran.rest
    assert [step.outcome for step in coding.calls] == [Outcome.OK, Outcome.OK, Outcome.DENIED]
    (whole,) = coding.runs
    assert {step.parent for step in coding.calls} == {whole.id}


async def test_a_run_that_asks_answers_an_agent_without_sessions_with_the_question(start_coding: StartCoding) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action="accept", content={})

    async with start_coding({"tools": entry("echo")}) as coding:
        async with Client(coding.app.server, elicitation_callback=answer) as client:
            results: list[Any] = []
            arguments = {"code": "counted = tools.counter()\nprint(counted, tools.delete_file(path='a'))"}
            with anyio.fail_after(30):
                first = await client.session.call_tool("run_python", arguments, allow_input_required=True)
                assert isinstance(first, t.InputRequiredResult)
                assert first.input_requests is not None
                assert not coding.runs
                replies = {key: t.ElicitResult(action="accept", content={}) for key in first.input_requests}
                results.append(
                    await client.session.call_tool(
                        "run_python",
                        arguments,
                        input_responses=replies,
                        request_state=first.request_state,
                        allow_input_required=True,
                    )
                )
    (result,) = results
    # The run went on where it was: the counter was counted once.
    assert "Output:\n1 deleted a" in result.content[0].text
    assert [step.tool for step in coding.calls] == ["counter", "delete_file"]
    (whole,) = coding.runs
    assert whole.outcome is Outcome.OK


@ERAS
async def test_the_time_that_a_user_takes_is_not_that_of_the_run(start_coding: StartCoding, era: str) -> None:
    limit_s = 0.3

    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        # Whom no event tells when the code would have been stopped.
        await anyio.sleep(3 * limit_s)
        return t.ElicitResult(action="accept", content={})

    async with start_coding({"tools": entry("echo")}) as coding:
        async with Client(coding.app.server, mode=era, elicitation_callback=answer) as client:
            ran = await run(client, "tools.delete_file(path='a')", timeout_s=limit_s)
    assert (ran.failed, ran.rest) == (False, 'Value:\n"deleted a"')
    assert [step.outcome for step in coding.calls] == [Outcome.OK]


async def test_questions_at_the_same_time_take_that_time_once(start_calls: Any) -> None:
    answered = anyio.Event()

    async def ask(method: str, params: Mapping[str, Any], on_progress: object) -> dict[str, Any]:
        await answered.wait()
        return {"action": "accept"}

    async with start_calls() as (_, calls):
        calls._agent = replace(calls._agent, origin=origin(ask=ask))
        moved: list[float] = []
        calls.on_extend = moved.append
        began = anyio.current_time()
        async with anyio.create_task_group() as questions:
            for _ in range(8):
                questions.start_soon(calls._ask_agent, "elicitation/create", {}, None)
            await anyio.wait_all_tasks_blocked()
            assert ANSWER_WITHIN_S <= sum(moved) < ANSWER_WITHIN_S + 20
            answered.set()
        assert abs(sum(moved) - (anyio.current_time() - began)) < 0.5


@ERAS
async def test_a_server_can_ask_in_the_middle_of_a_run(start_coding: StartCoding, era: str) -> None:
    """A server of 2026-07-28 answers its call with a question, which here cannot be the answer of the run."""
    asked: list[str] = []

    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action="accept", content={"colour": f"blue{len(asked)}"})

    for legacy_only in (False, True):
        async with Restartable(legacy_only=legacy_only) as server, start_coding({"srv": server.entry}) as coding:
            async with Client(coding.app.server, mode=era, elicitation_callback=answer) as client:
                ran = await run(client, "first = srv.ask()\n[first, srv.ask()]")
        assert not ran.failed, ran
        assert ran.rest.count("accept") == 2
        assert [step.outcome for step in coding.calls] == [Outcome.OK] * 2
    assert asked == ["Which colour?"] * 4


async def test_limits_of_a_run_hold(start_coding: StartCoding) -> None:
    limits = ("calls=3", "argument_bytes=1k", "value_bytes=2k")
    async with start_coding({"tools": entry("echo")}, sandbox_limits=limits) as coding:
        async with Client(coding.app.server, mode="legacy") as client:
            large = await run(client, CAUGHT.format("tools.echo(text='x' * 2000)"))
            assert "2,012 bytes, at most 1,024" in large.rest
            huge = await run(client, CAUGHT.format("tools.big(size=5000)"))
            assert "tools.big has run, but its result of 5,569 bytes is larger than the 2,048" in huge.rest
            many = await run(client, "for n in range(5):\n    print(tools.counter())")
            assert many.failed
            assert many.rest.startswith("Output:\n1\n2\n3\n")
            assert "ToolError: a run may make 3 tool calls" in many.rest
            # Each run has its own.
            assert (await run(client, "tools.counter()")).rest == 'Value:\n"4"'


async def messages_of(client: Client, code: str) -> list[str]:
    """The messages of progress while `code` runs. The agent has one token for them, so the numbers have to grow."""
    heard: list[tuple[float, str]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message or ""))

    with anyio.fail_after(30):
        result = await client.call_tool("run_python", {"code": code}, progress_callback=note)
    assert not result.is_error
    assert [number for number, _ in heard] == sorted({number for number, _ in heard})
    return [message for _, message in heard]


BOTH = "parallel(lambda n: srv.slow(seconds=0.5), range(2))"
ONE = ["srv.slow", *(f"srv.slow: step {number}" for number in range(1, 11))]


async def test_calls_run_beside_each_other(start_coding: StartCoding) -> None:
    async with start_coding({"srv": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        messages = await messages_of(client, BOTH)
    assert sorted(messages) == sorted(2 * ONE)
    assert messages != 2 * ONE


async def test_no_more_calls_than_allowed_are_under_way_at_once(start_coding: StartCoding) -> None:
    async with start_coding({"srv": entry("echo")}, sandbox_limits=("parallel=1",)) as coding:
        async with Client(coding.app.server, mode="legacy") as client:
            assert await messages_of(client, BOTH) == 2 * ONE


@pytest.mark.parametrize(("wanted", "heard"), [(None, []), ("info", ["info", "error"]), ("error", ["error"])])
async def test_an_agent_without_sessions_hears_the_log_messages_that_it_asked_for(
    wanted: str | None, heard: list[str]
) -> None:
    told: list[tuple[str, Any]] = []

    async def tell(method: str, params: Mapping[str, Any]) -> None:
        told.append((method, params.get("level")))

    agent = origin(modern=True, log_level=wanted, tell=tell)
    in_code = origin_within(agent, "t0_1", agent.ask)
    for level in ("debug", "info", "error"):
        await in_code.tell("notifications/message", {"level": level})
    await in_code.tell("notifications/elicitation/complete", {})
    assert told == [
        *(("notifications/message", level) for level in heard),
        ("notifications/elicitation/complete", None),
    ]


@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        ({"type": "string"}, False),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, False),
        ({"enum": ["a", None]}, True),
        ({"enum": ["a"]}, False),
        ({"type": "string", "nullable": True}, True),
        ({"$ref": "#/$defs/maybe"}, True),
        ({"allOf": [{"$ref": "#/$defs/text"}]}, False),
        ({"description": "anything"}, True),
        (True, True),
    ],
)
def test_null_is_sent_where_the_schema_takes_it(schema: Any, takes: bool) -> None:
    definitions = {"maybe": {"type": ["integer", "null"]}, "text": {"type": "string"}}
    root: Mapping[str, Any] = {"type": "object", "properties": {"p": schema, "q": {}}, "$defs": definitions}
    tool = ToolRecord(server="s", name="t", written="s.t", raw={"name": "t", "inputSchema": root})
    assert _takes_null(Reader(root), schema) is takes
    assert _without_nulls(tool, {"p": None, "q": 1}) == ({"p": None, "q": 1} if takes else {"q": 1})


def test_a_required_null_stays_so_that_the_check_names_it() -> None:
    root = {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}
    tool = ToolRecord(server="s", name="t", written="s.t", raw={"name": "t", "inputSchema": root})
    assert _without_nulls(tool, {"p": None, "unknown": None}) == {"p": None, "unknown": None}
