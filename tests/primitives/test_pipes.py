"""Over a pipe nothing links what a server says to the call it belongs to; here it arrives all the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from proxy.servers import flights
from tests.fixtures.primitives import VENDOR
from tests.primitives.agent import until
from tests.primitives.conftest import Place, Way, piped, place, ways
from tests.primitives.test_calls import cancels_one_of_two

pytestmark = pytest.mark.anyio
MODE = "search"


@pytest.fixture(scope="module")
async def pipes(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Place]:
    """A gateway with a server of each era as a process. Each agent that can be asked makes it start one more."""
    entries = {f"s{era}": piped(era) for era in ("2025", "2026")}
    # The agents of these tests follow each other at once, and a log message might be of the one before.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flights, "LATE_S", 0.0)
        async with place(tmp_path_factory.mktemp("pipes"), entries) as started:
            yield started


@ways(mode=MODE)
async def test_questions_progress_and_logs_over_a_pipe(pipes: Place, way: Way) -> None:
    async with pipes.agent(way) as agent:
        assert (await agent.json("elicit_form", message="Which?"))["colour"]["vendor"] == "Which?"
        assert (await agent.json("sample"))["hello"]["model"] == "model-1"
        assert (await agent.json("roots"))["folders"]["roots"][0]["uri"] == "file:///work"
        assert [asked.method for asked in agent.asked] == [
            "elicitation/create",
            "sampling/createMessage",
            "roots/list",
        ]
        await agent.call("progress", meta={"progressToken": "mine"})
        await until(lambda: len(agent.of("notifications/progress")) == 3, "three notices of progress")
        assert {params["progressToken"] for params in agent.of("notifications/progress")} == {"mine"}
        await agent.set_level("info")
        await agent.call("log")
        await until(lambda: len(agent.of("notifications/message")) == 2, "the lines that were asked for")
        lines = sorted(agent.of("notifications/message"), key=lambda params: params["level"])
        assert lines == [
            {"level": level, "logger": "primitives", "data": {"line": level}, **VENDOR} for level in ("error", "info")
        ]


@ways(mode=MODE)
async def test_cancelling_a_call_over_a_pipe_names_it_and_no_other(pipes: Place, way: Way) -> None:
    async with pipes.agent(way, capabilities={}) as agent, pipes.agent(way, capabilities={}) as other:
        await other.text("echo", text="one more")
        await cancels_one_of_two(agent, other, way, named=True)
