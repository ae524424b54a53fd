"""What every backend of the sandbox has to do, as a table: programs run one after the other, and what comes of each.

Above: test_contract.py, which runs the table against each backend. Below: conftest.py with the tools the code calls.
The code is written in what the smallest of the languages knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.sandbox.base import Limits, Output, RunResult, Status
from tests.sandbox.conftest import Tools

LIMITS = Limits(
    grace_s=0.5,
    calls=20,
    parallel=4,
    code_bytes=50_000,
    argument_bytes=100_000,
    value_bytes=1_000_000,
    output_kept=20_000,
    warm=1,
)
"""Of the whole table: small enough to reach, and the same for all, so that one interpreter can be used again."""
LIMIT_S = 20.0
"""Of a run that is not about time."""

Check = Callable[[RunResult, Tools], object]
"""Asserts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a program; what is left out has to be as after a run in which nothing happened."""

    code: str
    timeout_s: float = LIMIT_S
    status: Status = Status.OK
    value: Any = None
    """Of the last expression, read as JSON; None where there is none."""
    output: str = ""
    fails_with: tuple[str, str] | None = None
    """The exception's class, and words of its message."""
    calls: int = 0
    check: Check | None = None
    """Looks at value and output instead."""


def after_failing(run: Run) -> tuple[Run, ...]:
    """Variables of before, and of the failing run itself, are there afterwards."""
    return (Run(code="before = 1"), run, Run(code="before + during", value=3))


def fits(result: RunResult) -> Output:
    """The output, whose text is within the limit and whose gap is in it."""
    output = result.output
    assert len(output.text) <= LIMITS.output_kept
    assert (0 < output.gap_at < len(output.text)) is (output.left_out > 0)
    return output


def many_lines(result: RunResult, tools: Tools) -> None:
    output, printed = fits(result), "".join(f"line {number}\n" for number in range(20_000))
    assert len(output.text) > LIMITS.output_kept // 2
    assert output.left_out == len(printed) - len(output.text)
    assert printed.startswith(output.text[: output.gap_at])
    assert printed.endswith(output.text[output.gap_at :])


def one_line(result: RunResult, tools: Tools) -> None:
    output = fits(result)
    assert len(output.text) + output.left_out == 100_001
    assert set(output.text) == {"é", "\n"}


def long_value(result: RunResult, tools: Tools) -> None:
    assert result.value is not None
    assert LIMITS.output_kept // 2 < len(result.value) <= LIMITS.output_kept
    assert result.value.startswith('"xxx') or result.value.startswith("'xxx")


def source_line(result: RunResult, tools: Tools) -> None:
    assert result.failure is not None
    assert "half = 1 / 0" in result.failure.traceback
    assert "/" not in result.failure.traceback.replace("half = 1 / 0", ""), "a path of the backend's own"


def cancelled_call(result: RunResult, tools: Tools) -> None:
    assert (tools.cancelled, tools.at_once) == (1, 0)


def at_most_so_many_at_once(result: RunResult, tools: Tools) -> None:
    assert json.loads(result.value or "") == list(range(12))
    assert 1 < tools.most_at_once <= LIMITS.parallel


def unprintable(result: RunResult, tools: Tools) -> None:
    (result.value or "").encode()
    result.output.text.encode()
    assert "end" in result.output.text


CAUGHT = "try:\n    {}\nexcept ToolError as error:\n    print(str(error))"

CASES: dict[str, tuple[Run, ...]] = {
    "variables are kept": (
        Run(code="x = 40\ny = [x]"),
        Run(code="y.append(x + 2)"),
        Run(code="y[-1]", value=42),
    ),
    "functions and imports are kept": (
        Run(code="import json\ndef twice(n):\n    return 2 * n"),
        Run(code="json.dumps(twice(21))", value="42"),
    ),
    "the last expression is the value": (
        Run(code="1; 2", value=2),
        Run(code="z = 3"),
        Run(code="None"),
        Run(code="print('a')", output="a\n"),
        Run(code="{'a': [1, 2.5, None, True, 'b']}", value={"a": [1, 2.5, None, True, "b"]}),
        Run(code="(1, 2)", check=lambda result, _: result.value and result.value.strip("([])") == "1, 2"),
    ),
    "nothing is a run too": (Run(code=""), Run(code="# only a remark")),
    "what is printed comes in order": (
        Run(code="for i in range(3):\n    print(i, end=' ')\nprint('a', 'b', sep='-')", output="0 1 2 a-b\n"),
    ),
    "an exception": after_failing(
        Run(
            code="during = 2\ndef f():\n    half = 1 / 0\nf()",
            status=Status.ERROR,
            fails_with=("ZeroDivisionError", "division by zero"),
            check=source_line,
        )
    ),
    "an exception after output": (
        Run(code="print('so far')\n[][1]", status=Status.ERROR, fails_with=("IndexError", ""), output="so far\n"),
    ),
    "an unknown name": (Run(code="unheard_of", status=Status.ERROR, fails_with=("NameError", "unheard_of")),),
    "an error of syntax": (
        Run(code="before = 1"),
        Run(code="before = 2\nif", status=Status.ERROR, fails_with=("SyntaxError", "")),
        Run(code="before", value=1),
    ),
    "endless recursion": (
        Run(code="before = 1"),
        Run(code="def f(n):\n    return f(n + 1)\nf(0)", status=Status.ERROR, fails_with=("RecursionError", "")),
        Run(code="before", value=1),
    ),
    "code that is too long": (
        Run(code="x = 1\n" * 10_000, status=Status.ERROR, fails_with=("ValueError", "50,000 are the most")),
    ),
    "time over in a loop": after_failing(
        Run(code="during = 2\nwhile True:\n    pass", timeout_s=0.5, status=Status.TIMEOUT)
    ),
    "time over in a call": after_failing(
        Run(code="during = 2\ns.hang()", timeout_s=0.5, status=Status.TIMEOUT, calls=1, check=cancelled_call)
    ),
    "time over in a call whose error the code catches": (
        Run(code="before = 1"),
        Run(
            code="try:\n    s.hang()\nexcept ToolError:\n    pass",
            timeout_s=0.5,
            status=Status.TIMEOUT,
            calls=1,
            check=cancelled_call,
        ),
        Run(code="before", value=1),
    ),
    "time stands still while a person is asked": (
        Run(code="s.ask(seconds=1.2)", timeout_s=0.6, value="yes", calls=1),
        Run(code="s.ask(seconds=0.1)\nwhile True:\n    pass", timeout_s=0.6, status=Status.TIMEOUT, calls=1),
    ),
    "many lines": (Run(code="for i in range(20000):\n    print('line', i)", check=many_lines),),
    "one long line": (Run(code="print('é' * 100000)", check=one_line),),
    "a long value": (Run(code="'x' * 100000", check=long_value), Run(code="1", value=1)),
    "unicode": (
        Run(code="größe = '漢字 🎉'\nprint('é', größe)\ngröße", output="é 漢字 🎉\n", value="漢字 🎉"),
        Run(code="s.echo(value='漢\\x00字\\u2028🎉')", value="漢\x00字\u2028🎉", calls=1),
    ),
    "half a character": (Run(code="print('\\ud800 end')", check=unprintable),),
    "a call": (
        Run(code="s.echo(value={'a': [1, None]})", value={"a": [1, None]}, calls=1),
        Run(code="s.echo(value=1) + s.echo(value=2)", value=3, calls=2),
    ),
    "await is tolerated": (Run(code="await s.echo(value=5)", value=5, calls=1),),
    "a failing call is caught": (Run(code=CAUGHT.format("s.fail(a=1)"), output="s.fail failed on purpose\n", calls=1),),
    "a failing call that is not caught": (
        Run(code="before = 1"),
        Run(code="s.fail()", status=Status.ERROR, fails_with=("ToolError", "s.fail failed on purpose"), calls=1),
        Run(code="before", value=1),
    ),
    "a large result": (Run(code="len(s.repeat(text='x', times=900000))", value=900_000, calls=1),),
    "a result that is too large": (
        Run(
            code=CAUGHT.format("s.repeat(text='x', times=1000001)"),
            calls=1,
            check=lambda result, _: _says(result, "1,000,000"),
        ),
    ),
    "arguments that are too large": (
        Run(
            code=CAUGHT.format("s.echo(value='x' * 100001)"),
            check=lambda result, tools: _says(result, "100,000") and not tools.made,
        ),
    ),
    "calls one after the other": (Run(code="sum([s.echo(value=i) for i in range(20)])", value=190, calls=20),),
    "one call too many": (
        Run(
            code="done = 0\ntry:\n    for i in range(30):\n        s.echo(value=i)\n        done += 1\n"
            "except ToolError as error:\n    print(str(error))\ndone",
            calls=20,
            check=lambda result, _: _says(result, "20") and result.value == "20",
        ),
        Run(code="s.echo(value='in the next run')", value="in the next run", calls=1),
    ),
    "calls at the same time": (
        Run(
            code="parallel(lambda i: s.slow(seconds=0.05, value=i), range(12))", calls=12, check=at_most_so_many_at_once
        ),
    ),
    "looking up": (
        Run(code="servers()", value=[{"name": "s", "purpose": "for tests", "tools": 4}]),
        Run(code="print(describe('s.echo'))", output="describe of s.echo\n"),
    ),
}


def _says(result: RunResult, words: str) -> bool:
    """Whether that is in the printed error."""
    assert words in result.output.text, result
    return True


def verify(run: Run, result: RunResult, tools: Tools) -> None:
    """Asserts that the run came to what the table says."""
    assert result.status is run.status, result
    assert (result.kept, result.lost_because) == (True, None), result
    assert result.calls == run.calls, result
    assert 0 <= result.seconds < LIMIT_S
    if run.fails_with is not None:
        assert result.failure is not None, result
        kind, words = run.fails_with
        assert result.failure.kind == kind, result.failure
        assert words in result.failure.message, result.failure
    elif run.status is Status.OK:
        assert result.failure is None, result.failure
    if run.check is not None:
        assert run.check(result, tools) in (True, None), result
        return
    assert result.output == Output(run.output), result.output
    value = None if result.value is None else json.loads(result.value)
    assert value == run.value, result.value
