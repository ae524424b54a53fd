"""All checks by name, with those of other packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge.checks.library import GROUP, Library, library
from judge.rubric import Category, Criterion, Kind, Rubric, RubricError

OURS = (
    *("called", "not_called", "only_called", "right_first", "order", "calls_within", "tokens_within", "reveals_used"),
    *("argument_equals", "argument_matches", "arguments_of_each", "valid_at_first_try"),
    *(
        "worked",
        "gave_up",
        "answer_to_the_point",
        "no_repeats",
        "failed_calls_repaired",
        "no_needless_search",
        "no_injection_obeyed",
    ),
)
CHECK = '''
from judge.checks.base import check, met

@check("{name}")
def {function}(case, *, most: int = 3):
    """Always so."""
    return met()
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, in which a package with an entry point stands."""
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def entry(folder: Path, value: str, source: str) -> None:
    module = value.partition(":")[0]
    (folder / f"{module}.py").write_text(source)
    (folder / "stranger-1.0.dist-info" / "entry_points.txt").write_text(f"[{GROUP}]\nmine = {value}\n")


def using(check: str, **parameters: object) -> Rubric:
    criterion = Criterion(
        id="one",
        category=Category.TASK_FULFILMENT,
        text="It is so.",
        weight=1,
        kind=Kind.CHECK,
        check=check,
        parameters=parameters,
        needs=frozenset(),
    )
    return Rubric((criterion,))


def test_our_checks_are_there_and_each_says_what_it_decides() -> None:
    found = library()
    assert set(OURS) <= set(found)
    for name, check in found.items():
        assert check.name == name
        assert len(check.purpose) > 20, name
        assert check.schema()["type"] == "object"


def test_checks_of_other_packages_join(installed: Path) -> None:
    entry(installed, "stranger_joins", CHECK.format(name="always_so", function="always_so"))
    assert "always_so" in library()
    library().validate(using("always_so", most=2))


@pytest.mark.parametrize(
    ("value", "source", "said"),
    [
        ("stranger_twice", CHECK.format(name="called", function="mine"), "two checks are called called"),
        ("stranger_value:mine", "mine = 7", "which is no module"),
        ("stranger_breaks", "import a_module_that_nobody_has", "entry point mine of toolatlas.checks"),
        ("stranger_lacks:nothing", "", "entry point mine of toolatlas.checks"),
    ],
)
def test_a_package_that_cannot_join_is_named(installed: Path, value: str, source: str, said: str) -> None:
    entry(installed, value, source)
    with pytest.raises(RubricError, match=said):
        library()


def test_a_rubric_is_valid_where_its_checks_and_their_parameters_are_there() -> None:
    found = library()
    found.validate(using("calls_within", most=3))
    with pytest.raises(RubricError, match="criterion one: check calls_within: parameter most"):
        found.validate(using("calls_within", most="3"))
    with pytest.raises(RubricError, match=r"criterion one: there is no check 'nothing'; there are .*called"):
        found.validate(using("nothing"))


def test_a_model_decides_what_no_check_does() -> None:
    judged = Criterion(id="one", category=Category.TASK_FULFILMENT, text="a", weight=1, kind=Kind.JUDGE)
    Library({}).validate(Rubric((judged,)))
    with pytest.raises(RubricError, match="no check None"):
        Library({}).of(judged)
