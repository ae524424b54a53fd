"""The commands of the judge over a real log, as a person or a program calls them."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import func, select
from typer.testing import CliRunner, Result

from judge.claims import Claim
from judge.cli import register
from judge.default import default_rubric
from judge.judging import Judged
from judge.keeping import keep_judgements, keep_labels, keep_rubric
from judge.model.endpoint import Cost
from judge.reward import reward
from judge.rows import row_of
from judge.rubric import Rubric
from judge.rubric_files import write as rubric_file
from judge.scope import Scope
from judge.settings import RewardSettings
from judge.trust.gold_files import read_gold
from judge.verdict import Verdict
from proxy.errors import ConfigurationError, GatewayError, InvalidArguments, UnknownName
from proxy.store.database import Database
from proxy.store.judging_tables import CalibrationRow, JudgementRow
from proxy.store.migrating import migrate
from tests.fixtures.logged import write
from tests.judge.logs import a_rubric, an_episode, id_of, running, write_episodes

EPISODES = 12
HOSTILE = "\x1b[31mred\u202egnp [bold]x[/bold]"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log with twelve episodes of one task and one that is running, where commands look for it."""
    for name in ("URL", "MODEL", "API_KEY"):
        monkeypatch.delenv(f"TOOLATLAS_JUDGE_{name}", raising=False)
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLATLAS_DATABASE", raising=False)
    url = f"sqlite:///{tmp_path / 'state' / 'toolatlas.db'}"

    async def fill() -> None:
        await migrate(url)
        database = Database(url)
        await write_episodes(database, range(EPISODES))
        await write(database, running(EPISODES))
        await database.close()

    asyncio.run(fill())
    return url


def in_log(url: str, work: Any) -> Any:
    async def run() -> Any:
        database = Database(url)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def run(*arguments: str, stdin: str | None = None) -> Result:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


def answer(*arguments: str, code: int = 0) -> Any:
    result = run(*arguments)
    assert result.exit_code == code, result.output or result.exception
    return json.loads(result.stdout)


def error_of(*arguments: str) -> BaseException:
    error = run(*arguments).exception
    assert error is not None
    return error


def test_all_that_ended_is_judged_once_and_then_there_is_nothing_to_do(url: str) -> None:
    done = answer("judge", "run", "--json")
    assert (done["judged"], done["rewarded"], done["broken"], done["stopped"]) == (EPISODES, EPISODES, 0, False)
    assert done["rubrics"] == {default_rubric().hash: EPISODES}
    assert done["scopes"] == {"calls+task+answer": EPISODES}
    assert done["judge"].startswith("checks-")
    again = run("judge", "run")
    assert (again.exit_code, again.stdout) == (3, "")
    assert "Nothing is left to judge" in again.stderr
    assert answer("judge", "run", "--repeat", "1", "--limit", "5", "--json")["judged"] == 5
    weighted = answer("judge", "run", "--weights", "task_fulfilment=1, tool_grounding=0", "--json")
    assert weighted["judged"] == EPISODES
    assert weighted["judge"] != done["judge"]


def test_the_summary_says_what_came_of_it(url: str) -> None:
    said = run("judge", "run", "--agent", "laptop").stdout
    assert f"{EPISODES} episodes judged by checks-" in said
    assert f"{EPISODES} have a reward, on average " in said
    assert f"{EPISODES} (100%) seen as calls+task+answer" in said
    assert f"by rubric {default_rubric().hash[:12]}" in said
    assert run("judge", "run", "--agent", "nobody", "--repeat", "7").exit_code == 3


def test_several_processes_judge_the_same(url: str) -> None:
    done = answer("judge", "run", "--processes", "2", "--batch", "3", "--json")
    assert (done["judged"], done["rewarded"]) == (EPISODES, EPISODES)


def test_what_cannot_be_meant_is_refused(url: str) -> None:
    assert "both are given" in str(error_of("judge", "run", "--url", "http://127.0.0.1:1/v1"))
    assert "task_fulfilment" in str(error_of("judge", "run", "--weights", "luck=1"))
    assert isinstance(error_of("judge", "run", "--rubric", "zzzz"), UnknownName)
    both = run("judge", "run", "--url", "http://127.0.0.1:1/v1", "--model", "m", "--processes", "2")
    assert both.exit_code == 2


def test_show_tells_reward_verdicts_and_evidence(url: str) -> None:
    nothing = run("judge", "show", id_of(0))
    assert (nothing.exit_code, nothing.stdout) == (3, "")
    run("judge", "run")
    (judgement,) = answer("judge", "show", id_of(0), "--json")
    assert judgement["episode_id"] == id_of(0)
    assert [each["criterion"] for each in judgement["verdicts"]] == [each.id for each in default_rubric().criteria]
    said = run("judge", "show", id_of(0)).stdout
    assert f"reward {judgement['reward']:.2f}  (seen: calls+task+answer)" in said
    for criterion in default_rubric().criteria:
        assert criterion.id in said
    assert "no_model" in said
    assert isinstance(error_of("judge", "show", "e_none"), UnknownName)
    assert answer("judge", "shares", "--json") == {"calls+task+answer": EPISODES}
    assert f"{EPISODES} (100%)  calls+task+answer" in run("judge", "shares").stdout


def test_what_strangers_wrote_is_harmless_on_a_terminal(url: str) -> None:
    hostile = a_rubric(HOSTILE)

    async def keep(database: Database) -> None:
        await write(database, an_episode(50, answer=HOSTILE))
        await keep_rubric(database, hostile, writer=HOSTILE)

    in_log(url, keep)
    run("judge", "run")
    for shown in (run("rubric", "show", hostile.hash), run("rubric", "list"), run("judge", "show", id_of(50))):
        assert shown.exit_code == 0
        assert "\x1b" not in shown.stdout
        assert "\u202e" not in shown.stdout
    assert "[bold]x[/bold]" in run("rubric", "show", hostile.hash).stdout


def test_a_rubric_goes_from_a_file_into_use_and_out_again(url: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    default = default_rubric()
    mine = Rubric(default.criteria[:4])
    file.write_text(rubric_file(mine))
    hash_ = answer("rubric", "add", str(file), "--writer", "alice", "--json")["hash"]
    assert hash_ == mine.hash
    assert run("rubric", "show", hash_[:8], "--yaml").stdout == rubric_file(mine)
    assert run("rubric", "attach", hash_[:8], "--task", id_of(3)).exit_code == 0
    assert answer("judge", "run", "--json")["rubrics"] == {hash_: EPISODES}
    (listed, _) = answer("rubric", "list", "--json")
    assert (listed["writer"], listed["attached"][0]["scope"]) == ("alice", "task")
    assert run("rubric", "detach", "--task", id_of(3)).exit_code == 0
    assert answer("judge", "run", "--json")["rubrics"] == {default.hash: EPISODES}
    assert run("rubric", "attach", hash_, "--default").exit_code == 0
    assert answer("rubric", "show", "default", "--json")["hash"] == hash_
    compared = answer("rubric", "diff", "default", default.hash, "--json")
    assert compared["same"] == [each.id for each in mine.criteria]
    assert compared["only_second"] == [each.id for each in default.criteria[4:]]
    assert [each["episodes"] for each in compared["rewards"].values()] == [EPISODES]
    assert "+ " in run("rubric", "diff", "default", default.hash).stdout


def test_a_rubric_can_only_be_attached_to_what_there_is(url: str, tmp_path: Path) -> None:
    run("judge", "run")
    (family,) = answer("rubric", "families", "--json")
    assert (family["episodes"], family["tasks"], family["example"]) == (EPISODES, 1, "What time is it in Oslo?")
    assert run("rubric", "attach", "default", "--family", family["id"]).exit_code == 0
    assert isinstance(error_of("rubric", "attach", "default", "--family", "f_none"), UnknownName)
    assert isinstance(error_of("rubric", "attach", "default", "--task", "e_none"), UnknownName)
    assert "has not ended" in str(error_of("rubric", "attach", "default", "--task", id_of(EPISODES)))
    assert "say one of" in str(error_of("rubric", "attach", "default", "--default", "--task", id_of(0)))
    assert "say one of" in str(error_of("rubric", "detach"))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(rubric_file(a_rubric()).replace("kind: judge", "kind: check\n  check: no_such_check"))
    assert isinstance(error_of("rubric", "add", str(wrong)), ConfigurationError)


def test_a_rubric_is_not_kept_where_an_episode_that_it_was_made_from_is_gone(url: str) -> None:
    async def keep(database: Database) -> None:
        await keep_rubric(database, a_rubric(), writer="derived-1", sources=[id_of(0), "e_gone"])

    with pytest.raises(UnknownName, match="e_gone, which this rubric was made from, was deleted"):
        in_log(url, keep)
    assert run("rubric", "list").exit_code == 3


def test_checks_are_listed_with_what_they_take() -> None:
    said = {each["name"]: each for each in answer("rubric", "checks", "--json")}
    assert said["calls_within"]["parameters"]["required"] == ["most"]
    assert "called(each_of" in run("rubric", "checks").stdout


def test_a_derived_rubric_judges_the_episodes_that_it_was_not_made_from(url: str) -> None:
    run("judge", "run")
    (written,) = answer("rubric", "write", "--derived", "--attach", "--json")
    assert written["scope"] == "task"
    assert 2 <= len(written["sources"]) <= EPISODES // 2
    done = answer("judge", "run", "--json")
    assert done["rubrics"] == {written["hash"]: EPISODES - len(written["sources"])}
    assert "who writes" in str(error_of("rubric", "write"))


def test_labels_are_given_without_a_question(url: str) -> None:
    run("judge", "run")
    criterion = default_rubric().criteria[0].id
    one = answer(
        "label", id_of(0), "--criterion", criterion, "--value", "1", "--note", "yes", "--labeller", "ann", "--json"
    )
    assert (one["labels"], one["labeller"], one["rubric"]) == (1, "ann", default_rubric().hash)
    assert run("label", id_of(1), "--criterion", "overall", "--value", "0").exit_code == 0
    found = {(each["judge"], each["criteria"]["pairs"], each["overall"]["pairs"])
             for each in answer("judge", "agreement", "--json")}  # fmt: skip
    assert {(criteria, overall) for _, criteria, overall in found} == {(1, 1)}
    shown = run("judge", "agreement", "--by", "criterion").stdout
    assert criterion in shown
    assert isinstance(error_of("label", id_of(0), "--criterion", "no-such", "--value", "1"), UnknownName)
    assert isinstance(error_of("label", id_of(0), "--value", "1"), InvalidArguments)
    assert isinstance(error_of("label", "e_none", "--criterion", "overall", "--value", "1"), UnknownName)


def test_labels_are_asked_for_one_by_one_and_what_judges_said_is_not_shown(url: str) -> None:
    run("judge", "run")
    criteria = default_rubric().criteria
    # Met, with a reason; nonsense, which is asked again; cannot tell; a number; and the rest is passed over.
    typed = "y\nbecause\nmaybe\nn\n\n?\n\n0.25\n\n" + "\n" * (len(criteria) - 3)
    result = run("label", id_of(0), "--labeller", "ann", "--json", stdin=typed)
    assert result.exit_code == 0, result.output
    # The runner repeats what was typed.
    assert json.loads(result.stdout[result.stdout.index("{") :])["labels"] == 4
    assert "What time is it in Oslo?" in result.stderr
    assert "reward" not in result.stderr
    (measured,) = answer("judge", "agreement", "--json")
    assert measured["by_criterion"].keys() <= {each.id for each in criteria[:4]}
    nothing = run("label", id_of(0), stdin="\n" * (len(criteria) + 1))
    assert nothing.exit_code == 3


def test_without_labels_there_is_no_agreement_and_nothing_to_freeze(url: str, tmp_path: Path) -> None:
    run("judge", "run")
    nothing = run("judge", "agreement")
    assert nothing.exit_code == 3
    assert "No judged episode has a label" in nothing.stderr
    assert isinstance(error_of("judge", "gold", "freeze", "-o", str(tmp_path / "gold.json")), ConfigurationError)
    assert "are missing" in str(error_of("judge", "calibrate", "checks-1/none"))


def test_labelled_episodes_become_a_gold_set_for_their_owner_alone(url: str, tmp_path: Path) -> None:
    run("judge", "run")
    criterion = default_rubric().criteria[0].id
    run("label", id_of(0), "--criterion", criterion, "--value", "1", "--labeller", "ann")
    run("label", id_of(0), "--criterion", criterion, "--value", "0", "--labeller", "bob")
    run("label", id_of(0), "--criterion", "overall", "--value", "0.75")
    file = tmp_path / "gold.json"
    assert run("judge", "gold", "freeze", "--output", str(file)).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (case,) = read_gold(file, default_rubric()).cases
    assert (case.name, dict(case.labels), case.overall) == (id_of(0), {criterion: 0.5}, 0.75)
    assert case.trajectory.task == "What time is it in Oslo?"


def test_a_calibrated_judge_judges_from_what_is_stored(url: str) -> None:
    """A model that says 0.2 where people say 1: its judgements anew, under a name of their own, without asking it."""
    judge = "model+checks-1/0000"
    labels = 60

    async def fill(database: Database) -> None:
        rubric = a_rubric()
        await write_episodes(database, range(100, 100 + labels))
        await keep_rubric(database, rubric, writer="a test")
        scope = Scope(task=True, answer=True, model=True)
        for number in range(100, 100 + labels):
            score = 0.2 if number % 2 else 0.1
            verdicts = (Verdict(criterion="worked", score=score, repeats=(score, score)),)
            judged = Judged(
                verdicts=verdicts, reward=reward(rubric, verdicts, scope, RewardSettings()), cost=Cost(questions=1)
            )
            claim = Claim(id_of(number), rubric.hash)
            assert await keep_judgements(database, [row_of(claim, judged, judge=judge, repeat=0)]) == 1
            values: Any = {"worked": (1.0 if number % 2 else 0.0, None)}
            assert await keep_labels(database, id_of(number), "ann", values, rubric_hash=rubric.hash) == 1

    in_log(url, fill)
    done = answer("judge", "calibrate", judge, "--json")
    assert done["judge"].startswith(f"{judge}~")
    assert (done["labels"], done["judgements"], done["skipped"]) == (labels, labels, 0)
    rewards = {each["judge"]: each["reward"] for each in answer("judge", "show", id_of(101), "--json")}
    assert rewards == {judge: pytest.approx(0.2), done["judge"]: pytest.approx(1.0)}
    assert answer("judge", "calibrate", judge, "--json")["judgements"] == 0
    other = error_of("judge", "calibrate", judge, "--weights", "task_fulfilment=0,tool_grounding=1")
    assert "by other settings" in str(other)

    async def count(database: Database) -> tuple[int, int]:
        async with database.reading() as connection:
            calibrations = await connection.execute(select(func.count()).select_from(CalibrationRow))
            judgements = await connection.execute(select(func.count()).select_from(JudgementRow))
            return calibrations.scalar_one(), judgements.scalar_one()

    assert in_log(url, count) == (1, 2 * labels)


def test_help_needs_neither_what_judging_needs_nor_optional_packages() -> None:
    code = (
        "import sys, proxy.cli; before = set(sys.modules); import judge.cli; "
        "print(sorted({name for name in set(sys.modules) - before if not name.startswith('judge.c')}))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100).stdout
    for heavy in ("openai", "scipy", "yaml", "judge.judging", "judge.checks", "numpy"):
        assert f"'{heavy}'" not in said
