"""Gold sets as files. Ours is `data/gold.yaml`; an owner's, YAML or JSON, has the same form:

    format: 1
    rubrics: {mine: …}              # contents by name; `default` is the package's default rubric and needs no entry
    catalogues: {HASH: …}           # as far as checks read them, for frozen episodes; may be left out
    cases:
      - name: time_in_oslo
        rubric: default
        script: …                   # as scripted.py reads it; or `episode`, one line of an export
        labels: {task_done: 1}      # 0 to 1 by criterion
        overall: 1                  # of the whole trajectory; may be left out

Above: running.py, commands/. Below: gold.py, scripted.py; proxy.store's lines, by which labelled episodes of a log are
kept whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import yaml

from judge.rubric import Rubric, RubricError
from judge.scripted import scripted
from judge.trust.gold import Gold, GoldCase
from proxy.errors import ConfigurationError
from proxy.store.assembling import Beside, trajectory_of
from proxy.store.catalogues import Catalogue, CatalogueDefinition, CatalogueServer
from proxy.store.exporting import episode_line, line_of, members, time_of
from proxy.store.parsing import BadLine, LineParser
from proxy.store.tables import CallRow, DecisionRow, EndingRow, EpisodeRow, StepRow
from proxy.store.trajectory import Trajectory

FORMAT = 1
DEFAULT = "default"
_CASE = frozenset({"name", "rubric", "script", "episode", "labels", "overall"})
_FILE = frozenset({"rubrics", "catalogues"})


def own_gold(default: Rubric) -> Gold:
    """The package's own set, labelled by the criteria of `default` that a model decides."""
    return _read("the package's gold set", files("judge").joinpath("data/gold.yaml").read_text("utf-8"), default)


def read_gold(path: Path, default: Rubric) -> Gold:
    """An owner's set.

    Raises:
        ConfigurationError: The file cannot be read, or is no gold set; the text names the case.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the gold set {path} cannot be read: {error}") from error
    return _read(f"the gold set {path}", text, default)


def freeze(cases: Iterable[GoldCase]) -> str:
    """A gold file of `cases` as JSON, which `read_gold` reads back. It holds whole episodes: guard it like the log.

    Raises:
        ConfigurationError: There are none.
    """
    frozen: list[dict[str, Any]] = []
    rubrics: dict[str, Any] = {}
    catalogues: dict[str, dict[str, Any]] = {}
    for case in cases:
        rubrics[case.rubric.hash] = case.rubric.content()
        if case.catalogue is not None:
            # Each case has the definitions of the tools that it called.
            known = catalogues.get(case.catalogue.hash, {"definitions": {}})["definitions"]
            catalogues[case.catalogue.hash] = _written(case.catalogue, known)
        frozen.append(
            {
                "name": case.name,
                "rubric": case.rubric.hash,
                "episode": json.loads(line_of("episode", episode_line(case.trajectory, (), ()))),
                "labels": dict(case.labels),
                "overall": case.overall,
            }
        )
    if not frozen:
        raise ConfigurationError("there are no labelled episodes to freeze: `toolatlas label EPISODE` labels one")
    content = {"format": FORMAT, "rubrics": rubrics, "catalogues": catalogues, "cases": frozen}
    return json.dumps(content, indent=1) + "\n"


def _read(name: str, text: str, default: Rubric) -> Gold:
    try:
        # Every JSON is YAML, but a long one is read far faster as what it is.
        content: Any = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{name} is neither YAML nor JSON: {error}") from error
    match content:
        case {"format": number} if number != FORMAT:
            raise ConfigurationError(f"{name} has format {number}; this version reads {FORMAT}")
        case {"format": _, "cases": [_, *_], **others} if others.keys() <= _FILE:
            pass
        case _:
            raise ConfigurationError(
                f"{name} is an object with `format`, `cases` (at least one) and perhaps `rubrics` and `catalogues`"
            )
    try:
        rubrics = {DEFAULT: default}
        for each, written in cast("Mapping[str, Any]", content.get("rubrics") or {}).items():
            rubrics[str(each)] = Rubric.of_content(written)
        written_catalogues: Mapping[str, Any] = content.get("catalogues") or {}
        catalogues = {hash: _catalogue(hash, written) for hash, written in written_catalogues.items()}
        parser = LineParser()
        cases = [_case(place, each, rubrics, catalogues, parser) for place, each in enumerate(content["cases"], 1)]
        names = [case.name for case in cases]
        if twice := {each for each in names if names.count(each) > 1}:
            raise ValueError(f"two cases are called {min(twice)}")
        said = json.dumps([content, sorted(rubric.hash for rubric in rubrics.values())], sort_keys=True)
    except (ValueError, TypeError, KeyError, AttributeError, RubricError) as error:
        raise ConfigurationError(f"{name} cannot be used: {error}") from error
    return Gold(hash=hashlib.sha256(said.encode()).hexdigest(), cases=tuple(cases))


def _case(
    place: int,
    given: Mapping[str, Any],
    rubrics: Mapping[str, Rubric],
    catalogues: Mapping[str, Catalogue],
    parser: LineParser,
) -> GoldCase:
    name = str(given.get("name", f"case {place}"))
    if unknown := sorted(given.keys() - _CASE):
        raise ValueError(f"{name}: {unknown[0]} is not known; a case has {', '.join(sorted(_CASE))}")
    if ("script" in given) == ("episode" in given):
        raise ValueError(f"{name}: it has either a script or an episode")
    rubric = rubrics.get(given.get("rubric", DEFAULT))
    if rubric is None:
        raise ValueError(f"{name}: there is no rubric {given['rubric']!r} in `rubrics`")
    labels: Mapping[str, float] = given.get("labels") or {}
    if unknown := sorted(labels.keys() - {criterion.id for criterion in rubric.criteria}):
        raise ValueError(f"{name}: its rubric has no criterion {unknown[0]}")
    overall: float | None = given.get("overall")
    for value in (*labels.values(), *([] if overall is None else [overall])):
        if not 0 <= value <= 1:
            raise ValueError(f"{name}: a label is between 0 and 1, not {value}")
    if not labels and overall is None:
        raise ValueError(f"{name}: it has no label")
    try:
        episode = given.get("episode")
        trajectory = scripted(given["script"]) if episode is None else _trajectory(episode, parser)
    except (ValueError, BadLine) as error:
        raise ValueError(f"{name}: {error}") from error
    return GoldCase(
        name=name,
        trajectory=trajectory,
        catalogue=catalogues.get(trajectory.catalog),
        rubric=rubric,
        labels=dict(labels),
        overall=overall,
    )


def _trajectory(line: Mapping[str, Any], parser: LineParser) -> Trajectory:
    rows = parser.parse(json.dumps(line).encode()).rows

    def those(table: Any) -> Sequence[Any]:
        """With all columns of their table, as a query gives them."""
        empty = dict.fromkeys(column.name for column in table.__table__.columns)
        return [SimpleNamespace(**(empty | row)) for row in rows.get(table, [])]

    episodes, endings = those(EpisodeRow), those(EndingRow)
    if not episodes:
        raise ValueError("its episode is no line of kind `episode`")
    calls, decisions = ({row.step_id: row for row in those(table)} for table in (CallRow, DecisionRow))
    steps = sorted(those(StepRow), key=lambda row: row.started_at)
    beside = Beside(calls=calls, decisions=decisions, shadows={}, delegated={}, episodes={})
    return trajectory_of(episodes[0], endings[0] if endings else None, steps, beside, ())


def _written(catalogue: Catalogue, known: Mapping[str, Any]) -> dict[str, Any]:
    definitions = {written: members(each) for written, each in catalogue.definitions.items()}
    return {
        "taken_at": time_of(catalogue.taken_at),
        "servers": [members(server) for server in catalogue.servers],
        "definitions": {**known, **definitions},
        "introduction": catalogue.introduction,
    }


def _catalogue(hash: str, written: Mapping[str, Any]) -> Catalogue:
    definitions = {name: CatalogueDefinition(**each) for name, each in written["definitions"].items()}
    return Catalogue(
        hash=hash,
        taken_at=datetime.fromisoformat(written["taken_at"]),
        servers=tuple(CatalogueServer(**each) for each in written["servers"]),
        tools={name: each.hash for name, each in definitions.items()},
        definitions=definitions,
        introduction=written["introduction"],
        # No check asks how many tokens it has.
        introduction_tokens=0,
        eager_tokens=0,
    )
