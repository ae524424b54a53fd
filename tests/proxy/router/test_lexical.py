"""What agents may rely on from lexical search."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.router.base import Query
from proxy.router.lexical import MAX_DESCRIPTION_CHARS, LexicalRouter

Tools = Mapping[str, str | Mapping[str, Any]]


def server(name: str, tools: Tools, purpose: str = "") -> ServerRecord:
    """Tools as name -> description, or name -> raw tool."""
    raws = {
        tool: {"name": tool, **({"description": value} if isinstance(value, str) else value)}
        for tool, value in tools.items()
    }
    records = tuple(
        ToolRecord(server=name, name=tool, written=f"{name}.{tool.replace('-', '_')}", raw=raw)
        for tool, raw in raws.items()
    )
    return ServerRecord(name=name, written=name, purpose=purpose, tools=records, listing=None)


def found(servers: Sequence[ServerRecord], text: str, limit: int = 10, /, **query: Any) -> list[str]:
    return [ranked.tool for ranked in LexicalRouter(servers).rank(Query(text, **query), limit)]


GITHUB = server(
    "github",
    {
        "create_issue": "Open a new issue in a repository",
        "listPullRequests": "List the pull requests of a repository",
        "search": "Search code",
    },
    purpose="Repositories, issues and pull requests",
)
WEATHER = server(
    "weather",
    {"get_forecast": "Forecast of temperature and rain for a city", "search": "Search stations"},
    purpose="Weather of any place",
)
BOTH = [GITHUB, WEATHER]


def test_the_tool_whose_words_are_asked_for_comes_first_in_any_inflection() -> None:
    assert found(BOTH, "forecasting temperatures in cities")[0] == "weather.get_forecast"
    assert found(BOTH, "listing pull request")[0] == "github.listPullRequests"


def test_names_are_searched_by_the_words_in_them() -> None:
    servers = [server("a", {"getHTTPHeaders2": "", "other": ""}), server("b", {"read-file_lines": ""})]
    for text in ("http", "headers", "2", "gethttpheaders2"):
        assert found(servers, text) == ["a.getHTTPHeaders2"]
    assert found(servers, "lines") == ["b.read_file_lines"]


def test_a_name_with_capitals_inside_is_found_in_lower_case_too() -> None:
    assert found([server("a", {"x": "Reads GitHub", "y": "Reads files"})], "github") == ["a.x"]


def test_a_server_s_name_and_purpose_lead_to_its_tools() -> None:
    servers = [server("jira", {"run": "Go"}, purpose="Tickets of a project"), server("z", {"run": "Go"})]
    assert found(servers, "jira") == ["jira.run"]
    assert found(servers, "ticket") == ["jira.run"]


def test_parameters_are_searched_by_name_and_by_the_first_words_of_their_descriptions() -> None:
    schema = {
        "type": "object",
        "properties": {
            "zipCode": {"type": "string", "description": "Postal area one two three four five six LATE"},
            "odd": True,
            "odder": {"description": ["not", "text"]},
        },
    }
    servers = [server("a", {"x": {"inputSchema": schema}, "y": ""})]
    assert found(servers, "zip") == found(servers, "postal") == ["a.x"]
    assert found(servers, "late") == []


@pytest.mark.parametrize("schema", [None, [], {"properties": None}, {"properties": []}, {"properties": {"a": None}}])
def test_a_malformed_tool_is_still_found_by_its_name(schema: object) -> None:
    assert found([server("a", {"sort_pages": {"description": 7, "inputSchema": schema}})], "sort") == ["a.sort_pages"]


def test_tools_that_match_nothing_are_not_returned() -> None:
    assert found(BOTH, "temperature") == ["weather.get_forecast"]
    assert found(BOTH, "zebra") == []
    assert found(BOTH, "zebra", task="quagga") == []


@pytest.mark.parametrize("text", ["", "   ", "?!… --", "\ud800"])
def test_a_query_without_words_finds_nothing(text: str) -> None:
    assert found(BOTH, text) == []


def test_a_catalogue_without_words_or_tools_finds_nothing() -> None:
    assert found([], "anything", task="anything", servers=frozenset({"x"})) == []
    assert found([server("a", {})], "a") == []


def test_one_tool_is_found_by_its_words_and_only_by_them() -> None:
    assert found([server("a", {"tell_time": "Current time"})], "what time is it") == ["a.tell_time"]
    assert found([server("a", {"tell_time": "Current time"})], "weather") == []


def test_the_limit_is_kept() -> None:
    assert len(found(BOTH, "search repository issue", 2)) == 2
    assert found(BOTH, "search", 0) == found(BOTH, "search", -1) == []


def test_ties_are_settled_by_the_written_name_whatever_the_order_of_the_servers() -> None:
    servers = [server(name, {"look_up": "Looks a word up"}) for name in ("d", "b", "c", "a")]
    expected = ["a.look_up", "b.look_up", "c.look_up", "d.look_up"]
    assert found(servers, "look word") == found(servers[::-1], "look word") == expected


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    servers = [server("a", {"x": "The one and only", "y": "Ships"})]
    assert found(servers, "the ships") == ["a.y"]
    assert found(servers, "the") == ["a.x"]


@pytest.mark.parametrize("text", ["weather.search", "WEATHER.Search", "please use `weather.search`, with city=Rome"])
def test_a_written_name_in_the_query_ranks_its_tool_first(text: str) -> None:
    assert found(BOTH, f"{text} search code repository issue")[0] == "weather.search"


def test_a_server_s_own_name_of_a_tool_in_the_query_ranks_it_first() -> None:
    servers = [server("a", {"get-page": "x"}), server("b", {"pages": "Get the page, get a page of any page"})]
    assert found(servers, "get-page")[0] == found(servers, "call get_page(1) to get the page")[0] == "a.get_page"
    assert found(BOTH, "forecast temperature rain, then listPullRequests")[0] == "github.listPullRequests"


def test_a_tool_named_like_a_plain_word_does_not_capture_every_query_with_that_word() -> None:
    servers = [server("a", {"search": "Finds"}), server("b", {"papers": "Search scientific papers on any subject"})]
    assert found(servers, "search scientific papers")[0] == "b.papers"
    assert found(servers, "Search")[0] == "a.search"


def test_a_query_can_stay_within_servers() -> None:
    assert found(BOTH, "search", servers=frozenset({"weather"})) == ["weather.search"]
    assert found(BOTH, "github.search", servers=frozenset({"weather"})) == ["weather.search"]
    assert found(BOTH, "search", servers=frozenset({"unknown"})) == found(BOTH, "search", servers=frozenset()) == []


def test_the_task_decides_between_tools_that_the_query_alone_leaves_equal() -> None:
    servers = [server(name, {"find": f"Find {word}"}) for name, word in [("a", "recipes"), ("b", "trains")]]
    assert found(servers, "find", task="I have to get from Rome to Milan by train")[0] == "b.find"
    assert found(servers, "find recipes", task="trains trains trains")[0] == "a.find"


def test_a_step_of_a_long_query_is_found_though_the_other_steps_have_more_matches() -> None:
    noise = {f"convert_{unit}": f"Convert {unit} values of a table, a report" for unit in ("mass", "area", "time")}
    servers = [server("units", noise), server("mail", {"send": "Send an electronic letter"})]
    text = "Convert mass and area and time values of a table for a report.\nSend the electronic letter to my boss!"
    assert "mail.send" in found(servers, text, 2)


def test_text_of_scripts_without_spaces_is_found_by_a_part_of_it() -> None:
    servers = [
        server("a", {"x": "查询城市的天气预报", "y": "翻译文本"}),
        server("b", {"x": "ホテルを予約する", "y": "날씨를알려준다", "z": "จองโรงแรม"}),
    ]
    assert found(servers, "天气") == ["a.x"]
    assert found(servers, "予約") == ["b.x"]
    assert found(servers, "날씨") == ["b.y"]
    assert found(servers, "โรงแรม") == ["b.z"]
    assert found(servers, "上海天气预报API") == ["a.x"]


def test_text_of_other_alphabets_is_found_by_its_words() -> None:
    servers = [server("a", {"x": "Прогноз погоды", "y": "मौसम की जानकारी", "z": "Wetter für Städte"})]
    assert found(servers, "ПОГОДЫ") == ["a.x"]
    assert found(servers, "मौसम") == ["a.y"]
    assert found(servers, "STÄDTE") == found(servers, "städte") == ["a.z"]


def test_what_stands_far_down_in_a_description_is_not_searched() -> None:
    long = "filler " * (MAX_DESCRIPTION_CHARS // 7 + 1) + "needle"
    assert found([server("a", {"x": long})], "filler") == ["a.x"]
    assert found([server("a", {"x": long})], "needle") == []


def test_scores_fall_along_the_ranking_and_are_positive() -> None:
    scores = [ranked.score for ranked in LexicalRouter(BOTH).rank(Query("search repository city", task="issues"), 9)]
    assert len(scores) > 2
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_several_threads_get_the_same_answers_as_one() -> None:
    router = LexicalRouter(BOTH)
    queries = [Query(text) for text in ("search code", "forecast city", "issues", "pull requests")] * 25
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: router.rank(query, 5), queries))
    assert together == [router.rank(query, 5) for query in queries]


def test_building_and_asking_prints_nothing_and_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from tests.proxy.router.test_lexical import *\n"
        "ranked = LexicalRouter(BOTH).rank(Query('search issues city repository', task='open pull requests'), 9)\n"
        "print([(r.tool, r.score) for r in ranked])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=60
        )
        for seed in ("1", "2")
    ]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout.splitlines()) == 1
