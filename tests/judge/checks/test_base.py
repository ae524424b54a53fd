"""What a check is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from pydantic import Field

from judge.case import Case
from judge.checks.base import Check, Finding, check, met, missing, partly, unmet
from judge.rubric import Need, RubricError
from judge.verdict import Quote, Why
from tests.judge.checks.scripts import call, case


@check("sample", needs=(Need.TASK,))
def sample(
    case: Case, *, names: Sequence[str], most: Annotated[int, Field(ge=1)] = 3, share: float = 0.5, strict: bool = False
) -> Finding:
    """What it decides."""
    return met(f"{list(names)} {most} {share} {strict}")


def test_a_check_knows_its_name_its_needs_and_what_it_decides() -> None:
    assert (sample.name, sample.needs, sample.contents) == ("sample", frozenset({Need.TASK}), True)
    assert sample.purpose == "What it decides."


def test_parameters_come_from_json_with_their_defaults() -> None:
    assert sample(case(), {"names": ["a"]}).note == "['a'] 3 0.5 False"
    assert sample(case(), {"names": [], "most": 1, "share": 1, "strict": True}).note == "[] 1 1.0 True"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "parameter names"),
        ({"names": "a"}, "parameter names"),
        ({"names": [1]}, "parameter names.0"),
        ({"names": ["a"], "most": 0}, "parameter most"),
        ({"names": ["a"], "most": "3"}, "parameter most"),
        ({"names": ["a"], "most": 3.0}, "parameter most"),
        ({"names": ["a"], "most": True}, "parameter most"),
        ({"names": ["a"], "most": None}, "parameter most"),
        ({"names": ["a"], "strict": 1}, "parameter strict"),
        ({"names": ["a"], "share": "0.5"}, "parameter share"),
        ({"names": ["a"], "other": 1}, "parameter other"),
        ({"names": ["a"], "case": 1}, "parameter case"),
    ],
)
def test_parameters_that_do_not_fit_are_named(parameters: dict[str, Any], said: str) -> None:
    for refuse in (lambda: sample(case(), parameters), lambda: sample.validate(parameters)):
        with pytest.raises(RubricError) as caught:
            refuse()
        assert f"check sample: {said}" in str(caught.value)


def test_a_schema_tells_writers_what_parameters_there_are() -> None:
    schema = sample.schema()
    assert schema["required"] == ["names"]
    assert schema["properties"]["most"] == {"default": 3, "minimum": 1, "title": "Most", "type": "integer"}
    assert schema["properties"]["names"]["items"] == {"type": "string"}
    assert schema["additionalProperties"] is False


def test_a_parameter_that_could_be_given_without_its_name_is_a_mistake_of_the_check() -> None:
    with pytest.raises(TypeError, match="most has to be keyword-only"):

        @check("positional")
        def positional(case: Case, most: int) -> Finding:
            return met()


@pytest.mark.parametrize("name", ["json", "copy", "schema", "model_config", "model_fields", "validate", "dict"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {"met": met, "Case": Case, "Finding": Finding}
    exec(f"def odd(case: Case, *, {name}: int) -> Finding:\n    return met(str({name}))", scope)
    assert Check("odd", frozenset(), scope["odd"])(case(), {name: 7}).note == "7"


def test_findings_carry_the_calls_and_quotes_that_they_speak_of() -> None:
    acts = case(call("a.b"), call("a.c")).acts
    quote = Quote("answer", "so")
    assert met(acts=acts, quotes=[quote]) == Finding(score=1.0, steps=tuple(act.id for act in acts), quotes=(quote,))
    assert unmet("no", acts=iter(acts[:1])).steps == (acts[0].id,)
    assert partly(0.25, "some").score == 0.25
    assert missing(Why.CUT, "cut") == Finding(score=None, why=Why.CUT, note="cut")
