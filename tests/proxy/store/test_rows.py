"""What is kept of what a gateway sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.store.recorder import Level
from proxy.store.records import encoded, ending_record, step_record
from proxy.store.redaction import Redactor
from proxy.store.rows import KEPT_BYTES, NESTED, Rows
from proxy.store.tokens import Tokens
from tests.fixtures.recorded import KEY, ending_of, episode_of, step_of

SECRET = "ghp_" + "Zx9Kq2Lm4Np6Rs8Tv0Wy1Ab3Cd5Ef7Gh9Ij0"


@pytest.fixture(scope="module")
def made() -> Rows:
    return Rows(Redactor(KEY), Tokens())


def of(made: Rows, line: bytes) -> dict[str, Any]:
    return made.of(json.loads(line))


def test_secrets_are_gone_from_everything_that_agents_and_servers_said(made: Rows) -> None:
    text = f"the key is {SECRET}"
    step = step_of(
        arguments={"header": text},
        result={"content": [{"type": "text", "text": text}]},
        error=text,
        name=text,
        call=None,
    )
    ending = ending_of(episode_of(client=text), answer=text)
    for line in (step_record(step, 1), ending_record(ending)):
        assert SECRET.encode() in line
        assert SECRET not in json.dumps(of(made, line))


def test_a_secret_that_arguments_name_is_recognized_in_the_result_without_its_name(made: Rows) -> None:
    word = "Quokka7Xylophone9Zebra"
    step = step_of(arguments={"password": word}, result={"content": [{"type": "text", "text": f"logged in as {word}"}]})
    assert word not in json.dumps(of(made, step_record(step, 1)))


def test_equal_results_have_equal_hashes_over_episodes_and_others_do_not(made: Rows) -> None:
    def digest(number: int, episode: int) -> str:
        return of(made, step_record(step_of(number, episode=episode_of(episode)), 1))["step"]["observation_hash"]

    assert digest(1, 1) == digest(1, 2) != digest(2, 1)
    assert len(digest(1, 1)) == 64


def test_sizes_are_those_of_the_whole_as_json(made: Rows) -> None:
    result = {"content": [{"type": "text", "text": "é \U0001f600 \ud800"}]}
    step = of(made, step_record(step_of(result=result), 1))["step"]
    assert step["observation_bytes"] == step["observation_kept"] == len(encoded(result))
    assert step["observation"] == result


def test_redaction_alone_is_no_cut(made: Rows) -> None:
    result = {"content": [{"type": "text", "text": SECRET}]}
    step = of(made, step_record(step_of(result=result), 1))["step"]
    assert step["observation"] != result
    assert step["observation_kept"] == step["observation_bytes"]


def test_long_arguments_results_and_errors_are_cut(made: Rows) -> None:
    much = "so many words " * 20_000
    line = step_record(step_of(arguments={"text": much}, result={"content": [], "note": much}, error=much), 1)
    kept = of(made, line)
    assert len(json.dumps(kept)) < 4 * KEPT_BYTES
    assert kept["step"]["observation_kept"] < KEPT_BYTES + 2_000 < kept["step"]["observation_bytes"]
    assert kept["step"]["action_tokens"] > 50_000


def test_contents_are_kept_once_where_the_server_was_sent_what_the_agent_sent(made: Rows) -> None:
    step = step_of()
    assert step.call is not None
    same = of(made, step_record(step_of(arguments={"a": 1}, name="say", mode="direct"), 1))
    assert same["call"]["arguments"] == {"a": 1}
    direct = {"kind": "step", **json.loads(step_record(step, 1)), "arguments": step.call.arguments}
    assert made.of(direct)["call"]["arguments"] is None
    assert made.of(direct)["call"]["result"] is None
    # 1, 1.0 and true are equal in Python and not in JSON.
    direct["arguments"], direct["call"]["arguments"] = {"a": 1}, {"a": True}
    assert made.of(direct)["call"]["arguments"] == {"a": True}


def test_nothing_of_the_contents_leaves_the_gateway_at_the_level_metadata() -> None:
    step = step_of(
        arguments={"text": "xylophone"}, result={"text": "xylophone"}, error="xylophone", level=Level.METADATA
    )
    line = step_record(step, 1)
    assert b"xylophone" not in line
    assert json.loads(line)["bytes"] == len(encoded(step.result))
    assert b"xylophone" not in ending_record(ending_of(episode_of(), answer="xylophone", level=Level.METADATA))


def test_tokens_are_counted_of_what_the_agent_read() -> None:
    tokens = Tokens()
    assert tokens.of_observation({"content": [{"type": "text", "text": "hello world"}], "_meta": {"x": "y"}}) == 2
    assert tokens.of_observation({"content": [{"type": "image", "data": "QUJD"}]}) == 0
    assert tokens.of_observation({"content": [], "structuredContent": {"a": 1}}) == tokens.of_json({"a": 1})
    assert tokens.of_observation({"content": [{"type": "resource", "resource": {"text": "hello"}}]}) == 1
    assert tokens.count("\ud800 half a pair") > 0


def test_tokens_of_huge_texts_are_estimated() -> None:
    tokens = Tokens()
    assert 2_950_000 < tokens.count("word " * 3_000_000) < 3_050_000


def test_what_is_nested_deeper_than_a_reader_may_go_is_told_and_not_kept(made: Rows) -> None:
    def step(levels: int) -> dict[str, Any]:
        value: Any = "end"
        for number in range(levels):
            value = [value] if number % 2 else {"a": value}
        return of(made, step_record(step_of(result=value), 1))["step"]

    assert "end" in json.dumps(step(NESTED - 1)["observation"])
    deeper = step(NESTED + 1)
    assert deeper["observation"] == {"toolatlas/unwritable": "RecursionError"}
    assert (deeper["observation_kept"], len(deeper["observation_hash"])) == (0, 64)
    assert deeper["observation_bytes"] > NESTED
