"""What the documents name exists: commands and their options, make targets, configuration keys, outcomes, files."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from judge.commands.options import KEY_VARIABLE as JUDGE_KEY
from judge.commands.options import SERVERS_VARIABLE
from proxy.cli import build
from proxy.commands.agent import KEY as AGENT_KEY
from proxy.router.launching import API_KEY as ROUTER_KEY
from proxy.servers.configfile import parse
from proxy.servers.entry import KNOWN_KEYS
from proxy.servers.sealing import KEY_VARIABLE
from proxy.settings import Folders
from proxy.store.recorder import Outcome

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

every_document = pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in DOCUMENTS])


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def code_of(text: str) -> Iterator[str]:
    """Inline code, and the lines of code blocks, without comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    yield from (line.split("  #")[0].strip() for block in blocks for line in block.splitlines())
    rest = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", rest))


def blocks_of(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def table_under(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, cells without the header's."""
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    assert section, f"there is no section {heading!r}"
    rows = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def problem_with(words: list[str], command: Any) -> str | None:
    """Why `toolatlas WORDS` would not be understood; None if it would be."""
    for word in words:
        subcommands = getattr(command, "commands", {})
        if word.startswith("--"):
            options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            if word.split("=")[0] not in {*options, "--help"}:
                return f"`{command.name}` has no option {word}"
        elif word in subcommands:
            command = subcommands[word]
        elif subcommands:
            return f"`{command.name}` has no command {word}"
    return None


@pytest.fixture(scope="module")
def command() -> Any:
    return typer.main.get_command(build())


@every_document
def test_commands_and_their_options_exist(path: Path, command: Any) -> None:
    commands = [code for code in code_of(text_of(path)) if code.startswith("toolatlas ")]
    assert {code: problem_with(shlex.split(code)[1:], command) for code in commands} == dict.fromkeys(commands)


def test_a_command_that_does_not_exist_is_noticed(command: Any) -> None:
    assert problem_with(["serve", "--config", "FILE", "--port", "0"], command) is None
    assert problem_with(["serve", "--speed", "9"], command) == "`serve` has no option --speed"
    assert problem_with(["tools", "destroy"], command) == "`tools` has no command destroy"


def test_readme_names_every_command(command: Any) -> None:
    assert {name for name in command.commands if f"`toolatlas {name}" not in text_of(README)} == set()


def test_further_subcommands_in_the_command_table_exist(command: Any) -> None:
    for written, does in table_under(text_of(README), "Command line"):
        family = command.commands[written.strip("`").split()[1]]
        also = re.findall(r"`(\w+)`", does.partition("also ")[2])
        assert set(also) <= set(getattr(family, "commands", {})), written


def test_flags_of_serve_are_all_documented(command: Any) -> None:
    documented = {row[0].strip("`") for row in table_under(text_of(CONFIGURATION), "Flags of `toolatlas serve`")}
    assert documented == {option.opts[0] for option in command.commands["serve"].params}


@every_document
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = {match[1] for code in code_of(text_of(path)) if (match := re.match(r"make ([a-z-]+)", code))}
    assert named <= targets


def test_every_configuration_key_is_documented_and_no_other() -> None:
    documented = [row[0].strip("`") for row in table_under(text_of(CONFIGURATION), "Keys of a server")]
    assert sorted(documented) == sorted(KNOWN_KEYS)


def test_configuration_keys_in_the_readme_exist() -> None:
    named = re.findall(r"`(\w+)`", " ".join(row[0] for row in table_under(text_of(README), "Configuration")))
    assert named
    assert set(named) <= set(KNOWN_KEYS)


def test_readme_explains_every_outcome() -> None:
    explained = [row[0].strip("`") for row in table_under(text_of(README), "How a call ends")]
    assert explained == [outcome.value for outcome in Outcome]


@every_document
def test_configuration_examples_are_understood(path: Path) -> None:
    for block in blocks_of(text_of(path), "json"):
        configuration = parse(json.loads(block), {})
        assert configuration.warnings == ()
        assert [server.disabled_reason for server in configuration.servers if not server.usable] == []
    for block in blocks_of(text_of(path), "toml"):
        assert tomllib.loads(block)


def test_the_example_configuration_is_understood_and_described() -> None:
    configuration = parse(json.loads(text_of(ROOT / "examples" / "mcp.json")), {})
    assert configuration.warnings == ()
    assert all(server.usable and server.description for server in configuration.servers)


@every_document
def test_environment_variables_are_read_by_something(path: Path, command: Any) -> None:
    known = {"TOOLATLAS_CONFIG", "TOOLATLAS_STATE_DIR", "TOOLATLAS_CACHE_DIR"}
    folders = Folders.from_environment({name: f"/given/{name}" for name in known})
    assert {str(folders.config), str(folders.state_dir), str(folders.cache_dir)} == {f"/given/{name}" for name in known}
    known |= set(re.findall(r"\$\{(TOOLATLAS_\w+)", text_of(ROOT / "examples" / "mcp.json")))
    known |= {option.envvar for option in command.commands["serve"].params if option.envvar}
    # Read beside an entry of the configuration, with the key that seals logins, and beside endpoints of models.
    known |= {
        "TOOLATLAS_ON_NEW",
        "TOOLATLAS_ON_CHANGE",
        KEY_VARIABLE,
        AGENT_KEY,
        JUDGE_KEY,
        ROUTER_KEY,
        SERVERS_VARIABLE,
    }
    known |= {option.envvar for option in command.commands["judge"].commands["run"].params if option.envvar}
    known |= {option.envvar for option in command.commands["adapters"].commands["watch"].params if option.envvar}
    known |= {option.envvar for option in command.commands["learn"].params if option.envvar}
    if path.name == "CONTRIBUTING.md":
        for reader in ("tests/fixtures/databases.py", "tests/proxy/dashboard/test_browser.py"):
            known |= set(re.findall(r'os\.environ\.get\("(TOOLATLAS_\w+)"', text_of(ROOT / reader)))
    assert set(re.findall(r"TOOLATLAS_[A-Z_]+", text_of(path))) <= known


@every_document
def test_linked_files_and_headings_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(path)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors_of(text_of(linked)), target


def anchors_of(text: str) -> set[str]:
    """Anchors of headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_layout_names_every_folder_of_the_tree() -> None:
    layout = text_of(README).partition("## Layout")[2].partition("```")[2].partition("```")[0]
    named: set[str] = set()
    for indent, name in re.findall(r"^( *)(\w+)/", layout, re.MULTILINE):
        named.add(f"proxy/{name}" if indent else name)
    assert {folder for folder in named if not (ROOT / folder).is_dir()} == set()
    packages = {init.parent.relative_to(ROOT).as_posix() for init in ROOT.glob("*/__init__.py")}
    packages |= {init.parent.relative_to(ROOT).as_posix() for init in ROOT.glob("proxy/*/__init__.py")}
    assert packages <= named
