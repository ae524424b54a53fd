"""What the pages say, over both databases, and the same as JSON."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from proxy.dashboard.judged import MAX_JUDGEMENTS
from proxy.dashboard.queries import MAX_STEP_CHARS, MAX_STEPS
from proxy.dashboard.templating import duration
from proxy.dashboard.timeline import MAX_CHARS, MAX_CODE_CALLS, PAGE_CHARS, STEPS_PER_PAGE, timeline
from proxy.dashboard.words import pretty, said
from proxy.endpoint.tokens import Scope
from proxy.store.database import Database
from proxy.store.labelling import Saying, save_labels
from proxy.store.trajectories import Trajectory, load
from tests.fixtures import judged, logged
from tests.proxy.dashboard.conftest import Site, bearer
from tests.proxy.dashboard.test_hostile import Structure

pytestmark = pytest.mark.anyio
EPISODE = f"e_{1:024x}"


async def trajectory_of(database: Database, episode: logged.Episode, task: str | None = "task") -> Trajectory:
    await logged.write(database, episode.end(task))
    found = await load(database, episode.id)
    assert found is not None
    return found


async def text_of(site: Site, page: str, status: int = 200) -> str:
    """The words of a page, each separated by one space."""
    async with site.client() as http:
        answer = await http.get(page)
    assert answer.status_code == status
    structure = Structure()
    structure.feed(answer.text)
    return " ".join(" ".join(structure.text).split())


async def test_servers_are_shown_with_state_use_and_failures(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    text = await text_of(each_site, "/ui/servers?window=all")
    assert "github ready 41 4 1 (25.0 %)" in text
    assert "mail server agents write mail_server down it ended with exit code 1 0 0 0" in text
    assert "postgres not configured 2 1 (50.0 %)" in text


async def test_tools_are_shown_by_use_and_by_failure(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    text = await text_of(each_site, "/ui/tools?window=all")
    assert "5 tools, 7 calls, 3 of them failed." in text
    assert text.index("github get_checks") < text.index("postgres query") < text.index("github get_file")
    assert "postgres query 2 1 (50.0 %) tool error 1 64 ms 88 ms" in text
    text = await text_of(each_site, "/ui/tools?window=all&sort=failures")
    assert text.index("mail send") < text.index("github get_file")
    text = await text_of(each_site, "/ui/tools?window=all&server=mail")
    assert "1 tool, 1 call, 1 of them failed." in text
    assert "github get_checks" not in text


async def test_episodes_are_listed_and_lead_to_older_ones(each_site: Site) -> None:
    logs = [logged.Episode(number, began_at=logged.NOON + timedelta(minutes=number)) for number in range(60)]
    await logged.write(each_site.database, *(one.end(f"task {one.id[-2:]}") for one in logs))
    async with each_site.client() as http:
        first = Structure()
        first.feed((await http.get("/ui/episodes?agent=laptop")).text)
        (older,) = [target for target in first.targets if "after=" in target]
        assert "agent=laptop" in older
        second = (await http.get(f"/ui/{older}")).text
        assert second.count('<a class="task"') == 10
        assert "Newest" in second
        assert "Older" not in second


async def test_a_filter_that_cannot_be_meant_is_explained(site: Site) -> None:
    assert "outcome: one of done, failed, abandoned" in await text_of(site, "/ui/episodes?outcome=x", 400)
    assert "window: one of" in await text_of(site, "/ui/tools?window=x", 400)
    assert "window: one of" in await text_of(site, "/ui/servers?window=x", 400)


async def test_an_empty_log_says_so(site: Site) -> None:
    site = replace(site, servers=())
    assert "Nothing was logged yet" in await text_of(site, "/ui/episodes")
    assert "No episode is like that" in await text_of(site, "/ui/episodes?agent=x")
    assert "No tool was called" in await text_of(site, "/ui/tools")
    assert "No server is configured" in await text_of(site, "/ui/servers")


async def test_an_episode_reads_as_what_happened(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    text = await text_of(each_site, f"/ui/episodes/{EPISODE}")
    parts = (
        "Which pull requests wait for my review, and are their checks green?",
        "Tokens with all tools loaded 49,510",
        "search open pull requests at +0 ms took 12 ms",
        "Revealed github.list_pull_requests signature",
        "Ranking by lexical 3.4 ms Shown as Tool Score 1 github.list_pull_requests 14.200",
        "– gitlab.list_merge_requests 8.020",
        "reveal github.list_pull_requests",
        "code run_python",
        'Code pulls = github.list_pull_requests(owner="acme", repo="shop")',
        "3 calls made by the code",
        "call github.get_checks timeout",
        "Error github did not answer within 30 s",
        "call github.get_file",
        "The log keeps 2,048 of 48,213 bytes of it",
        "finish done",
        "Answer 41 is green, 44 fails.",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


async def test_an_episode_shows_what_judges_said_of_it(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    await judged.write_sample(each_site.database)
    text = await text_of(each_site, f"/ui/episodes/{EPISODE}")
    parts = (
        "reward 0.62 small-model+checks-1/ab12cd34",
        "seen calls + task + answer",
        "by toolatlas default 1",
        "Task fulfilment 0.90",
        "Tool grounding nothing decided",
        judged.CRITERIA[0]["text"] + " partly met 0.50 essential weight 9 step 4 It leaves out one of them.",
        judged.CRITERIA[1]["text"] + " not decided weight 5 Not decided: what would decide it may stand in a part",
        judged.CRITERIA[2]["text"] + " not made a mistake, if it was made",
        judged.CRITERIA[3]["text"] + " not met weight 7",
        "change number 3 of many step 4",
        "nowhere a step that is not here",
        judged.CRITERIA[4]["text"] + " met weight 6 step 1",
        "reward 0.25 checks-1/ab12cd34",
        "Timeline",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    text = await text_of(each_site, f"/ui/episodes/e_{2:024x}")
    assert "There is no reward: 41 % of what was to be decided is missing." in text
    assert "Not decided: contents of this episode were not logged." in text
    assert "No judge has seen it yet" in await text_of(each_site, f"/ui/episodes/e_{3:024x}")


async def test_a_verdict_leads_to_its_step_on_whichever_page_it_stands(site: Site) -> None:
    long = logged.Episode(9)
    steps = [long.step("search_tools", {"query": str(number)}, None) for number in range(STEPS_PER_PAGE + 5)]
    run = long.step("run_python", {"code": "pass"}, None)
    inner = long.step("git.log", {}, None, parent_id=run, mode="code")
    await logged.write(site.database, long.end("task"))
    verdict = judged.verdict("grounded", 1.0, steps=[steps[3], steps[-1], inner])
    await judged.write(site.database, [judged.rubric()], [judged.judgement(long.id, 1.0, [verdict])])
    far, last = STEPS_PER_PAGE + 5, STEPS_PER_PAGE + 6
    async with site.client() as http:
        for start, expected in (
            ("", [f"#{steps[3]}", f"{long.id}?from={far}#{steps[-1]}", f"{long.id}?from={last}#{inner}"]),
            (f"?from={far}", [f"{long.id}?from=4#{steps[3]}", f"#{steps[-1]}", f"#{inner}"]),
        ):
            structure = Structure()
            structure.feed((await http.get(f"/ui/episodes/{long.id}{start}")).text)
            assert set(expected) <= structure.targets
        for target in (f"{long.id}?from={far}", f"{long.id}?from={last}"):
            assert f'id="{inner}"' in (await http.get(f"/ui/episodes/{target}")).text


async def test_of_many_judgements_the_latest_are_shown_and_the_rest_counted(site: Site) -> None:
    await logged.write(site.database, *logged.sample())
    many = [judged.judgement(EPISODE, 0.5, minutes=number, repeat=number) for number in range(MAX_JUDGEMENTS + 2)]
    await judged.write(site.database, [judged.rubric()], many)
    text = await text_of(site, f"/ui/episodes/{EPISODE}")
    assert text.count("repeat ") == MAX_JUDGEMENTS
    assert f"repeat {MAX_JUDGEMENTS + 1} " in text
    assert "2 earlier judgements not shown here" in text


async def test_who_may_still_label_reads_the_judge_only_on_request(site: Site) -> None:
    await logged.write(site.database, *logged.sample())
    await judged.write_sample(site.database)
    async with site.client() as http:
        page = f"/ui/episodes/{EPISODE}"
        assert '<details class="card">' in (await http.get(page)).text
        assert '<details class="card" open>' not in (await http.get(page)).text
        await save_labels(site.database, EPISODE, "local", [Saying(value=1.0)])
        assert '<details class="card" open>' in (await http.get(page)).text
    site.tokens.create("eve", None, [Scope.VIEW])
    async with site.client() as http:
        eve = bearer(site.tokens.create("eva", None, [Scope.VIEW]))
        assert '<details class="card" open>' in (await http.get(page, headers=eve)).text


async def test_a_list_shows_the_reward_of_the_latest_judgement(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    await judged.write_sample(each_site.database)
    text = await text_of(each_site, "/ui/episodes")
    assert (text.count("reward 0.62"), text.count("reward 0.25"), text.count("no reward")) == (1, 0, 1)
    async with each_site.client() as http:
        found = (await http.get("/api/episodes")).json()["episodes"]
    rewards = {one["id"]: None if one["judged"] is None else one["judged"]["reward"] for one in found}
    assert [rewards[f"e_{number:024x}"] for number in range(1, 6)] == [0.625, None, None, None, None]
    (two,) = [one for one in found if one["id"] == f"e_{2:024x}"]
    assert two["judged"]["unrewarded"] == "41 % of what was to be decided is missing"


async def test_a_delegated_episode_and_the_step_that_delegated_it_lead_to_each_other(site: Site) -> None:
    own = logged.Episode(1)
    step = own.step("delegate_task", {"task": "Add."}, logged.text("42"))
    delegated = logged.Episode(2, parent_step=step)
    stray = logged.Episode(3, parent_step="s_gone")
    await logged.write(site.database, own.end("Add."), delegated.end("Add."), stray.end("Add."))
    async with site.client() as http:
        assert f'href="{delegated.id}"' in (await http.get(f"/ui/episodes/{own.id}")).text
        assert f'href="{own.id}#{step}"' in (await http.get(f"/ui/episodes/{delegated.id}")).text
        told = (await http.get(f"/api/episodes/{delegated.id}")).json()
    assert (told["parent_step"], told["parent_episode"]) == (step, own.id)
    assert "Delegated by a step that is not in the log: s_gone" in await text_of(site, f"/ui/episodes/{stray.id}")


async def test_what_was_not_logged_is_said(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    text = await text_of(each_site, f"/ui/episodes/e_{4:024x}")
    assert "not logged (level metadata)" in text
    assert "gateway lost" in text
    running = await text_of(each_site, f"/ui/episodes/e_{5:024x}")
    assert "not known while the episode runs" in running
    assert "Running for at least" in running


async def test_an_episode_that_is_not_there_is_a_404(site: Site) -> None:
    for page in ("e_0", "%00", "..%2F..", "x" * 2_000):
        assert "There is no episode" in await text_of(site, f"/ui/episodes/{page}", 404)
        async with site.client() as http:
            assert (await http.get(f"/api/episodes/{page}")).status_code == 404


async def test_a_long_episode_is_shown_in_parts(site: Site) -> None:
    one = logged.Episode(1)
    for number in range(STEPS_PER_PAGE + 20):
        one.call("s", f"tool_{number}", {}, logged.text("x"))
    await logged.write(site.database, one.end("long"))
    first = await text_of(site, f"/ui/episodes/{EPISODE}")
    assert f"Steps 1 to {STEPS_PER_PAGE} of {STEPS_PER_PAGE + 20}" in first
    assert "Later steps" in first
    assert f"s.tool_{STEPS_PER_PAGE} " not in first
    last = await text_of(site, f"/ui/episodes/{EPISODE}?from={STEPS_PER_PAGE + 1}")
    assert f"s.tool_{STEPS_PER_PAGE} " in last
    assert "Later steps" not in last
    for odd in ("0", "x", "99999999999", "-1", "²", "100000"):
        assert "Timeline" in await text_of(site, f"/ui/episodes/{EPISODE}?from={odd}")


async def test_every_cut_is_counted(site: Site) -> None:
    one = logged.Episode(1)
    run = one.step("run_python", {"code": "y" * (MAX_CHARS + 5)}, logged.text("ok"))
    for _ in range(MAX_CODE_CALLS + 3):
        one.step("s.t", {}, None, parent_id=run, mode="code", took_ms=1)
    shown = timeline(await trajectory_of(site.database, one))
    (entry,) = shown.entries
    assert (len(entry.calls), entry.more_calls) == (MAX_CODE_CALLS, 3)
    code = entry.sent[0]
    assert (len(code.text), code.chars) == (MAX_CHARS, MAX_CHARS + 5)
    assert "first 20,000 of 20,005 characters" in code.notes[0]
    text = await text_of(site, f"/ui/episodes/{EPISODE}")
    assert "3 more calls of this code are not shown" in text


async def test_bars_stay_within_the_episode(site: Site) -> None:
    one = logged.Episode(1)
    one.step("list_servers", {}, logged.text("a"), took_ms=1.0)
    one.step("list_servers", {}, logged.text("a"), took_ms=60_000.0)
    one.step("list_servers", {}, logged.text("a"), took_ms=1.0, started_at=logged.NOON - timedelta(seconds=5))
    shown = timeline(await trajectory_of(site.database, one))
    assert all(0 <= entry.bar_x <= 100 and 0 < entry.bar_width <= 100 for entry in shown.entries)
    assert all(entry.offset_ms >= 0 for entry in shown.entries)


async def test_a_title_that_is_cut_leaves_the_arguments_whole(site: Site) -> None:
    one = logged.Episode(1)
    query = "q" * 300
    one.step("search_tools", {"query": query}, logged.text("a"))
    one.step("search_tools", {"query": "short", "limit": 3}, logged.text("a"))
    one.step("search_tools", "not an object", logged.text("a"))
    long, short, odd = timeline(await trajectory_of(site.database, one)).entries
    assert long.title.endswith("…")
    assert query in long.sent[0].text
    assert (short.title, short.sent[0].text) == ("short", '{"limit": 3}')
    assert (odd.title, odd.sent[0].text) == ("search_tools", "not an object")


async def test_what_the_server_was_sent_and_sent_is_shown_where_it_differs(site: Site) -> None:
    one = logged.Episode(1)
    step = one.step("call_tool", {"tool": "s.t", "arguments": '{"a": 1}'}, logged.text("short"))
    one.called(step, "s", "t", arguments={"a": 1}, result=logged.text("long"))
    same = one.step("call_tool", {"tool": "s.t", "arguments": {"a": 1}}, logged.text("short"))
    one.called(same, "s", "t", arguments={"a": 1})
    first, second = timeline(await trajectory_of(site.database, one)).entries
    labels = [passage.label for passage in (*first.sent, *first.received)]
    assert labels == ["Arguments", "Arguments as the server got them", "What the agent read", "What the server sent"]
    assert [passage.label for passage in (*second.sent, *second.received)] == ["Arguments", "What the agent read"]


def test_a_result_is_shown_as_its_words() -> None:
    assert said(logged.text("a\nb")) == "a\nb"
    assert said({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) == "a\nb"
    image = {"content": [{"type": "image", "mimeType": "image/png", "data": "x" * 4_000}]}
    assert said(image) == "[image, image/png: 4,000 characters in base64]"
    assert said({"content": []}) == '{"content": []}'
    assert said("plain") == "plain"
    assert said({"content": ["odd", None]}) == '"odd"\nnull'
    assert pretty(2**70) == str(2**70)


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (0.04, "0 ms"),
        (3.44, "3.4 ms"),
        (9.96, "10 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (9_996, "10.0 s"),
        (59_960, "1 min 0 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
    ],
)
def test_durations_are_said_for_people(milliseconds: float, words: str) -> None:
    assert duration(milliseconds) == words


async def test_the_same_is_there_as_json(each_site: Site) -> None:
    await logged.write(each_site.database, *logged.sample())
    async with each_site.client() as http:
        listed = (await http.get("/api/episodes?limit=2")).json()
        assert [one["id"][-1] for one in listed["episodes"]] == ["5", "1"]
        assert listed["episodes"][1]["failures"] == 1
        assert listed["episodes"][1]["began_at"] == "2026-11-30T11:51:00+00:00"
        more = (await http.get("/api/episodes", params={"limit": "2", "after": listed["next"]})).json()
        assert [one["id"][-1] for one in more["episodes"]] == ["2", "3"]
        episode = (await http.get(f"/api/episodes/{EPISODE}")).json()
        assert [step["name"] for step in episode["steps"]][2] == "run_python"
        assert len(episode["steps"][2]["code_calls"]) == 3
        assert episode["ending"]["outcome"] == "done"
        stats = (await http.get("/api/stats?window=all")).json()
        assert stats["window"] == "all"
        assert {"server": "mail", "tool": "send", "calls": 1, "failures": 1}.items() <= stats["tools"][-1].items()
        servers = (await http.get("/api/servers")).json()["servers"]
        assert [one["phase"] for one in servers] == ["ready", "down"]
        for wrong in ("/api/episodes?limit=x", "/api/stats?window=x"):
            answer = await http.get(wrong)
            assert answer.status_code == 400
            assert answer.json()["error"]
        assert (await http.get("/api/episodes")).headers["content-type"] == "application/json"


async def test_json_carries_any_value_exactly(each_site: Site) -> None:
    value = {"big": 2**60 + 1, "half": "\ud800", "nul": "\0", "deep": [[None]]}
    one = logged.Episode(1)
    one.step("x", value, {"structuredContent": value}, mode="direct")
    await logged.write(each_site.database, one.end("x"))
    async with each_site.client() as http:
        (step,) = (await http.get(f"/api/episodes/{EPISODE}")).json()["steps"]
    assert step["arguments"] == value
    assert "⟨U+D800⟩" in await text_of(each_site, f"/ui/episodes/{EPISODE}")


async def test_a_database_that_is_away_is_said_and_pages_come_back(site: Site) -> None:
    path = site.folder / "log.db"
    kept = path.read_bytes()
    await site.database.close()
    path.write_bytes(b"no database" * 1_000)
    async with site.client() as http:
        for page in ("/ui/episodes", "/ui/tools", "/ui/servers", f"/ui/episodes/{EPISODE}", "/api/episodes"):
            answer = await http.get(page)
            assert answer.status_code == 503, page
            assert "does not answer" in answer.text
            assert str(site.folder) not in answer.text
        await site.database.close()
        path.write_bytes(kept)
        assert (await http.get("/ui/episodes")).status_code == 200


@pytest.mark.parametrize(("steps", "chars"), [(MAX_STEPS + 1, 1), (3, MAX_STEP_CHARS // 2)])
async def test_an_episode_that_is_too_long_is_not_read_for_a_page(each_site: Site, steps: int, chars: int) -> None:
    one = logged.Episode(7)
    for _ in range(steps):
        one.call("s", "t", {"a": "y" * (chars // 2)}, logged.text("x" * (chars // 2)))
    other = logged.Episode(80)
    other.call("s", "t", {}, logged.text("x" * (MAX_STEP_CHARS // 2)))
    await logged.write(each_site.database, one.end("long"), other.end("short"))
    async with each_site.client() as http:
        page = await http.get(f"/ui/episodes/{one.id}")
        assert page.status_code == 413
        assert f"`toolatlas episodes show {one.id}`" in page.text
        told = await http.get(f"/api/episodes/{one.id}")
        assert (told.status_code, "toolatlas episodes show" in told.json()["error"]) == (413, True)
        assert (await http.get(f"/ui/episodes/{other.id}")).status_code == 200
        assert len((await http.get(f"/api/episodes/{other.id}")).json()["steps"]) == 1


async def test_a_page_has_so_much_text_and_the_rest_is_on_the_next(site: Site) -> None:
    one, words = logged.Episode(7), "\u202e" * MAX_CHARS
    for number in range(60):
        one.call("s", f"tool_{number}", {}, logged.text(words))
    run = one.step("run_python", {"code": "1"}, logged.text("done"))
    for number in range(60):
        call = one.step(f"s.inner_{number}", {}, logged.text(words), parent_id=run, mode="code")
        one.called(call, "s", f"inner_{number}")
    await logged.write(site.database, one.end("long"))
    trajectory = await trajectory_of(site.database, one)
    seen: list[str] = []
    while len(seen) < len(trajectory.steps):
        shown = timeline(trajectory, len(seen) + 1)
        assert sum(entry.chars for entry in shown.entries) <= PAGE_CHARS
        seen += [entry.title for entry in shown.entries]
        (code,) = [entry for entry in shown.entries if entry.kind == "code"] or [None]
        if code is not None:
            assert len(code.calls) + code.more_calls == 60
    assert len(seen) == 61
    async with site.client() as http:
        page = (await http.get(f"/ui/episodes/{one.id}")).text
    last = re.search(r"Steps 1 to (\d+) of 61", page)
    assert last is not None
    assert f'href="{one.id}?from={int(last[1]) + 1}"' in page
