"""A question is for the agent whose call it is and for nobody else, it waits for a limited time, and is put once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from proxy.endpoint import parking
from proxy.endpoint.tokens import TokenStore
from proxy.metatools import approval
from proxy.servers import peer, questions
from tests.primitives.agent import Agent, Answer, Asked, accept, text_of, until
from tests.primitives.conftest import Place, StartPlace, Way, piped, ways

pytestmark = pytest.mark.anyio
ACCEPTED = {"action": "accept", "content": {"colour": "blue"}}


@pytest.fixture
def token(tmp_path: Any) -> Callable[[str], str]:
    """Makes credentials of the gateway that `start_place` starts."""
    store = TokenStore(tmp_path / "state" / "tokens.json")
    return lambda label: store.create(label, None)


def answering(colour: str) -> Answer:
    async def answer(asked: Asked) -> Any:
        return {"action": "accept", "content": {"colour": colour, "asked": asked.params["message"]}}

    return answer


async def outcome(agent: Agent, tool: str, **arguments: Any) -> str:
    """The words that a call ends with, an error or not."""
    try:
        return text_of(await agent.call(tool, **arguments))
    except MCPError as error:
        return error.message


async def outcome_of(agent: Agent, tool: str, resumed: Any, **arguments: Any) -> str:
    try:
        return text_of(await agent.begin(tool, resumed=resumed, **arguments))
    except MCPError as error:
        return error.message


def replying(asking: dict[str, Any]) -> dict[str, Any]:
    replies = dict.fromkeys(asking["inputRequests"], ACCEPTED)
    return {"inputResponses": replies, "requestState": asking["requestState"]}


@ways(agent="2026", server="2025")
async def test_a_reply_counts_with_the_credential_that_was_asked_and_no_other(
    start_place: StartPlace, way: Way, token: Callable[[str], str]
) -> None:
    alice, bob = token("alice"), token("bob")
    async with start_place({way.name: {}}) as place:
        async with (
            place.agent(way, token=alice) as asked,
            place.agent(way, token=bob) as other,
            place.agent(way) as nameless,
        ):
            asking = await asked.begin("elicit_form")
            for thief in (other, nameless):
                assert "belongs to another call" in await outcome_of(thief, "elicit_form", replying(asking))
            # What the others tried has not used it up.
            assert "blue" in text_of(await asked.begin("elicit_form", resumed=replying(asking)))


@ways(agent="2026", server="2025")
async def test_a_reply_counts_once_and_for_the_call_that_asked(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        asking = await agent.begin("elicit_form", message="One?")
        refusal = "belongs to another call"
        assert refusal in await outcome_of(agent, "elicit_form", replying(asking), message="Another?")
        assert refusal in await outcome_of(agent, "delete", replying(asking), message="One?")
        forged = {**replying(asking), "requestState": asking["requestState"][:-1] + "~"}
        assert refusal in await outcome_of(agent, "elicit_form", forged, message="One?")
        assert "blue" in text_of(await agent.begin("elicit_form", resumed=replying(asking), message="One?"))
        assert refusal in await outcome_of(agent, "elicit_form", replying(asking), message="One?")


@ways(agent="2026", server="2025", mode="server")
async def test_a_reply_that_leaves_a_question_out_is_asked_for_the_rest(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        asking = await agent.begin("ask_both")
        while len(asking["inputRequests"]) < 2:
            # The second question may come a moment after the first.
            asking = await agent.begin("ask_both", resumed={"requestState": asking["requestState"]})
        first, second = asking["inputRequests"]
        given = {"inputResponses": {first: ACCEPTED}, "requestState": asking["requestState"]}
        asking = await agent.begin("ask_both", resumed=given)
        assert list(asking["inputRequests"]) == [second]
        assert text_of(await agent.begin("ask_both", resumed=replying(asking))).count("blue") == 2


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five minutes are a moment."""
    for module in (peer, questions, approval):
        monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.2)


async def never(asked: Asked) -> Any:
    await anyio.sleep_forever()


@ways(agent="2025")
@pytest.mark.usefixtures("soon")
async def test_a_question_that_nobody_answers_has_an_end(shared: Place, way: Way) -> None:
    async with shared.agent(way, answer=never) as agent:
        assert "within 0.2 s" in await outcome(agent, "elicit_form")
        assert len(agent.asked) == 1
        # The agent and the server go on.
        assert await agent.text("echo", text="next") == "next"


@ways(agent="2026", server="2025", mode="direct")
@pytest.mark.usefixtures("soon")
async def test_a_server_hears_that_an_agent_did_not_come_back_with_an_answer(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        asking = await agent.begin("elicit_form")
        # Its call has ended meanwhile, with what the server makes of that, and waits to be fetched.
        await anyio.sleep(0.3)
        assert "within 0.2 s" in text_of(await agent.begin("elicit_form", resumed=replying(asking)))


@ways(agent="2026", server="2025", mode="direct")
async def test_a_call_whose_agent_never_comes_back_is_cancelled_in_the_end(
    start_place: StartPlace, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "KEEP_S", 0.2)
    async with start_place({way.name: {}}) as place:
        async with place.agent(way) as agent:
            asking = await agent.begin("elicit_form")
        server = place.behind(way)
        # Nobody sends anything more.
        await until(lambda: server.cancelled == ["elicit_form"], "the server hears that it is over")
        async with place.agent(way) as agent:
            assert "expired" in await outcome_of(agent, "elicit_form", replying(asking))


@ways()
async def test_a_question_of_one_agent_is_not_put_to_another(shared: Place, way: Way) -> None:
    async with shared.agent(way) as bystander, shared.agent(way) as agent:
        await bystander.text("echo", text="I was here first")
        assert "green" in await outcome(agent, "elicit_form")
        assert (len(agent.asked), bystander.asked) == (1, [])


@pytest.mark.parametrize("server", ["2025", "2026"])
@pytest.mark.parametrize("eras", [("2025", "2025"), ("2025", "2026"), ("2026", "2026")], ids=" and ".join)
async def test_two_agents_that_are_asked_at_once_over_one_pipe_answer_for_themselves(
    start_place: StartPlace, token: Callable[[str], str], eras: tuple[str, str], server: str
) -> None:
    ways = [Way(era, server, "search") for era in eras]
    tokens = [token("alice"), token("bob")]
    async with start_place({f"s{server}": piped(server)}) as place:
        async with (
            place.agent(ways[0], token=tokens[0], answer=answering("red")) as alice,
            place.agent(ways[1], token=tokens[1], answer=answering("blue")) as bob,
        ):
            for attempt in (1, 2):
                said: dict[str, str] = {}

                async def ask(agent: Agent, name: str, said: dict[str, str] = said) -> None:
                    said[name] = await outcome(agent, "elicit_form", message=f"Which, {name}?")

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, alice, "alice")
                    tasks.start_soon(ask, bob, "bob")
                for name, colour in (("alice", "red"), ("bob", "blue")):
                    own = f'"colour": "{colour}", "asked": "Which, {name}?"'
                    # In the first attempt it is not known yet that the server asks, so they share the pipe.
                    assert own in said[name] or (attempt == 1 and "not known whom to ask" in said[name]), said
            for agent, name in ((alice, "alice"), (bob, "bob")):
                assert all(asked.params["message"] == f"Which, {name}?" for asked in agent.asked)


@ways(agent="2026", server="2025", mode="server")
async def test_programs_with_one_credential_never_get_each_others_answer(start_place: StartPlace, way: Way) -> None:
    async with start_place({way.name: piped("2025")}) as place:
        async with (
            place.agent(way, answer=answering("red")) as one,
            place.agent(way, answer=answering("blue")) as two,
        ):
            said: dict[str, str] = {}

            async def ask(agent: Agent, name: str) -> None:
                said[name] = await outcome(agent, "elicit_form", message=f"Which, {name}?")

            for _ in range(3):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, one, "one")
                    tasks.start_soon(ask, two, "two")
                for name, colour in (("one", "red"), ("two", "blue")):
                    own = f'"colour": "{colour}", "asked": "Which, {name}?"'
                    assert own in said[name] or "not known whom to ask" in said[name], said
            # One after the other there is no doubt.
            await ask(one, "one")
            assert "red" in said["one"]


@ways()
async def test_the_gateways_question_and_the_servers_are_put_once_each(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        answered = await agent.json("delete", message="What?")
        assert answered["colour"]["vendor"] == "What?"
        allow, what = [asked.params["message"] for asked in agent.asked]
        assert allow.startswith(f"Allow {way.name}.delete?")
        assert what == "What?"


@ways(mode="direct")
async def test_without_the_users_yes_the_server_is_not_called(shared: Place, way: Way) -> None:
    async def answer(asked: Asked) -> Any:
        return {"action": "decline"}

    async with shared.agent(way, answer=answer) as agent:
        before = shared.behind(way).count("tools/call")
        assert "the user did not allow it" in await outcome(agent, "delete", message="What?")
        assert len(agent.asked) == 1
        assert shared.behind(way).count("tools/call") == before


@ways(agent="2025", server="2025")
async def test_a_server_hears_that_roots_of_its_agent_have_changed(start_place: StartPlace, way: Way) -> None:
    method = "notifications/roots/list_changed"
    async with start_place({way.name: {}}) as place:
        server = place.behind(way)
        async with place.agent(way) as agent, place.agent(way) as other:
            for each in (agent, other):
                # The first question of a server gives each agent a connection of its own from then on.
                await each.call("elicit_form")
                await each.call("roots")
            own = [seen["connection"] for seen in server.seen if seen["params"].get("name") == "roots"]
            await agent.notify(method)
            await until(lambda: server.count(method) > 0, "the server hears of it")
            await other.text("echo", text="the end")
            assert [seen["connection"] for seen in server.seen if seen["method"] == method] == own[:1]


@ways(mode="search")
async def test_roots_of_strangers_are_not_passed_on(
    start_place: StartPlace, way: Way, token: Callable[[str], str]
) -> None:
    secret = token("alice")
    async with start_place({way.name: {}}, public_url="https://tools.example.com") as place:
        async with place.agent(way, token=secret) as agent:
            await agent.call("elicit_form")
            assert set(await agent.json("capabilities")) == {"elicitation", "sampling"}
            if (way.agent, way.server) != ("2026", "2026"):
                assert "roots" in await outcome(agent, "roots")
                assert all(asked.method != "roots/list" for asked in agent.asked)


async def test_a_question_is_put_although_the_call_it_is_put_in_has_its_result() -> None:
    """Over a pipe, a question of one call may be put in another call of the same agent, whose own work is done."""

    async def done() -> dict[str, Any]:
        return {"content": []}

    async with anyio.create_task_group() as tasks:
        park = parking.Parking(tasks.start_soon)
        call, answers = parking.ParkableCall("alice", "call"), list[Any]()

        async def ask() -> None:
            answers.append(await call.ask("elicitation/create", {"message": "Which?"}, None))

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        park.begin(call, done)
        await anyio.wait_all_tasks_blocked()
        asking = await park.answer(call)
        assert [question["params"] for question in asking["inputRequests"].values()] == [{"message": "Which?"}]
        again = parking.ParkableCall("alice", "call")
        assert park.taken_up(again, replying(asking)) is call
        assert await park.answer(call) == {"content": []}
        await anyio.wait_all_tasks_blocked()
        assert answers == [ACCEPTED]
        tasks.cancel_scope.cancel()


async def test_a_server_hears_when_the_call_that_it_asked_in_is_given_up() -> None:
    async with anyio.create_task_group() as tasks:
        call = parking.ParkableCall("alice", "call")
        tasks.start_soon(call.work, anyio.sleep_forever)

        async def ask() -> None:
            with pytest.raises(MCPError, match="gave up"):
                await call.ask("elicitation/create", {"message": "Which?"}, None)

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        call.scope.cancel()


@ways(mode="direct")
async def test_each_of_many_calls_at_once_gets_the_answer_to_its_own_question(shared: Place, way: Way) -> None:
    """`accept` says what it was asked; were answers mixed up, it would be seen."""
    async with shared.agent(way, answer=accept) as agent:
        said: list[str] = []

        async def ask(number: int) -> None:
            said.append((await agent.json("elicit_form", message=str(number)))["colour"]["vendor"] + f" {number}")

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(ask, number)
        assert sorted(said) == [f"{number} {number}" for number in range(8)]
