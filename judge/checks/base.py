"""What a check is: one function over a case, made known by a decorator.

    @check("no_more_calls_than", needs=())
    def no_more_calls_than(case: Case, *, most: int) -> Finding:
        \"\"\"At most `most` calls of servers' tools were made.\"\"\"
        return met() if len(case.acts) <= most else unmet(f"{len(case.acts)} calls, {most} allowed")

Above: every module of checks/, library.py which collects them, deciding.py which runs them. Below: case.py. Parameters
are the function's keyword-only arguments, validated by their annotations, and in the rubric as JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from judge.case import Act, Case
from judge.rubric import Need, RubricError
from judge.verdict import Quote, Why

P = ParamSpec("P")
_PREFIX = "p_"
"""Of the fields of a model of parameters, for a parameter may be called as something that every model has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found. Exactly one of `score` and `why` is None; the meaning is that of `Verdict`."""

    score: float | None
    why: Why | None = None
    note: str = ""
    steps: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = ()


def met(note: str = "", *, acts: Iterable[Act] = (), quotes: Iterable[Quote] = ()) -> Finding:
    """It is so; of a pitfall, the mistake was made. `acts` are the calls that it speaks of."""
    return partly(1.0, note, acts=acts, quotes=quotes)


def unmet(note: str, *, acts: Iterable[Act] = (), quotes: Iterable[Quote] = ()) -> Finding:
    """It is not so; of a pitfall, the mistake was not made."""
    return partly(0.0, note, acts=acts, quotes=quotes)


def partly(score: float, note: str, *, acts: Iterable[Act] = (), quotes: Iterable[Quote] = ()) -> Finding:
    """So far it is so, between 0 and 1."""
    return Finding(score=score, note=note, steps=tuple(act.id for act in acts), quotes=tuple(quotes))


def missing(why: Why, note: str) -> Finding:
    """It cannot be told: `CUT`, `NOT_LOGGED` and `BROKEN` count as missing, `NOT_APPLICABLE` not at all."""
    return Finding(score=None, why=why, note=note)


class Check:
    """One way to decide a criterion by code; `check` makes it of a function."""

    def __init__(
        self, name: str, needs: frozenset[Need], function: Callable[..., Finding], *, contents: bool = True
    ) -> None:
        self.name = name
        self.needs = needs
        """What it has to see beside the calls. Where the episode does not show it, the check is not asked."""
        self.contents = contents
        """Whether it reads arguments or results. It is then not asked of an episode that was logged without them."""
        self.purpose = inspect.getdoc(function) or ""
        self._function = function
        self._parameters = _model(name, function)

    def __call__(self, case: Case, parameters: Mapping[str, Any]) -> Finding:
        """Decide. Raises RubricError where `parameters` do not fit; other errors are mistakes of the check."""
        return self._function(case, **self._validated(parameters))

    def validate(self, parameters: Mapping[str, Any]) -> None:
        """Raises RubricError where `parameters` do not fit."""
        self._validated(parameters)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of its parameters, for writers of rubrics."""
        return self._parameters.model_json_schema()

    def _validated(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        try:
            read = self._parameters.model_validate(dict(parameters))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise RubricError(f"check {self.name}: parameter {place or '(all)'}: {first['msg']}") from None
        return {name.removeprefix(_PREFIX): getattr(read, name) for name in type(read).model_fields}


def check(
    name: str, *, needs: Iterable[Need] = (), contents: bool = True
) -> Callable[[Callable[Concatenate[Case, P], Finding]], Check]:
    """Make a check of a function that takes a case and keyword-only parameters. Its docstring says what is decided.

    `contents` is False for one that is content with names, outcomes and sizes, which are logged of every step.
    """

    def made(function: Callable[Concatenate[Case, P], Finding]) -> Check:
        return Check(name, frozenset(needs), function, contents=contents)

    return made


def _model(name: str, function: Callable[..., Finding]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    _, *others = inspect.signature(function).parameters.values()
    fields: dict[str, Any] = {}
    for parameter in others:
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"check {name}: {parameter.name} has to be keyword-only")
        default: Any = ... if parameter.default is inspect.Parameter.empty else parameter.default
        title = parameter.name.replace("_", " ").capitalize()
        named = Field(default, alias=parameter.name, title=title)
        fields[f"{_PREFIX}{parameter.name}"] = (hints[parameter.name], named)
    # Strict: a rubric that says "3" where a number belongs was meant otherwise.
    return create_model(f"Parameters_{name}", __config__=ConfigDict(extra="forbid", strict=True), **fields)
