"""Holds the directions of imports: a layer may know those below it, never those above."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = frozenset({"proxy", "judge", "trainer", "bench", "tests", "migrations"})

MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "proxy.store": frozenset({"proxy.errors", "proxy.files"}),
    "proxy.files": frozenset(),
    "proxy.errors": frozenset(),
    "proxy.openai_client": frozenset({"proxy.errors"}),
    "proxy.settings": frozenset({"proxy.errors", "proxy.store"}),
    "proxy.tasks": frozenset({"proxy.errors", "proxy.store"}),
    "proxy.catalog": frozenset({"proxy.errors", "proxy.files", "proxy.store"}),
    "proxy.router": frozenset({"proxy.catalog", "proxy.store", "proxy.openai_client", "proxy.files", "proxy.errors"}),
    "proxy.servers": frozenset({"proxy.catalog", "proxy.errors", "proxy.files", "proxy.store"}),
    "proxy.sandbox": frozenset({"proxy.catalog", "proxy.errors", "proxy.files", "proxy.store"}),
    "proxy.policy": frozenset(
        {"proxy.router", "proxy.openai_client", "proxy.settings", "proxy.store", "proxy.files", "proxy.errors"}
    ),
    "proxy.gateway": frozenset({"proxy.servers", "proxy.router", "proxy.catalog", "proxy.errors", "proxy.store"}),
    "proxy.sight": frozenset({"proxy.gateway", "proxy.servers", "proxy.router", "proxy.catalog", "proxy.errors"}),
    "proxy.metatools": frozenset(
        {
            *("proxy.gateway", "proxy.sight", "proxy.tasks", "proxy.servers", "proxy.router", "proxy.catalog"),
            *("proxy.sandbox", "proxy.policy", "proxy.settings", "proxy.store", "proxy.errors"),
        }
    ),
    "proxy.endpoint": frozenset(
        {
            *(
                "proxy.metatools",
                "proxy.gateway",
                "proxy.sight",
                "proxy.tasks",
                "proxy.settings",
                "proxy.servers",
                "proxy.sandbox",
            ),
            *("proxy.router", "proxy.catalog", "proxy.store", "proxy.files", "proxy.errors"),
        }
    ),
    "proxy.dashboard": frozenset({"proxy.store", "proxy.endpoint", "proxy.settings", "proxy.files", "proxy.errors"}),
    "proxy.observing": frozenset({"proxy.store", "proxy.dashboard", "proxy.servers", "proxy.errors"}),
    "proxy.broker": frozenset({"proxy.sandbox", "proxy.files", "proxy.errors"}),
    "proxy.hosting": frozenset({"proxy.servers", "proxy.catalog", "proxy.files", "proxy.errors"}),
    "proxy.clients": frozenset({"proxy.servers", "proxy.catalog", "proxy.files", "proxy.errors"}),
    "proxy.app": frozenset({"proxy"}),
    "proxy.service": frozenset({"proxy"}),
    "proxy.logbook": frozenset({"proxy"}),
    "proxy.cli": frozenset({"proxy"}),
    "proxy.commands": frozenset({"proxy"}),
    "proxy": frozenset(),
    "judge": frozenset({"proxy.store", "proxy.openai_client", "proxy.errors"}),
    "judge.commands": frozenset(
        {"judge", "proxy.store", "proxy.openai_client", "proxy.errors", "proxy.settings", "proxy.commands"}
    ),
    # A row reads as the policy reads and has the history that the task had: both are made by the gateway's own code.
    # Files are replaced as its files are, documents of tools are made from its records, and the report of a run is
    # drawn as the dashboard draws it.
    "trainer": frozenset(
        {
            *("proxy.store", "proxy.router", "proxy.policy", "proxy.tasks", "proxy.catalog", "proxy.files"),
            *("proxy.settings", "proxy.dashboard", "proxy.errors", "judge"),
        }
    ),
    # What people call knows the gateway's own commands, and how the gateway prints strangers' words; limits
    # of a policy are written as for `agent`.
    "trainer.commands": frozenset(
        {
            *("trainer", "judge", "judge.commands", "proxy.store", "proxy.router", "proxy.catalog", "proxy.files"),
            *("proxy.policy", "proxy.settings", "proxy.errors", "proxy.commands"),
        }
    ),
}
"""What a part may import of ours, besides itself. `proxy.store` stands for that module and all below it, bare `proxy`
for the whole gateway. The gateway's version, in `proxy/__init__.py`, is open to all its parts."""

HEAVY = frozenset({"torch", "transformers", "peft"})
OPTIONAL = frozenset({"openai", "scipy"})
"""Of the extra `judge`: checks judge without them."""


@dataclass(frozen=True)
class Import:
    """One imported module, and whether it is imported when the importing module is."""

    module: str
    line: int
    at_start: bool


def imports_of(source: str, package: str) -> Iterator[Import]:
    """All imports of a module that lies in `package`. A name imported from a package counts as a module of it."""
    tree = ast.parse(source)
    delayed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _for_types_only(node)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            modules = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            yield Import(module, node.lineno, id(node) not in delayed)


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What `module` imports against the rules, one sentence each."""
    package = module if is_package else module.rpartition(".")[0]
    part = _part(module)
    found: list[str] = []
    for imported in imports_of(source, package):
        target = imported.module
        if target.split(".")[0] in HEAVY and part.startswith("proxy"):
            if part != "proxy.router":
                found.append(f"{module}:{imported.line} imports {target}, which only proxy.router may")
            elif imported.at_start:
                found.append(f"{module}:{imported.line} imports {target} at module level; do it where it is needed")
        elif target.split(".")[0] in OPTIONAL and imported.at_start:
            found.append(f"{module}:{imported.line} imports {target} at module level; do it where it is needed")
        elif target.split(".")[0] in OURS and not _allowed(part, target):
            found.append(f"{module}:{imported.line} imports {target}, which {part} may not")
    return found


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("proxy", "judge", "trainer"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@pytest.mark.parametrize(("module", "path"), [pytest.param(*found, id=found[0]) for found in modules()])
def test_a_module_imports_only_what_its_part_may(module: str, path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert violations(module, source, is_package=path.name == "__init__.py") == []


def test_every_part_of_the_tree_has_a_rule() -> None:
    assert {_part(module) for module, _ in modules()} <= MAY_IMPORT.keys()


def test_rules_name_no_cycle() -> None:
    order: list[str] = []
    rest = {part: {below for below in rule if below != "proxy"} for part, rule in MAY_IMPORT.items()}
    while ready := sorted(part for part, below in rest.items() if below <= set(order)):
        order += ready
        rest = {part: below for part, below in rest.items() if part not in ready}
    assert rest == {}, "these parts know each other in a circle"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("proxy.app", "import trainer"),
        ("proxy.app", "from judge.rubrics import Rubric"),
        ("proxy.cli", "from bench import measure"),
        ("proxy.commands.serve", "def run():\n    import tests.conftest"),
        ("proxy.store.tables", "from proxy.catalog.records import ToolRecord"),
        ("proxy.catalog.catalog", "from proxy.servers.config import ServerConfig"),
        ("proxy.catalog.catalog", "from proxy import servers"),
        ("proxy.catalog.catalog", "from ..router import base"),
        ("proxy.catalog.catalog", "from .. import endpoint"),
        ("proxy.router.lexical", "import proxy.servers.pool"),
        ("proxy.servers.pool", "from proxy.metatools.base import Caller"),
        ("proxy.metatools.finding", "from proxy.endpoint.modes import Mode"),
        ("proxy.endpoint.http", "from proxy.app import build"),
        ("proxy.endpoint.http", "from proxy import cli"),
        ("proxy.clients.cursor", "from proxy.gateway import Gateway"),
        ("proxy.policy.loop", "from proxy.metatools.base import Caller"),
        ("proxy.policy.local_model", "def load():\n    import torch"),
        ("judge.rubrics", "from proxy.router.base import Router"),
        ("judge.rubrics", "import proxy"),
        ("judge.model.asking", "from openai import AsyncOpenAI"),
        ("judge.rubrics", "from proxy.commands.database_option import with_database"),
        ("judge.rubrics", "from judge.commands import run"),
        ("trainer.loop", "from proxy.servers.pool import Pool"),
        ("proxy.catalog.stubs", "import torch"),
        ("proxy.servers.pool", "def f():\n    from transformers import AutoModel"),
        ("proxy.router.encoder", "import torch.nn"),
        ("proxy.router.encoder", "try:\n    import torch\nexcept ImportError:\n    torch = None"),
        ("proxy.router.encoder", "class Encoder:\n    import torch"),
    ],
)
def test_an_import_against_the_direction_is_found(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("proxy.store.tables", "from proxy.store.recorder import Step\nimport json"),
        ("proxy.catalog.catalog", "from proxy.errors import UnknownName\nfrom .records import Listing"),
        ("proxy.metatools.using", "from proxy.gateway import Gateway"),
        ("proxy.endpoint.server", "from proxy import __version__"),
        ("proxy.commands.serve", "from proxy.app import build\nfrom proxy.endpoint import http"),
        ("proxy.router.encoder", "def load():\n    import torch"),
        ("proxy.router.encoder", "if TYPE_CHECKING:\n    import torch"),
        ("trainer.loop", "import torch\nfrom proxy.router.base import Router\nfrom judge import rewards"),
        ("judge.rubrics", "from proxy.store.recorder import Step"),
        ("judge.commands.run", "from proxy.commands.database_option import with_database\nfrom judge import running"),
        ("judge.cli", "from judge.commands import run"),
        ("judge.model.asking", "def ask():\n    from openai import AsyncOpenAI"),
    ],
)
def test_an_import_in_the_right_direction_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def _part(module: str) -> str:
    """The part of the tree whose rule holds for a module: `proxy.catalog` for `proxy.catalog.names`."""
    names = module.split(".")
    if names[0] in ("judge", "trainer") and names[1:2] in (["commands"], ["cli"]):
        # Only what people call may know the gateway's own commands.
        return f"{names[0]}.commands"
    return ".".join(names[:2]) if names[0] == "proxy" else names[0]


def _allowed(part: str, target: str) -> bool:
    rule = MAY_IMPORT.get(part, frozenset[str]())
    if target.startswith("proxy"):
        own = _part(target) == part or (target == "proxy.__version__" and part.startswith("proxy"))
        return own or "proxy" in rule or _part(target) in rule
    return _part(target) in {part, *rule}


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
