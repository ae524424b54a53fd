"""One task worked from beginning to end, by a scripted endpoint over HTTP, through a whole gateway over a toy."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from starlette.responses import Response

from proxy.errors import ConfigurationError, ModelError
from proxy.policy.base import Variant, World
from proxy.policy.limits import WorkLimits
from proxy.policy.loop import Did, Stop, Worked, work
from proxy.policy.surface import Surface
from proxy.policy.toy import Toy
from tests.fixtures.openai_server import Answering, Asked, failure
from tests.proxy.policy.scripted import LIMIT_S, doing, done, in_order, model_of, observations, saying

pytestmark = pytest.mark.anyio
COUNT = ("call_tool", {"tool": "office.count_units", "arguments": {"article": "KX-417", "warehouse": "Lund"}})
SEARCH = ("search_tools", {"query": "units of an article in a warehouse"})


async def worked(
    world: World, answering: Answering, variant: Variant = Variant.TOOLS, told: list[Did] | None = None, **limits: int
) -> tuple[Worked, Sequence[Asked]]:
    async def on_step(did: Did) -> None:
        if told is not None:
            told.append(did)

    async with model_of(answering) as (model, served):
        with anyio.fail_after(LIMIT_S):
            result = await work("Count!", model, Surface(world, variant), WorkLimits(**limits), on_step)
    return result, served.asked


async def test_a_task_is_worked_and_every_step_is_told(world: World, toy: Toy) -> None:
    told: list[Did] = []
    result, asked = await worked(world, in_order(SEARCH, COUNT, done("3862 units")), told=told)
    assert (result.stop, result.outcome, result.answer) == (Stop.FINISHED, "done", "3862 units")
    assert [did.name for did in result.did] == ["search_tools", "call_tool", "finish_task"]
    assert result.did == tuple(told)
    assert result.did[1].action.startswith('call_tool {"tool": "office.count_units"')
    assert toy.called == ["count_units"]
    assert (result.turns, result.tokens_in, result.tokens_out) == (3, 300, 30)
    assert "office.count_units(" in observations(asked[1])[0]
    assert observations(asked[2])[1] == '{"units": 3862}'


async def test_the_model_is_told_the_rules_the_index_and_the_task(world: World) -> None:
    _, asked = await worked(world, in_order(done("")))
    system, task = asked[0].body["messages"]
    assert "office - Stock, rooms and people of a company." in system["content"]
    assert "search_tools(query)" in system["content"]
    assert task == {"role": "user", "content": "Count!"}


async def test_several_actions_of_one_turn_are_done_in_order(world: World) -> None:
    both = doing(SEARCH, COUNT)
    result, asked = await worked(world, in_order(both, done("3862")))
    assert [(did.turn, did.name) for did in result.did] == [(1, "search_tools"), (1, "call_tool"), (2, "finish_task")]
    assert observations(asked[1])[1] == '{"units": 3862}'


async def test_mistakes_are_answered_and_not_sent_to_the_gateway(world: World, toy: Toy) -> None:
    broken = saying(None, tool_calls=[{"id": "x", "function": {"name": "call_tool", "arguments": '{"tool": '}}])
    result, asked = await worked(world, in_order(("count_units", {}), broken, COUNT, done("3862")))
    assert [did.understood for did in result.did] == [False, False, True, True]
    assert "there is no action 'count_units'; there are call_tool, describe_tools" in observations(asked[1])[0]
    assert "the arguments are no JSON" in observations(asked[2])[1]
    assert toy.called == ["count_units"]


async def test_what_a_tool_refuses_is_a_failed_step_that_the_model_reads(world: World) -> None:
    wrong = ("call_tool", {"tool": "office.count_units", "arguments": {"article": 5}})
    result, asked = await worked(world, in_order(wrong, done("")))
    assert [did.failed for did in result.did] == [True, False]
    assert observations(asked[1])[0].startswith("[error]\n")
    assert "warehouse" in observations(asked[1])[0]


async def test_a_model_that_only_talks_is_reminded_once_and_its_last_words_are_kept(world: World) -> None:
    result, asked = await worked(world, in_order("I think so.", "It is 3862."))
    assert (result.stop, result.outcome, result.answer) == (Stop.SILENT, None, "It is 3862.")
    assert "That was no action." in asked[1].body["messages"][-1]["content"]


async def test_turns_tokens_and_time_end_the_work(world: World) -> None:
    by_turns, asked = await worked(world, in_order(SEARCH), turns=4)
    assert (by_turns.stop, by_turns.turns, len(asked)) == (Stop.TURNS, 4, 4)
    by_tokens, asked = await worked(world, in_order(SEARCH), tokens=330)
    assert (by_tokens.stop, len(asked)) == (Stop.TOKENS, 3)

    over = anyio.Event()

    async def late(asked: Asked) -> Response:
        await over.wait()
        return saying("Too late.")

    async with model_of(late) as (model, _):
        by_time = await work("Count!", model, Surface(world, Variant.TOOLS), WorkLimits(seconds=1))
        over.set()
    assert (by_time.stop, by_time.turns) == (Stop.TIME, 0)


async def test_old_observations_are_folded_and_the_record_says_which(world: World) -> None:
    listing = ("list_tools", {"server": "office"})
    script = in_order(listing, listing, listing, listing, listing, done("x"))
    result, asked = await worked(world, script, context_tokens=1_000, keep=2)
    assert result.stop is Stop.FINISHED
    assert [each.place for each in result.folded] == list(range(1, len(result.folded) + 1))
    assert result.folded
    last = observations(asked[-1])
    assert last[0].startswith("[folded] list_tools office → 8 tools: office.count_units,")
    assert all(not each.startswith("[folded]") for each in last[-2:])


async def test_what_cannot_fit_ends_the_work_before_the_model_is_asked(world: World) -> None:
    result, asked = await worked(world, in_order(SEARCH), context_tokens=100)
    assert (result.stop, len(asked)) == (Stop.CONTEXT, 0)


async def test_a_model_that_cannot_be_asked_is_an_error_of_its_own(world: World) -> None:
    with pytest.raises(ModelError, match="gone"):
        await worked(world, lambda _: failure(400, "gone"))


async def test_a_long_observation_keeps_its_ends(world: World) -> None:
    result, asked = await worked(world, in_order(SEARCH, done("")), observation_chars=100)
    text = observations(asked[1])[0]
    assert "characters left out]" in text
    assert len(text) < 150
    assert result.did[0].observed == text


async def test_loading_a_server_describes_all_its_tools(world: World) -> None:
    load = ("list_tools", {"server": "office"})
    result, asked = await worked(world, in_order(load, COUNT, done("3862")), Variant.SERVERS)
    names = {each["function"]["name"] for each in asked[0].body["tools"]}
    assert names == {"list_servers", "list_tools", "call_tool", "read_result", "finish_task"}
    assert "search_tools" not in asked[0].body["messages"][0]["content"]
    loaded = observations(asked[1])[0]
    assert loaded.count("# office.") == 8
    assert "def book_room(" in loaded
    assert result.outcome == "done"


async def test_loading_what_is_no_server_is_answered_as_the_gateway_does(world: World) -> None:
    _, asked = await worked(world, in_order(("list_tools", {"server": "offices"}), done("")), Variant.SERVERS)
    assert "office" in observations(asked[1])[0]
    assert observations(asked[1])[0].startswith("[error]")


async def test_each_variant_shows_its_own_meta_tools(world: World) -> None:
    assert "describe_tools" in Surface(world, Variant.TOOLS).names
    assert "run_python" not in Surface(world, Variant.TOOLS).names
    with pytest.raises(ConfigurationError, match="no sandbox"):
        Surface(world, Variant.CODE)


async def test_a_finish_without_an_outcome_does_not_end_the_task(world: World) -> None:
    for variant in (Variant.TOOLS, Variant.EAGER):
        result, asked = await worked(world, in_order(("finish_task", {"answer": "x"}), done("y")), variant)
        assert (result.answer, result.turns) == ("y", 2)
        assert "outcome" in observations(asked[1])[0]
