"""Checks of the values that calls were made with: the right ones, of the right form, and valid at the first try.

Above: library.py, writers of rubrics. Below: base.py, tools.py, values.py, which says when two values are the same. A
parameter is named by its way through the arguments, `recipient.address` or `files.0`. Calls that succeeded are looked
at; where none did, those that failed, since a server may fail at right values, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, cast

import re2  # pyright: ignore[reportMissingTypeStubs]
from jsonschema_rs import RegexOptions, ValidationError, Validator, validator_for
from pydantic import AfterValidator, Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.tools import at, chosen, is_cut, said, succeeded
from judge.checks.values import same
from judge.verdict import Why
from proxy.store.recorder import Outcome

MAX_PATTERN = 500
MAX_SCHEMA = 20_000
MAX_WORK = 50_000_000
"""Characters of a schema times those of the arguments: with more, a call is not validated."""
_PATTERN_BYTES = 1_000_000
_SHOWN = 80


def _compilable(pattern: str) -> str:
    if _compiled(pattern) is None:
        raise ValueError("is not a regular expression in RE2's syntax, which has no look-around and no back-references")
    return pattern


Names = Annotated[Sequence[str], Field(min_length=1)]
Values = Annotated[Sequence[Any], Field(min_length=1)]
Pattern = Annotated[str, Field(max_length=MAX_PATTERN), AfterValidator(_compilable)]


@check("argument_equals")
def argument_equals(
    case: Case, *, tools: Names, parameter: str, values: Values, every: bool = False, required: bool = False
) -> Finding:
    """A call of one of `tools` had one of `values` as its `parameter`, in whatever format; with `every`, all calls had:
    the score is then the share. Where none of the tools was called it is not applicable, or with `required` not so."""

    def fits(given: Any) -> bool:
        return any(_same(given, value) for value in values)

    return _decided(case, tools, parameter, required, every, fits, _list(values))


@check("argument_matches")
def argument_matches(
    case: Case, *, tools: Names, parameter: str, pattern: Pattern, every: bool = False, required: bool = False
) -> Finding:
    """A call of one of `tools` had a `parameter` in which `pattern` (RE2; `(?i)` for any case) was found; with `every`,
    all calls had: the score is then the share. What is no text is read as JSON. Where none of the tools was called it
    is not applicable, or with `required` not so."""
    compiled = _compiled(pattern)

    def fits(given: Any) -> bool:
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return compiled is not None and compiled.search(text.encode("utf-8", "replace").decode()) is not None

    return _decided(case, tools, parameter, required, every, fits, f"/{pattern}/")


@check("arguments_of_each")
def arguments_of_each(
    case: Case, *, tools: Names, parameter: str, values: Values, others: bool = True, required: bool = False
) -> Finding:
    """Over all calls of `tools`, each of `values` was the `parameter` of one, or an item of it where it is a list. The
    score is the share of `values` that were; without `others`, values beside them count against it (intersection over
    union). Where none of the tools was called it is not applicable, or with `required` not so."""
    acts = _acts(case, tools)
    if not acts:
        return _none(tools, required)
    given = [(act, value) for act in acts for found in at(act.arguments, parameter) for value in _items(found)]
    lacking = [value for value in values if not any(_same(each, value) for _, each in given)]
    beside = [(act, each) for act, each in given if not any(_same(each, value) for value in values)]
    if lacking and any(is_cut(each) for _, each in given):
        return missing(Why.CUT, f"{parameter} was not kept whole")
    found = len(values) - len(lacking)
    extra = [] if others else _distinct([each for _, each in beside])
    score = found / (len(values) + len(extra))
    notes = [f"{_list(lacking)} never given as {parameter}"] if lacking else []
    notes += [f"{_list(extra)} given as {parameter} though not asked for"] if extra else []
    return partly(score, "; ".join(notes), acts=[act for act, _ in beside] if extra else acts)


@check("valid_at_first_try", contents=False)
def valid_at_first_try(case: Case) -> Finding:
    """The first call of each tool fitted the tool's definition: it was not refused for its arguments, and where the
    definition is known, its schema has nothing against them. The score is the share of tools. Not applicable where no
    tool was called."""
    first: dict[str, Act] = {}
    for act in case.acts:
        first.setdefault(act.written, act)
    if not first:
        return missing(Why.NOT_APPLICABLE, "no tool was called")
    wrong = [act for act in first.values() if act.outcome is Outcome.INVALID_ARGUMENTS or _unfit(case, act)]
    if not wrong:
        return met()
    names = ", ".join(act.written for act in wrong[:5])
    return partly(1 - len(wrong) / len(first), f"the first arguments did not fit: {names}", acts=wrong)


def _decided(
    case: Case,
    tools: Sequence[str],
    parameter: str,
    required: bool,
    every: bool,
    fits: Callable[[Any], bool],
    wanted: str,
) -> Finding:
    acts = _acts(case, tools)
    if not acts:
        return _none(tools, required)
    given = [(act, at(act.arguments, parameter)) for act in acts]
    right = [act for act, found in given if any(fits(value) for value in found)]
    if right and (not every or len(right) == len(acts)):
        return met(acts=right)
    wrong = [(act, found) for act, found in given if act not in right]
    if any(is_cut(found) for _, found in wrong):
        return missing(Why.CUT, f"{parameter} was not kept whole")
    shown = _list(_distinct([value for _, found in wrong for value in found])) or "nothing"
    note = f"{parameter} was {shown}, not {wanted}"
    score = len(right) / len(acts) if every else 0.0
    return partly(score, note, acts=[act for act, _ in wrong])


def _acts(case: Case, tools: Sequence[str]) -> list[Act]:
    acts = chosen(case.acts, tools)
    return [act for act in acts if succeeded(case, act)] or acts


def _none(tools: Sequence[str], required: bool) -> Finding:
    note = f"{said(tools)} never called"
    return unmet(note) if required else missing(Why.NOT_APPLICABLE, note)


def _same(given: Any, wanted: Any) -> bool:
    """What is no plain value has to be exactly the same."""
    if isinstance(given, Mapping | list) or isinstance(wanted, Mapping | list):
        return bool(given == wanted)
    return same(given, wanted)


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _distinct(values: Sequence[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values[:200]:
        if not any(_same(value, each) for each in kept):
            kept.append(value)
    return kept


def _list(values: Sequence[Any]) -> str:
    shown = [_short(value) for value in values[:4]]
    return " or ".join(shown) + (f" or {len(values) - 4} more" if len(values) > 4 else "")


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | bool | None) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _unfit(case: Case, act: Act) -> bool:
    """Whether the definition's schema refuses the arguments. Where that cannot be told cheaply and surely, no."""
    definition = case.definition(act.written)
    schema = None if definition is None else definition.get("inputSchema")
    if not isinstance(schema, Mapping) or not isinstance(act.step.call and act.step.call.arguments, Mapping):
        return False
    arguments = dict(act.arguments)
    try:
        written = json.dumps(schema, sort_keys=True)
        work = len(written) * len(json.dumps(arguments))
    except (ValueError, RecursionError):
        return False
    if len(written) > MAX_SCHEMA or work > MAX_WORK or is_cut(arguments):
        return False
    validator = _validator(written)
    try:
        return validator is not None and not validator.is_valid(arguments)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False


@lru_cache(maxsize=512)
def _validator(written: str) -> Validator | None:
    """Of a schema that a stranger wrote: none where its references could lead in circles, or multiply its work."""
    schema = json.loads(written)
    shared = [schema.pop(name) for name in ("$defs", "definitions") if name in schema]
    if any('$ref"' in json.dumps(each) for each in shared) or '"$ref": "#"' in json.dumps(schema):
        return None
    try:
        return validator_for(
            json.loads(written),
            validate_formats=False,
            offline=True,
            pattern_options=RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
        )
    except (ValidationError, ValueError, TypeError, RecursionError):
        return None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    """None where it is no regular expression of RE2."""
    options: Any = re2.Options()  # pyright: ignore[reportUnknownMemberType]
    options.log_errors = False
    try:
        return re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except Exception:  # re2 has an error type of its own, and raises others, too
        return None
