"""All checks by name: ours, and those that other packages add by the entry point group `toolatlas.checks`.

Above: deciding.py, rubric files, writers. Below: the modules of checks/. An entry point names a module; every `Check`
in it joins.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType, ModuleType

from judge import checks
from judge.checks.base import Check
from judge.rubric import Criterion, Rubric, RubricError

GROUP = "toolatlas.checks"
REVISION = 2
"""Raised whenever a check of ours decides otherwise than before: it is part of every judge's name."""


class Library(Mapping[str, Check]):
    """Checks by name."""

    def __init__(self, found: Mapping[str, Check]) -> None:
        self._checks = MappingProxyType(dict(found))

    def __getitem__(self, name: str) -> Check:
        return self._checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._checks)

    def __len__(self) -> int:
        return len(self._checks)

    def validate(self, rubric: Rubric) -> None:
        """Raises RubricError where a criterion names a check that is not here, or parameters that do not fit."""
        for criterion in rubric.criteria:
            if criterion.check is not None:
                try:
                    self.of(criterion).validate(criterion.parameters)
                except RubricError as error:
                    raise RubricError(f"criterion {criterion.id}: {error}") from None

    def of(self, criterion: Criterion) -> Check:
        """The check that decides a criterion of kind check. Raises RubricError where it is not here."""
        name = criterion.check
        if name is None or name not in self._checks:
            raise RubricError(f"there is no check {name!r}; there are {', '.join(sorted(self._checks))}")
        return self._checks[name]


def library() -> Library:
    """Ours and those of other packages.

    Raises:
        RubricError: Two have the same name.
    """
    found: dict[str, Check] = {}
    for module in _modules():
        for value in vars(module).values():
            if not isinstance(value, Check) or found.get(value.name) is value:
                continue
            if value.name in found:
                raise RubricError(f"two checks are called {value.name}; one is in {module.__name__}")
            found[value.name] = value
    return Library(found)


def _modules() -> Iterator[ModuleType]:
    for each in sorted(pkgutil.iter_modules(checks.__path__), key=lambda each: each.name):
        yield importlib.import_module(f"{checks.__name__}.{each.name}")
    for entry in entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except Exception as error:  # code of another package
            raise RubricError(
                f"entry point {entry.name} of {GROUP}: {entry.value} cannot be imported "
                f"({type(error).__name__}: {error}); mend or remove the package that brings it"
            ) from error
        if not isinstance(loaded, ModuleType):
            raise RubricError(f"entry point {entry.name} of {GROUP} names {entry.value}, which is no module")
        yield loaded
