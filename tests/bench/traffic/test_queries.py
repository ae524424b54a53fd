"""What simulated agents search for."""

from __future__ import annotations

from random import Random

from bench.traffic.queries import MOST_WORDS, Queries
from bench.traffic.tasks import WorkTask, work_task

ROW = {
    "text": "I plan a picnic by the lake. Will it rain this weekend? And somebody has to write to the guests.",
    "concrete_text": "1. Call weather:get_forecast to fetch rain and temperature for the lake.\n"
    "2. Then use mail:create_draft(to=guests) to write an invitation message to all guests.",
    "needed_tools": ["weather:get_forecast", "mail:create_draft"],
}
DESCRIPTIONS = ["Forecast of rain and temperature", "Writes a draft of a message to somebody"]


def task() -> WorkTask:
    return work_task(dict(ROW), "1")


def asked(place: int, count: int = 40, work: WorkTask | None = None) -> list[str]:
    queries = Queries(work or task(), DESCRIPTIONS)
    return [queries.of_need(place, Random(number)) for number in range(count)]


def test_queries_bear_no_names_of_tools_and_servers() -> None:
    for query in (*asked(0), *asked(1)):
        assert not {"weather", "mail", "forecast"} & set(query.lower().split())
        assert "_" not in query
        assert "to=" not in query
        assert 0 < len(query.split()) <= MOST_WORDS


def test_queries_speak_of_their_need() -> None:
    assert sum("rain" in query for query in asked(0)) > 30
    assert sum("write" in query or "message" in query or "guests" in query for query in asked(1)) > 30


def test_the_same_chance_gives_the_same_words_and_another_others() -> None:
    assert asked(0) == asked(0)
    assert len(set(asked(0))) > 10


def test_without_a_plan_the_tasks_own_sentences_stand_for_it() -> None:
    plain = work_task({key: ROW[key] for key in ("text", "needed_tools")}, "1")
    said = set(str(ROW["text"]).lower().replace(".", " ").replace("?", " ").split())
    for query in asked(0, work=plain):
        assert set(query.lower().replace(".", " ").replace("?", " ").split()) <= said


def test_a_vague_query_is_short() -> None:
    assert all(len(Queries(task(), DESCRIPTIONS).vague(Random(number)).split()) <= 4 for number in range(20))
