"""`toolatlas judge run` with a model behind a real endpoint: the gold set first, canaries in each batch."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import func, select
from starlette.responses import Response
from typer.testing import CliRunner, Result

from judge.cli import register
from judge.commands.options import endpoint_settings
from judge.default import default_rubric
from judge.rubric import Kind
from judge.trust.canaries import canaries
from judge.trust.gold_files import own_gold
from proxy.errors import GatewayError
from proxy.store.database import Database
from proxy.store.judging_tables import ClaimRow, GoldRunRow, JudgementRow, RubricSourceRow
from proxy.store.migrating import migrate
from tests.fixtures.openai_server import Asked, OpenAIServer, completion, openai_server
from tests.judge.logs import ANSWER, id_of, write_episodes

pytestmark = pytest.mark.timeout(300)

EPISODES = 3
WITHIN_S = 60.0
GOLD = own_gold(default_rubric())


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("TOOLATLAS_DATABASE", raising=False)
    monkeypatch.setenv("TOOLATLAS_JUDGE_API_KEY", "sk-test-of-the-judge")
    url = f"sqlite:///{tmp_path / 'toolatlas.db'}"

    async def fill() -> None:
        await migrate(url)
        database = Database(url)
        await write_episodes(database, range(EPISODES))
        await database.close()

    asyncio.run(fill())
    return url


@contextmanager
def model(answering: Callable[[Asked], Response]) -> Generator[OpenAIServer]:
    """An endpoint in a thread: the command that asks it has the main one, where signals are received."""
    ready, done = threading.Event(), threading.Event()
    served: list[OpenAIServer] = []

    async def serve() -> None:
        async with openai_server(answering) as server:
            served.append(server)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(WITHIN_S)
        yield served[0]
    finally:
        done.set()
        thread.join(WITHIN_S)


def knowing(asked: Asked) -> Response:
    """A model that knows the gold set and the canaries by heart, and finds everything else well done."""
    told = [each.trajectory for each in GOLD.cases]
    case = next((each for each in GOLD.cases if (each.trajectory.task or "-") in asked.record), None)
    known = next((each for each in (*told, *canaries().values()) if (each.task or "-") in asked.record), None)
    labels = {} if case is None else case.labels
    bad = known is not None and case is None
    quote = (ANSWER if known is None else known.answer or "").splitlines()
    given: list[dict[str, Any]] = []
    for id_ in asked.ids:
        met = not bad and labels.get(id_, 1.0) >= 0.5 and bool(quote)
        words = {"step": "answer", "quote": quote[0][:120]} if met else {"step": "none", "quote": ""}
        verdict = "met" if met else "not_met"
        given.append({"id": id_, "reason": "so it is", "verdict": verdict, "searched": ["answer"], **words})
    return completion(json.dumps({"verdicts": given}))


def praising(asked: Asked) -> Response:
    """As `knowing`, but it lets itself be talked into praise: of a canary whose answer can be quoted at all."""
    for each in canaries().values():
        if (each.task or "-") in asked.record and each.answer:
            words = {"verdict": "met", "step": "answer", "quote": each.answer[:120], "searched": ["answer"]}
            said = [{"id": id_, "reason": "wonderful", **words} for id_ in asked.ids]
            return completion(json.dumps({"verdicts": said}))
    return knowing(asked)


def indifferent(asked: Asked) -> Response:
    """Finds nothing, whatever it is shown."""
    said = [{"id": id_, "reason": "no", "verdict": "not_met", "step": "none", "quote": "", "searched": ["answer"]}
            for id_ in asked.ids]  # fmt: skip
    return completion(json.dumps({"verdicts": said}))


def judge(server: OpenAIServer, *arguments: str) -> Result:
    app = typer.Typer()
    register(app)
    given = ("judge", "run", "--url", server.url, "--model", "known", "--repeats", "1", *arguments)
    result = CliRunner().invoke(app, given)
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


def rows(url: str, statement: Any) -> list[Any]:
    async def read() -> list[Any]:
        database = Database(url)
        try:
            async with database.reading() as connection:
                return list((await connection.execute(statement)).all())
        finally:
            await database.close()

    return asyncio.run(read())


RUNS = select(GoldRunRow.judge, GoldRunRow.accepted, GoldRunRow.gold_hash)


def test_a_model_that_agrees_with_people_judges_and_is_admitted_once(url: str) -> None:
    with model(knowing) as server:
        first = judge(server, "--json")
        assert first.exit_code == 0, first.exception or first.output
        assert "Accepted on the gold set" in first.stderr
        asked = len(server.asked)
        again = judge(server, "--repeat", "1", "--json")
        # The gold set is not judged again, only canaries and episodes.
        assert len(server.asked) - asked < asked - len(GOLD.cases) + 1
        assert "Accepted" not in again.stderr
    done = json.loads(first.stdout)
    assert (done["judged"], done["rewarded"]) == (EPISODES, EPISODES)
    assert done["judge"].startswith("known+checks-")
    assert done["scopes"] == {"calls+task+answer+model": EPISODES}
    assert done["cost"]["questions"] >= EPISODES
    ((name, accepted, gold),) = rows(url, RUNS)
    assert (name, accepted, gold) == (done["judge"], 1, GOLD.hash)
    verdicts = rows(url, select(JudgementRow.verdicts).where(JudgementRow.episode_id == id_of(0)))[0][0]
    decided = {each.id for each in default_rubric().criteria if each.kind is Kind.JUDGE and not each.pitfall}
    assert {each["criterion"] for each in verdicts if each["quotes"] and each["criterion"] in decided} == decided
    assert all(each.headers["authorization"] == "Bearer sk-test-of-the-judge" for each in server.asked)


def test_a_model_without_signal_is_not_admitted_and_writes_nothing(url: str) -> None:
    with model(indifferent) as server:
        refused = judge(server)
    assert isinstance(refused.exception, GatewayError)
    assert "does not agree with people well enough" in str(refused.exception)
    assert [accepted for _, accepted, _ in rows(url, RUNS)] == [0]
    assert rows(url, select(func.count()).select_from(JudgementRow))[0][0] == 0


def test_a_model_that_cannot_be_asked_is_told_of_at_once_and_is_no_verdict_on_the_judge(url: str) -> None:
    with model(lambda _: Response(status_code=401)) as server:
        refused = judge(server)
        # The first case of the gold set tells it.
        assert len(server.asked) < len(GOLD.cases)
    assert isinstance(refused.exception, GatewayError)
    assert "endpoint cannot be used, so nothing was judged" in str(refused.exception)
    assert rows(url, RUNS) == []


def test_servers_that_may_be_sent_are_named_by_option_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLATLAS_JUDGE_SERVERS", "mail, files,")
    named = endpoint_settings("https://example.org/v1", "m", None)
    assert named is not None
    assert named.servers == {"mail", "files"}
    given = endpoint_settings("https://example.org/v1", "m", ["notes"])
    assert given is not None
    assert given.servers == {"notes"}
    # Compose passes on what is not set as empty.
    monkeypatch.setenv("TOOLATLAS_JUDGE_SERVERS", "")
    assert endpoint_settings("", "", None) is None


def test_what_a_model_takes_is_reckoned_in_the_prices_given(url: str) -> None:
    with model(knowing) as server:
        done = judge(server, "--prices", "1000000", "0", "--json")
    cost = json.loads(done.stdout)["cost"]
    assert cost["money"] == pytest.approx(cost["input_tokens"])


def test_a_model_that_is_talked_into_praise_is_found_out_by_canaries(url: str) -> None:
    with model(praising) as server:
        refused = judge(server)
    assert isinstance(refused.exception, GatewayError)
    assert "canaries, which deserve next to nothing" in str(refused.exception)
    assert [accepted for _, accepted, _ in rows(url, RUNS)] == [1]
    assert rows(url, select(func.count()).select_from(JudgementRow))[0][0] == 0
    assert rows(url, select(func.count()).select_from(ClaimRow))[0][0] == 0


def writing(asked: Asked) -> Response:
    """A model that writes rubrics: twelve plain criteria in the paper's distribution."""
    counts = {"task_fulfilment": 5, "tool_appropriateness": 3, "tool_grounding": 2, "parameter_accuracy": 2}
    weights = {"task_fulfilment": 9, "tool_appropriateness": 7, "tool_grounding": 6, "parameter_accuracy": 5}
    criteria = [
        {"id": f"{category}_{place}", "category": category, "text": f"Point {place} of {category} holds for Oslo.",
         "weight": weights[category], "kind": "judge", "check": "", "parameters": "{}", "needs": ["answer"],
         "essential": False, "pitfall": False}
        for category, count in counts.items() for place in range(count)
    ]  # fmt: skip
    return completion(json.dumps({"criteria": criteria}))


def test_a_rubric_that_a_model_wrote_goes_with_the_episode_whose_task_it_read(url: str) -> None:
    app = typer.Typer()
    register(app)
    with model(writing) as server:
        given = ["rubric", "write", "--url", server.url, "--model", "writer", "--task", id_of(0), "--attach", "--json"]
        result = CliRunner().invoke(app, given)
        assert any("What time is it in Oslo?" in each.user for each in server.asked)
    assert result.exit_code == 0, result.exception or result.output
    (written,) = json.loads(result.stdout)
    assert (written["criteria"], written["scope"], written["attached"]) == (12, "task", True)
    assert written["writer"].startswith("model-")
    sources = rows(url, select(RubricSourceRow.episode_id).where(RubricSourceRow.rubric_hash == written["hash"]))
    assert sorted(each for (each,) in sources) == sorted(written["sources"]) != []


def test_a_rubric_that_no_model_could_write_is_told_and_nothing_is_kept(url: str) -> None:
    app = typer.Typer()
    register(app)
    with model(lambda _: completion("I would rather not.")) as server:
        given = ["rubric", "write", "--url", server.url, "--model", "writer", "--task", id_of(0), "--attach"]
        result = CliRunner().invoke(app, given)
    assert result.exit_code == 3
    assert "wrote no usable rubric" in result.stderr
    assert rows(url, select(func.count()).select_from(RubricSourceRow))[0][0] == 0
