"""What simulated servers know: the worlds of tasks, and arguments made of what an agent knows."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from bench.traffic.arguments import Knowing, arguments_for
from bench.traffic.canned import asked_of
from bench.traffic.tasks import WorkTask, entities_of, numbers_of, work_task
from bench.traffic.worlds import Worlds, world_of

TEXT = "Please compare the weather in New Harbour with that of Oslo, for 3 days, and tell 'storm watch' members."
NEEDS = [("weather", "get_forecast"), ("mail", "create_draft")]
WORDS = {("weather", "get_forecast"): "Temperature and rainfall.", ("mail", "create_draft"): "A message."}


def task(text: str = TEXT, name: str = "one") -> WorkTask:
    return work_task({"text": text, "needed_tools": [":".join(need) for need in NEEDS]}, name)


def test_a_task_names_what_it_is_about() -> None:
    assert entities_of(TEXT) == ("New Harbour", "Oslo", "storm watch")
    assert numbers_of(TEXT) == (3.0,)


def test_a_tool_without_a_server_is_no_need() -> None:
    with pytest.raises(ValueError, match="server:tool"):
        work_task({"text": "x", "needed_tools": ["get_forecast"]}, "1")


def test_the_tools_of_a_task_know_all_that_it_names_and_say_the_same_each_time() -> None:
    known = world_of(task(), WORDS)
    assert known == world_of(task(), WORDS)
    told = str([each.record for each in known])
    assert all(entity in told for entity in task().entities)
    assert known[0].record["id"] != known[1].record["id"]


def test_only_a_needed_tool_answers_and_only_about_its_own_tasks() -> None:
    worlds = Worlds([task(), task("What about Lima, Peru?", "two")], WORDS)
    (found,) = worlds.ask("weather", "get_forecast", ["weather in Oslo"], [])
    assert found == world_of(task(), WORDS)[0].record
    assert worlds.ask("weather", "get_forecast", ["Paris"], []) == []
    assert worlds.ask("weather", "get_station", ["Oslo"], []) == []
    assert worlds.ask("nobody", "get_forecast", ["Oslo"], []) == []


def test_an_id_of_one_result_is_known_to_the_next_tool() -> None:
    first, second = world_of(task(), WORDS)
    assert Worlds([task()], WORDS).ask("mail", "create_draft", [first.record["id"]], []) == [second.record]


def test_asked_about_nothing_a_needed_tool_tells_what_it_knows() -> None:
    worlds = Worlds([task(), task("What about Lima, Peru?", "two")], WORDS)
    assert len(worlds.ask("weather", "get_forecast", [], [])) == 2
    assert worlds.ask("weather", "get_forecast", [], [3.0]) == [world_of(task(), WORDS)[0].record]
    assert worlds.ask("weather", "get_station", [], []) == []


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"properties": {"city": {"type": "string"}}, "required": ["city"]}, {"city": "Oslo"}),
        ({"properties": {"city": {"type": "string"}}}, {"city": "Oslo"}),
        ({"properties": {"unit": {"enum": ["kelvin", "celsius"]}}, "required": ["unit"]}, {"unit": "celsius"}),
        ({"properties": {"days": {"type": "integer", "minimum": 2}}, "required": ["days"]}, {"days": 3}),
        ({"properties": {"days": {"type": "integer", "maximum": 2}}, "required": ["days"]}, {"days": 1}),
        ({"properties": {"from": {"type": "string"}, "to": {"type": "string"}}, "required": ["from", "to"]},
         {"from": "Oslo", "to": "KLR-1"}),
        ({"properties": {"start_date": {"type": "string"}}, "required": ["start_date"]}, {"start_date": "2026-03-05"}),
        ({"properties": {"names": {"type": "array", "items": {"type": "string"}}}, "required": ["names"]},
         {"names": ["Oslo"]}),
        ({"properties": {"at": {"$ref": "#/$defs/at"}}, "required": ["at"],
          "$defs": {"at": {"type": "object", "properties": {"x": {"type": "boolean"}, "y": {}}, "required": ["x"]}}},
         {"at": {"x": True}}),
        ({"properties": {"n": {"anyOf": [{"type": "null"}, {"type": "string"}]}}, "required": ["n"]}, {"n": "Oslo"}),
        ({"properties": {"q": {"type": ["null", "string"], "maxLength": 2}}, "required": ["q"]}, {"q": "Os"}),
        ({}, {"query": "Oslo"}),
        ({"properties": {}, "additionalProperties": False}, {}),
        ({"properties": {"page": {"type": "integer"}}}, {}),
    ],
)  # fmt: skip
def test_arguments_are_made_of_what_is_known(schema: dict[str, Any], made: dict[str, Any]) -> None:
    knowing = Knowing(
        subject="Oslo", others=["KLR-1"], numbers=[3.0], text="in Celsius, please", today=date(2026, 3, 5)
    )
    assert arguments_for({"type": "object", **schema}, knowing) == made


def test_choices_and_days_ask_about_nothing() -> None:
    schema = {"properties": {"unit": {"enum": ["celsius"]}, "city": {"type": "string"}}}
    given = {"unit": "celsius", "city": "Oslo", "day": "2026-03-05", "n": 2, "yes": True, "in": {"x": ["Lima", None]}}
    assert asked_of(schema, given) == (["Oslo", "Lima"], [2.0])
