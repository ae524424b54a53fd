"""Rubrics written by a model, over a real endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from judge.case import Case
from judge.checks.base import check, met
from judge.checks.library import Library, library
from judge.model.openai_endpoint import OpenAIEndpoint
from judge.rubric import Category, Kind, Need, Rubric
from judge.scripted import scripted
from judge.settings import EndpointSettings
from judge.writing.by_model import ATTEMPTS, DISTRIBUTION, lines_of, write_by_model, writer_of
from judge.writing.derived import WritingError
from proxy.errors import ConfigurationError
from proxy.store.catalogues import Catalogue, CatalogueDefinition, CatalogueServer
from proxy.store.recorder import Level
from tests.fixtures.openai_server import (
    Answering,
    Dropped,
    OpenAIServer,
    completion,
    first,
    malformed,
    openai_server,
    refusing,
)
from tests.judge.model.episodes import OSLO, TASK, as_it_is, case, lived

pytestmark = pytest.mark.anyio
LINES = ["time.get_current_time: the time now parameters: {}"]
WEIGHTS = {
    Category.TASK_FULFILMENT: 9,
    Category.TOOL_APPROPRIATENESS: 6,
    Category.TOOL_GROUNDING: 5,
    Category.PARAMETER_ACCURACY: 4,
}


@check("no_more_calls_than")
def no_more_calls_than(case: Case, *, most: int) -> Any:
    """At most `most` calls were made."""
    return met()


CHECKS = Library({"no_more_calls_than": no_more_calls_than})


def written() -> list[dict[str, Any]]:
    """Twelve criteria as a good model writes them."""
    criteria: list[dict[str, Any]] = []
    for category, count in DISTRIBUTION.items():
        for place in range(count):
            criteria.append(
                {
                    "id": f"{category}_{place}",
                    "category": category.value,
                    "text": f"The time of Oslo was told ({place}).",
                    "weight": WEIGHTS[category],
                    "kind": "judge",
                    "check": "",
                    "parameters": "{}",
                    "needs": ["answer"],
                    "essential": False,
                    "pitfall": False,
                }
            )
    criteria[0]["essential"] = True
    criteria[5] |= {"kind": "check", "check": "no_more_calls_than", "parameters": '{"most": 3}', "needs": []}
    return criteria


def told(criteria: Any) -> Answering:
    return lambda _: completion(json.dumps({"criteria": criteria}))


def changed(place: int, **members: Any) -> list[dict[str, Any]]:
    criteria = written()
    criteria[place] |= members
    return criteria


class Elsewhere(OpenAIEndpoint):
    """The same, as if it were on another machine."""

    @property
    def remote(self) -> bool:
        return True


@asynccontextmanager
async def endpoint(answering: Answering, *, remote: bool = False) -> AsyncIterator[tuple[OpenAIEndpoint, OpenAIServer]]:
    async with openai_server(answering) as server:
        settings = EndpointSettings(url=server.url, model="large", retries=1, timeout_s=20)
        asking = (Elsewhere if remote else OpenAIEndpoint)(settings, first_pause_s=0.001)
        try:
            with anyio.fail_after(60):
                yield asking, server
        finally:
            await asking.close()


async def write(asking: OpenAIEndpoint, **given: Any) -> Rubric:
    more: dict[str, Any] = {"servers": {"time"}, "permitted": frozenset(), "redact": as_it_is, **given}
    examples = more.pop("examples", [case()])
    lines = more.pop("lines", LINES)
    return await write_by_model(asking, more.pop("task", TASK), lines, examples, CHECKS, **more)


async def test_a_rubric_of_twelve_criteria_in_four_categories_is_written() -> None:
    async with endpoint(told(written())) as (asking, server):
        rubric = await write(asking)
    assert [each.category for each in rubric.criteria] == [
        category for category, count in DISTRIBUTION.items() for _ in range(count)
    ]
    assert rubric.criteria[0].essential
    assert rubric.criteria[0].needs == {Need.ANSWER}
    assert (rubric.criteria[5].kind, rubric.criteria[5].check) == (Kind.CHECK, "no_more_calls_than")
    assert rubric.criteria[5].parameters == {"most": 3}
    assert Rubric.of_content(rubric.content()) == rubric
    [asked] = server.asked
    assert asked.body["response_format"]["json_schema"]["name"] == "rubric"
    for shown in (TASK, LINES[0], "2026-11-30T14:05:00+01:00", "no_more_calls_than: At most `most` calls were made."):
        assert shown in asked.user


async def test_all_checks_of_the_library_are_told_with_their_parameters() -> None:
    async with endpoint(told(written())) as (asking, server):
        with pytest.raises(WritingError):
            await write_by_model(asking, TASK, LINES, [], library(), servers=(), permitted=frozenset(), redact=as_it_is)
    for name in library():
        assert f"\n- {name}: " in server.asked[0].user


@pytest.mark.parametrize(
    "criteria",
    [
        changed(5, parameters={"most": 3}),
        changed(0, id="Time told!", extra="x"),
        changed(0, text="The time\u202e was told."),
    ],
)
async def test_what_can_only_mean_one_thing_is_taken(criteria: Any) -> None:
    async with endpoint(told(criteria)) as (asking, server):
        rubric = await write(asking)
    assert rubric.criteria[0].id in ("task_fulfilment_0", "time_told_")
    assert "\u202e" not in rubric.criteria[0].text
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("criteria", "problem"),
    [
        ([], "it has no JSON object with criteria in it"),
        (written()[1:], "it has 4 criteria of task_fulfilment, not 5"),
        (changed(11, category="tool_grounding"), "it has 1 criteria of parameter_accuracy, not 2"),
        (changed(0, id="task_fulfilment_1"), "two criteria have the id task_fulfilment_1"),
        (changed(0, weight=11), "number 1 (task_fulfilment_0): criterion task_fulfilment_0: a weight is"),
        (changed(0, weight="high"), "`weight` is missing or not of type int"),
        (changed(0, category="honesty"), "`category` is one of"),
        (changed(0, text=" "), "its text has 1 to"),
        (changed(5, check="made_up"), "there is no check 'made_up'"),
        (changed(5, parameters='{"least": 3}'), "check no_more_calls_than: parameter"),
        (changed(5, parameters="three"), "`parameters` is missing or not of type dict"),
        (changed(5, check=""), "`check` names what decides a criterion of kind check"),
        (changed(0, needs=["luck"]), "`needs` is one of task, answer"),
        (changed(0, pitfall=True), "essential and pitfall exclude each other"),
        (["The time was told.", *written()[1:]], "number 1 (None): criterion 1 is not an object"),
        ([{**each, "weight": 4} for each in written()[:5]] + written()[5:], "do not weigh most"),
        (
            [{**each, "weight": 2} if "appropriateness" in each["category"] else each for each in written()],
            "do not weigh more than those of the last two",
        ),
        ([{**each, "essential": True} for each in written()], "more than two of its criteria are essential"),
        (written() * 2, "two criteria have the id parameter_accuracy_0"),
    ],
)
async def test_a_model_is_told_what_is_wrong_and_asked_again(criteria: Any, problem: str) -> None:
    async with endpoint(first(told(criteria), told(written()))) as (asking, server):
        rubric = await write(asking)
    assert len(rubric.criteria) == 12
    assert len(server.asked) == 2
    again = server.asked[1].body["messages"]
    assert [each["role"] for each in again] == ["system", "user", "assistant", "user"]
    assert problem in again[-1]["content"]


async def test_all_problems_are_told_at_once_up_to_a_number() -> None:
    criteria = [{**each, "weight": 99} for each in written()]
    async with endpoint(first(told(criteria), told(written()))) as (asking, server):
        await write(asking)
    assert server.asked[1].body["messages"][-1]["content"].count("\n- number") == 8


async def test_a_model_that_never_writes_a_rubric_is_given_up() -> None:
    async with endpoint(malformed) as (asking, server):
        with pytest.raises(WritingError, match=r"large wrote no usable rubric in 4 attempts; at last: it has no JSON"):
            await write(asking)
    assert len(server.asked) == ATTEMPTS == 4


@pytest.mark.parametrize("answering", [refusing, lambda _: Dropped(), lambda _: completion(None, finish="length")])
async def test_an_endpoint_that_fails_is_told(answering: Answering) -> None:
    async with endpoint(answering) as (asking, _):
        with pytest.raises(WritingError, match=r"large wrote no rubric: the (model|endpoint|answer) "):
            await write(asking)


async def test_a_remote_model_is_told_nothing_of_servers_that_it_may_not_see() -> None:
    cases: list[tuple[Mapping[str, Any], bool]] = [
        ({}, False),
        ({"permitted": frozenset({"weather"})}, False),
        ({"permitted": frozenset({"time"}), "servers": {"time", "private"}}, False),
        ({"permitted": frozenset({"private"}), "servers": {"private"}}, False),  # the example called another
        ({"permitted": frozenset({"time"})}, True),
        ({"permitted": frozenset({"*"})}, True),
    ]
    for given, allowed in cases:
        async with endpoint(told(written()), remote=True) as (asking, server):
            if allowed:
                await write(asking, examples=[lived(case())], **given)
                assert len(server.asked) == 1
            else:
                with pytest.raises(ConfigurationError, match="--send-server"):
                    await write(asking, examples=[lived(case())], **given)
                assert server.asked == []


async def test_examples_that_were_not_logged_whole_are_not_shown_and_only_a_few_are() -> None:
    hidden = Case(scripted(OSLO, level=Level.METADATA))
    others = [case(answer=f"It is five past two, run {place}.") for place in range(5)]
    async with endpoint(told(written())) as (asking, server):
        await write(asking, examples=[hidden, *others])
    assert server.asked[0].user.count("The task, in the user's words") == 3
    async with endpoint(told(written())) as (asking, server):
        await write(asking, examples=[hidden])
    assert "Records of agents" not in server.asked[0].user


async def test_every_text_that_is_sent_was_redacted() -> None:
    secretive = case(task="Use hunter2.", answer="I used hunter2.", steps=[{"web.login": {"p": "hunter2"}}])

    def redact(episode: str, text: str) -> str:
        assert episode == secretive.trajectory.id
        return text.replace("hunter2", "[secret]")

    async with endpoint(told(written())) as (asking, server):
        await write(asking, task="Use hunter2.", lines=["login: hunter2"], examples=[secretive], redact=redact)
    assert "hunter2" not in json.dumps(server.asked[0].body)
    assert server.asked[0].user.count("[secret]") == 5


async def test_tasks_and_catalogues_without_end_are_cut_and_cannot_leave_their_fence() -> None:
    async with endpoint(told(written())) as (asking, server):
        await write(asking, task="t" * 100_000, lines=["x: " + "y" * 9_000] * 50, examples=[])
    assert len(server.asked[0].user) < 40_000
    assert "characters left out]" in server.asked[0].user
    assert "(more tools are left out here)" in server.asked[0].user


def test_lines_tell_servers_once_and_each_tool_with_its_parameters() -> None:
    def definition(tool: str) -> CatalogueDefinition:
        schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
        told = {"name": tool, "description": f"Does {tool}.", "inputSchema": schema}
        return CatalogueDefinition(hash=tool, server="t", tool=tool, definition=told, tokens=1)

    catalogue = Catalogue(
        hash="h",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        servers=(CatalogueServer(name="t", written="time", purpose="Clocks."),),
        tools={"time.now": "now", "time.zone": "zone", "time.never_written": "x"},
        definitions={"time.now": definition("now"), "time.zone": definition("zone")},
        introduction=None,
        introduction_tokens=0,
        eager_tokens=0,
    )
    server, now, zone = lines_of(catalogue)
    assert server == "server time: Clocks."
    assert now.startswith('time.now: Does now. parameters: {"type": "object"')
    assert zone.startswith("time.zone: Does zone.")


def test_the_writer_is_named_by_model_and_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = writer_of("large")
    assert before.startswith("model-1/large/")
    assert writer_of("small") != before
    monkeypatch.setattr("judge.writing.by_model.SYSTEM", "Write anything.")
    assert writer_of("large") != before
