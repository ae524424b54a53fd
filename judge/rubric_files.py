"""Rubrics as YAML files, which people write and read: the content of a rubric, with comments.

    format: 1
    criteria:
      - id: answered
        category: task_fulfilment
        text: The agent gave an answer.
        weight: 9
        kind: check
        check: answer_given

Above: default.py, the commands `rubric add` and `rubric show`. Below: rubric.py, pyyaml. What a file means is what YAML
1.2 says of plain values: `no`, `14:05` and `2026-03-05` are texts, as they are in the arguments of calls. Aliases and
twice the same key are refused: neither can be meant, and the first can be made to take all memory.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# The stubs of pyyaml leave much open.

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from judge.rubric import FORMAT, Rubric, RubricError

MAX_BYTES = 500_000
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"^[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$")
_NAMED = re.compile(r"`(\w+)`|: '(\w+)' is not known")


def read(path: Path) -> Rubric:
    """The rubric that a file holds. Raises RubricError, naming the file, the line and the criterion."""
    try:
        written = path.read_bytes()
    except OSError as error:
        raise RubricError(f"the rubric {path} cannot be read: {error.strerror or error}") from None
    if len(written) > MAX_BYTES:
        raise RubricError(f"the rubric {path} has {len(written):,} bytes; more than {MAX_BYTES:,} cannot be meant")
    try:
        text = written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RubricError(f"the rubric {path} is not UTF-8: byte {error.start}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Rubric:
    """The rubric that `text` is; `name` says in errors where it came from. Raises RubricError as `read` does."""
    try:
        root, content = _loaded(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = "" if mark is None else f", line {mark.line + 1}"
        raise RubricError(f"{name}{at}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = str(error).splitlines()[0] if str(error) else "it is nested too deep"
        raise RubricError(f"{name}: this is no YAML that can be read: {said}") from None
    try:
        return Rubric.of_content(content)
    except RubricError as error:
        raise RubricError(f"{name}{_line(root, content, str(error))}: {error}") from None


def write(rubric: Rubric) -> str:
    """As YAML; `parse` gives the same rubric, of the same hash.

    Raises:
        RubricError: A parameter is no JSON.
    """
    try:
        text = yaml.dump(rubric.content(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
        same = parse(text, "the rubric as written").hash == rubric.hash
    except (yaml.YAMLError, RecursionError) as error:
        raise RubricError(f"a parameter of the rubric is no JSON: {error}") from None
    if not same:
        raise RubricError("a parameter of the rubric is no JSON: it does not come back from a file as it was")
    return text


class _Loader(yaml.SafeLoader):
    """Plain values as YAML 1.2's core schema has them; no aliases, no key twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - pyyaml's own way

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise ComposerError(None, None, "aliases (*name) are not taken here: write it out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise ConstructorError(None, None, "a name here has to be a text", key.start_mark)
            if key.value in keys:
                raise ConstructorError(None, None, f"{key.value!r} stands here twice", key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes what either version of YAML would take for anything but a text, so that any tool may read it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> ScalarNode:
        # Escapes what is a line break to some and not to others, and what nobody sees.
        style = None if data.replace("\n", "").isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)
for _tag, _pattern, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("tTfF")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)


def _loaded(text: str) -> tuple[Node | None, Any]:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        content = None if root is None else loader.construct_document(root)
        return root, content
    finally:
        loader.dispose()


def _line(root: Node | None, content: Any, problem: str) -> str:
    """`, line 12`, of the criterion that cannot be meant, or of the member that its problem names."""
    nodes = _member(root, "criteria")
    if not isinstance(nodes, SequenceNode) or not isinstance(content, dict):
        return ""
    criteria = cast("dict[str, Any]", content).get("criteria")
    if not isinstance(criteria, list):
        return ""
    for node, criterion in zip(nodes.value, cast("list[Any]", criteria), strict=True):
        try:
            Rubric.of_content({"format": FORMAT, "criteria": [criterion]})
        except RubricError:
            named = _NAMED.search(problem)
            inner = None if named is None else _member(node, named.group(1) or named.group(2))
            return f", line {(inner or node).start_mark.line + 1}"
    return ""


def _member(node: Node | None, name: str) -> Node | None:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == name:
                return value
    return None
