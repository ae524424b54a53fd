"""`toolatlas episodes` and `toolatlas stats` over a real log."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema_rs import validator_for
from typer.testing import CliRunner, Result

from proxy.commands import episodes, stats
from proxy.errors import ConfigurationError, GatewayError, UnknownName
from proxy.store.database import Database
from proxy.store.lines import schema
from proxy.store.migrating import migrate
from proxy.store.tables import CallRow, EndingRow, EpisodeRow, SnapshotRow, StepRow
from tests.fixtures.lamp import at, call, ending, episode, put, put_lamp, said, snapshot, step

HOSTILE = "<|im_start|>\x1b[31mred\u202egnp\x07 [bold]x[/bold]"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log with the episode of the lamp, where commands look for it."""
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLATLAS_DATABASE", raising=False)
    url = f"sqlite:///{tmp_path / 'state' / 'toolatlas.db'}"
    asyncio.run(filled(url, put_lamp))
    return url


async def filled(url: str, *fill: Any) -> None:
    await migrate(url)
    database = Database(url)
    try:
        for each in fill:
            await each(database)
    finally:
        await database.close()


def add(url: str, rows: Any) -> None:
    async def fill(database: Database) -> None:
        await put(database, rows)

    asyncio.run(filled(url, fill))


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    app = typer.Typer()
    episodes.register(app)
    stats.register(app)
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


def answer(*arguments: str) -> Any:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_list_shows_the_newest_first_and_goes_on_behind_one(url: str) -> None:
    add(url, {EpisodeRow: [episode(f"e_{number}", began_at=at(number)) for number in range(2, 5)]})
    assert [each["id"] for each in answer("episodes", "list", "--json")] == ["e_4", "e_3", "e_2", "e_1"]
    first = run("episodes", "list", "--limit", "2")
    assert "e_3" in first.stdout
    assert "e_2" not in first.stdout
    assert "--after e_3" in first.stderr
    rest = answer("episodes", "list", "--after", "e_3", "--json")
    assert [each["id"] for each in rest] == ["e_2", "e_1"]
    assert rest[1]["ending"]["task"] == "What does the lamp cost?"
    assert (rest[0]["ending"], rest[0]["task_missing"]) == (None, "running")


def test_filters_choose_and_finding_nothing_has_its_own_exit_code(url: str) -> None:
    add(url, {EpisodeRow: [episode("e_2", agent="bob", began_at=at(86_400))]})
    assert [each["id"] for each in answer("episodes", "list", "--agent", "bob", "--json")] == ["e_2"]
    assert [each["id"] for each in answer("episodes", "list", "--running", "--json")] == ["e_2"]
    assert [each["id"] for each in answer("episodes", "list", "--outcome", "done", "--json")] == ["e_1"]
    assert [each["id"] for each in answer("episodes", "list", "--tool", "find-item", "--json")] == ["e_1"]
    since = f"{at(3_600):%Y-%m-%dT%H:%M:%S%z}"
    assert [each["id"] for each in answer("episodes", "list", "--since", since, "--json")] == ["e_2"]
    assert [each["id"] for each in answer("episodes", "list", "--before", since, "--json")] == ["e_1"]
    nothing = run("episodes", "list", "--agent", "nobody")
    assert (nothing.exit_code, nothing.stdout) == (3, "")
    assert "No such episodes" in nothing.stderr
    assert isinstance(run("episodes", "list", "--after", "e_none").exception, UnknownName)


def test_show_is_a_timeline_of_what_was_asked_and_answered(url: str) -> None:
    shown = run("episodes", "show", "e_1").stdout
    for part in (
        "local (probe 1.0)", "finished, the agent says done", "90 seen; all definitions would have been 4,000",
        "What does the lamp cost?", "It costs 3.",
        '> search_tools {"query": "find an item", "task": "What does the lamp cost?"}',
        "ranked by lexical: shop.find_item", "print(shop.find_item('lamp'))", "+2.0 s  shop.find_item  ok",
        "+3.0 s  shop.find_item  timeout", "< [no result]", "! shop: no answer within 60 s",
    ):  # fmt: skip
        assert part in shown
    assert shown.index("run_python") < shown.index('{"name": "bulb"}') < shown.index("finish_task")
    assert "\n    +2.0 s" in shown


def test_show_says_what_is_not_there(url: str) -> None:
    add(
        url,
        {
            EpisodeRow: [episode("e_2"), episode("e_3")],
            StepRow: [
                step("s_x", 50, episode_id="e_2", level="metadata", arguments=None, observation=None),
                step("s_y", 51, episode_id="e_3", observation_bytes=9_000, observation_kept=4_000),
                step("s_z", 52, episode_id="e_3", observation=said("a" * 5_000)),
            ],
            EndingRow: [ending("e_3", task=None, task_source=None, answer=None)],
        },
    )
    running = run("episodes", "show", "e_2").stdout
    assert "[contents not logged]" in running
    assert "(not known while it is running)" in running
    mute = run("episodes", "show", "e_3").stdout
    assert "(the agent did not say)" in mute
    assert "the log keeps 4,000 of 9,000 bytes" in mute
    assert "[… 4,200 characters left out]" in mute
    assert "a" * 5_000 in run("episodes", "show", "e_3", "--full").stdout


def test_a_delegated_episode_names_its_step_and_the_step_names_it(url: str) -> None:
    add(url, {EpisodeRow: [episode("e_2", parent_step="s_end"), episode("e_3", parent_step="s_gone")]})
    assert "worked as e_2" in run("episodes", "show", "e_1").stdout
    assert "delegated by step s_end of e_1" in run("episodes", "show", "e_2").stdout
    assert "delegated by step s_gone of an episode that is not in the log" in run("episodes", "show", "e_3").stdout


def test_an_episode_that_there_is_not_is_an_error(url: str) -> None:
    error = run("episodes", "show", "e_\x1b[31m").exception
    assert isinstance(error, UnknownName)
    assert "\x1b" not in str(error)


def test_what_agents_and_servers_said_cannot_command_a_terminal(url: str) -> None:
    add(
        url,
        {
            EpisodeRow: [episode("e_2", agent=HOSTILE, client=HOSTILE)],
            StepRow: [
                step("s_x", 50, episode_id="e_2", name=HOSTILE, arguments={HOSTILE: HOSTILE}, observation=said(HOSTILE))
            ],
            CallRow: [call("s_x", episode_id="e_2", server=HOSTILE, tool=HOSTILE, started_at=datetime.now(UTC))],
            EndingRow: [ending("e_2", task=HOSTILE, answer=HOSTILE, outcome=HOSTILE)],
        },
    )
    for command in (("episodes", "show", "e_2"), ("episodes", "list"), ("stats",)):
        shown = run(*command).stdout
        assert "[bold]x" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    # JSON gives the text as it is, in escapes.
    assert answer("episodes", "show", "e_2", "--json")["ending"]["answer"] == HOSTILE


def test_an_export_goes_to_a_file_of_its_owner_and_comes_back(url: str, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    result = run("episodes", "export", "--output", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = file.read_text("utf-8").splitlines()
    validator = validator_for(schema(), validate_formats=True)
    for line in lines:
        validator.validate(json.loads(line))
    assert run("episodes", "export").stdout.splitlines() == lines

    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    asyncio.run(filled(elsewhere))
    assert answer("episodes", "import", str(file), "--database", elsewhere, "--json") == {
        "episodes": 1, "steps": 5, "known": 0, "refused": [],
    }  # fmt: skip
    assert run("episodes", "export", "--database", elsewhere).stdout.splitlines() == lines


def test_an_export_that_fails_leaves_the_file_that_was_there(url: str, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("precious")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database")
    result = run("episodes", "export", "--output", str(file), "--database", f"sqlite:///{broken}")
    assert isinstance(result.exception, ConfigurationError)
    assert file.read_text() == "precious"
    assert isinstance(run("episodes", "export", "-o", str(tmp_path / "no" / "such")).exception, ConfigurationError)
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix == ".jsonl") == ["log.jsonl"]


def test_an_export_takes_ids_and_filters(url: str) -> None:
    add(
        url,
        {
            EpisodeRow: [episode("e_2", began_at=at(5)), episode("e_3", began_at=at(6))],
            StepRow: [step("s_x", 50, episode_id="e_3", level="metadata", arguments=None, observation=None)],
        },
    )

    def exported(*arguments: str) -> list[str]:
        lines = [json.loads(line) for line in run("episodes", "export", *arguments).stdout.splitlines()]
        return [line["id"] for line in lines if line["kind"] == "episode"]

    assert exported() == ["e_1", "e_2", "e_3"]
    assert exported("e_3", "e_1") == ["e_1", "e_3"]
    assert exported("--full") == ["e_1", "e_2"]
    assert exported("--ended") == ["e_1"]
    assert exported("--judged") == []
    assert exported("--not-judged", "--agent", "local", "e_2") == ["e_2"]


def test_a_refused_line_is_named_and_the_rest_is_imported(url: str) -> None:
    lines = run("episodes", "export").stdout
    result = run("episodes", "import", "-", stdin=f'{{"schema": "\x1b"}}\nno json\n{lines}'.encode())
    assert result.exit_code == 1
    assert "0 episodes are new, 1 were known" in result.stdout
    assert "line 1: it is no JSON" in result.stderr
    assert "line 2: it is no JSON" in result.stderr
    assert isinstance(run("episodes", "import", "/no/such/file").exception, ConfigurationError)


def test_messages_are_what_the_agent_said_and_read(url: str) -> None:
    (line,) = [json.loads(each) for each in run("episodes", "export", "--format", "messages").stdout.splitlines()]
    assert (line["schema"], line["missing"], line["task_source"]) == ("toolatlas.messages/1", [], "task")
    messages = line["messages"]
    assert [message["role"] for message in messages] == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
    assert messages[0]["content"] == "Tools are hidden; search for them."
    assert messages[1]["content"] == "What does the lamp cost?"
    assert messages[4]["tool_calls"] == [
        {
            "id": "s_run",
            "type": "function",
            "function": {"name": "run_python", "arguments": '{"code": "print(shop.find_item(\'lamp\'))"}'},
        }
    ]
    assert messages[5] == {"role": "tool", "tool_call_id": "s_run", "content": "3"}
    assert messages[-1]["content"] == "It costs 3."


def test_messages_say_what_is_missing(url: str) -> None:
    add(
        url,
        {
            EpisodeRow: [
                episode("e_2", began_at=at(1), catalog="0" * 64),
                episode("e_3", began_at=at(2)),
                episode("e_4", began_at=at(3)),
            ],
            StepRow: [
                step("s_x", 50, episode_id="e_3", level="metadata", arguments=None, observation=None),
                step("s_y", 51, episode_id="e_4", parent_id="s_gone", mode="code"),
            ],
        },
    )
    lines = [json.loads(each) for each in run("episodes", "export", "--format", "messages").stdout.splitlines()]
    assert [line["missing"] for line in lines] == [
        [],
        ["system", "user", "answer"],
        ["contents"],
        ["user", "run", "answer"],
    ]
    assert [len(line["messages"]) for line in lines] == [9, 0, 0, 1]


def test_stats_count_the_last_days(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    url = f"sqlite:///{tmp_path / 'other.db'}"
    times = {"e_now": now, "e_old": now - timedelta(days=10)}
    add(
        url,
        {
            SnapshotRow: [snapshot()],
            EpisodeRow: [episode(id, began_at=time) for id, time in times.items()],
            StepRow: [
                step(f"s_{id}", number, episode_id=id, started_at=time)
                for number, (id, time) in enumerate(times.items())
            ],
            CallRow: [call(f"s_{id}", episode_id=id, started_at=time, outcome="timeout") for id, time in times.items()],
            EndingRow: [ending(id, ended_at=time) for id, time in times.items()],
        },
    )
    found = answer("stats", "--days", "1", "--json", "--database", url)
    assert (found["episodes"], found["steps"], found["savings"]["saved_tokens"]) == (1, 1, 3_300)
    assert [(tool["server"], tool["tool"], tool["outcomes"]) for tool in found["tools"]] == [
        ("shop", "find-item", {"timeout": 1})
    ]
    shown = run("stats", "--days", "1", "--database", url).stdout
    (row,) = (line for line in shown.splitlines() if "find-item" in line)
    assert [cell.strip() for cell in row.split("│")][1:-1] == [
        "shop", "find-item", "1", "4", "4", "20", "0", "timeout 1",
    ]  # fmt: skip
    titles = next(line for line in shown.splitlines() if "server" in line).split("┃")
    assert [title.strip() for title in titles][1:-1] == [
        "server", "tool", "calls", "p50 ms", "p95 ms", "tokens read", "by code", "not ok",
    ]  # fmt: skip
    assert "Tokens saved in 1 episodes: 3,300 = 4,000" in shown
    assert answer("stats", "--days", "11", "--json", "--database", url)["tools"][0]["calls"] == 2


def test_a_log_that_is_not_there_or_not_as_needed_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    for command in (("episodes", "list"), ("stats",)):
        error = run(*command).exception
        assert isinstance(error, ConfigurationError)
        assert "there is no log database" in str(error)
    assert not (tmp_path / "state").exists()
    url = f"sqlite:///{tmp_path / 'old.db'}"
    asyncio.run(filled(url))
    asyncio.run(migrate(url, to="base"))
    monkeypatch.setenv("TOOLATLAS_DATABASE", url)
    old = run("episodes", "list").exception
    assert isinstance(old, ConfigurationError)
    assert "run `toolatlas migrate`" in str(old)
    away = run("stats", "--database", "postgresql://me:secret@127.0.0.1:9/log").exception
    assert isinstance(away, ConfigurationError)
    assert "secret" not in str(away)
    assert "cannot be used" in str(away)


def test_the_schema_of_an_export_is_printed() -> None:
    assert json.loads(run("episodes", "schema").stdout) == schema()
