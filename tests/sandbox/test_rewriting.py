"""What agents' code becomes for Monty: calls that can be under way together, on the lines where they were."""

from __future__ import annotations

import ast
import sys

import pytest

from proxy.sandbox.rewriting import Rewritten, rewrite

SERVERS = ("git", "time")


def calls(rewritten: Rewritten) -> set[str]:
    """The source from each place that was noted, up to the bracket."""
    source = rewritten.source.encode()
    return {source[place : source.index(b"(", place)].decode() for place in rewritten.awaited}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = git.log(a=1)", "x = (await _ta_wait(git.log(a=1)))"),
        ("git.log(a=1)", "_ta_shown(((await _ta_wait(git.log(a=1)))))"),
        ("x = git.log(a=git.head())", "x = (await _ta_wait(git.log(a=(await _ta_wait(git.head())))))"),
        ("x = await git.log()", "x = await _ta_wait(git.log())"),
        ("x = await y", "x = await _ta_wait(y)"),
        ("f = lambda x: git.log(a=x)['n']", "f = lambda x: (await _ta_wait(git.log(a=x)))['n']"),
        (
            "é = git.log(a='ü'); x = git.head()",
            "é = (await _ta_wait(git.log(a='ü'))); x = (await _ta_wait(git.head()))",
        ),
        ("1, 2", "_ta_shown((1, 2))"),
        ("x = 1", "x = 1"),
        ("git.log", "_ta_shown((git.log))"),
        ("x = asyncio.gather(git.log(), f())", "x = asyncio.gather(_ta_wait(git.log()), _ta_wait(f()))"),
        ("x = asyncio.gather(*[git.log(i) for i in y])", "x = asyncio.gather(*_ta_each([git.log(i) for i in y]))"),
        ("x = asyncio.gather(*[git.log(), z])", "x = asyncio.gather(*_ta_each([git.log(), z]))"),
        ("x = other.log(a=1)", "x = other.log(a=1)"),
        ("x = git.log.more(a=1)", "x = git.log.more(a=1)"),
    ],
)
def test_insertions(code: str, expected: str) -> None:
    assert rewrite(code, SERVERS).source == expected


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.time()",
        "time = 3\ntime.x()",
        "def f(git):\n    return git.log()",
        "for git in x:\n    git.log()",
        "try:\n    pass\nexcept ValueError as git:\n    git.log()",
        "match x:\n    case [git]:\n        git.log()",
    ],
)
def test_a_name_that_the_code_binds_is_no_server(code: str) -> None:
    assert "_ta_wait" not in rewrite(code, SERVERS).source


def test_every_call_is_noted_where_it_begins() -> None:
    code = "é = git.log(a='ü')\ngit.head(x=git.tag())\nawait asyncio.gather(git.one(), *[git.two()])\nawait git.three()"
    assert calls(rewrite(code, SERVERS)) == {"git.log", "git.head", "git.tag", "git.one", "git.two", "git.three"}


def test_lines_keep_their_numbers() -> None:
    code = "def f():\r\n    return git.log(\n        a='''x\ny''',\n    )\n\rx = 1\nf()\n"
    rewritten = rewrite(code, SERVERS)
    assert rewritten.source.count("\n") == len(rewritten.lines) - 1
    for line, (before, after) in enumerate(zip(rewritten.lines, rewritten.source.split("\n"), strict=True)):
        assert ("git" in before, "x = 1" in before, "f()" in before) == (
            "git" in after,
            "x = 1" in after,
            "f()" in after,
        ), line


@pytest.mark.parametrize("code", ["1 +", "def f(:", "\0", "(" * 300, "-" * 200_000 + "1", "a" + ".b" * 100_000])
def test_what_python_cannot_parse_is_left_to_monty(code: str) -> None:
    assert rewrite(code, SERVERS).source == code


@pytest.mark.parametrize(
    "code", ["x = f\"{git.log(a='q')['n']} é {await git.head()!r:>{git.w()}}\"", "x = f'''\n{git.log()}\n'''"]
)
def test_calls_in_f_strings_are_valid_afterwards(code: str) -> None:
    rewritten = rewrite(code, SERVERS)
    assert calls(rewritten) <= {"git.log", "git.head", "git.w"}
    compile(rewritten.source, "x", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if sys.version_info >= (3, 12):
        assert "git.log" in calls(rewritten)
