"""What an agent reads of a run: how it ended in the first line, what is left out with its count, and how to repair."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.records import Listing
from proxy.metatools.hints import hint
from proxy.metatools.report import NOTHING, Run, report
from proxy.sandbox.base import Failure, Limits, Output, RunResult, Status

LIMITS = Limits()
ROOM = 10_000
LINES = "".join(f"line {number}\n" for number in range(5_000))


def reported(
    room: int = ROOM, calls: int = 0, hint: str | None = None, **result: Any
) -> tuple[str, str, bool, list[str]]:
    """First line, the rest, whether it is an error, and what was kept."""
    kept: list[str] = []

    def keep(text: str) -> str:
        kept.append(text)
        return f"r_{len(kept)}"

    run = Run(RunResult(**{"status": Status.OK, "seconds": 0.84, **result}), calls, hint)
    answer = report(run, LIMITS, room, keep)
    assert answer.keys() <= {"content", "isError"}
    assert len(json.dumps(answer, ensure_ascii=False).encode()) <= room
    (item,) = answer["content"]
    first, _, rest = item["text"].partition("\n")
    return first, rest, answer.get("isError") is True, kept


def test_a_run_that_went_well() -> None:
    first, rest, failed, kept = reported(calls=3, output=Output("hello\n"), value='{"a": 1}')
    assert first == "[ok in 0.8 s; 3 tool calls; variables kept]"
    assert rest == 'Output:\nhello\nValue:\n{"a": 1}'
    assert not failed
    assert not kept


def test_a_run_that_shows_nothing_says_how_to_show_something() -> None:
    assert reported()[1] == NOTHING
    assert reported(value="0")[1] == "Value:\n0"
    assert NOTHING not in reported(status=Status.TIMEOUT)[1]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"status": Status.ERROR}, "error after 0.8 s"),
        ({"status": Status.TIMEOUT, "seconds": 30.04}, "stopped after 30.0 s, its time limit"),
        ({"status": Status.CANCELLED}, "cancelled after"),
        ({"status": Status.DIED, "kept": False, "lost_because": "out of memory."}, "died after"),
    ],
)
def test_how_a_run_ended_stands_first_and_is_an_error(result: dict[str, Any], said: str) -> None:
    first, _, failed, _ = reported(**result)
    assert said in first
    assert failed


def test_a_time_limit_says_what_to_do() -> None:
    rest = reported(status=Status.TIMEOUT)[1]
    assert "timeout_s, at most 300" in rest
    assert "What tools have done stays done" in rest


def test_lost_variables_are_said_with_the_reason() -> None:
    gone = reported(status=Status.DIED, kept=False, lost_because="out of memory")[0]
    assert gone.endswith("; variables lost: out of memory]")
    before = reported(lost_because="it was idle for 10 min")[0]
    assert before.endswith("variables kept, those of earlier runs were lost: it was idle for 10 min]")


def test_a_long_output_keeps_its_head_and_more_of_its_tail() -> None:
    first, rest, _, kept = reported(output=Output(LINES))
    cut = re.search(r"([\d,]+) of ([\d,]+) characters of output left out, read_result\(id=\"r_1\"\) gives all", first)
    assert cut is not None
    left_out, total = (int(number.replace(",", "")) for number in cut.groups())
    assert total == len(LINES)
    assert kept == [LINES]
    head, marker, tail = re.split(r"(\n… [\d,]+ characters left out …\n)", rest.removeprefix("Output:\n"))
    assert cut[1] in marker
    assert LINES.startswith(head)
    assert LINES.endswith(f"{tail}\n")
    assert len(head) + left_out + len(tail) + 1 == total
    assert len(tail) > 2 * len(head) > 1_000


def test_an_output_that_was_not_all_kept_says_so() -> None:
    output = Output(LINES[:3_000] + LINES[-9_000:], gap_at=3_000, left_out=2_000_000)
    first, rest, _, kept = reported(output=output)
    assert "of 2,012,000 characters" in first
    assert "gives all but 2,000,000" in first
    assert kept[0].startswith(LINES[:3_000] + "\n… 2,000,000 characters that were not kept …\n")
    assert rest.endswith(LINES[-6_000:].rstrip("\n"))


def test_a_gap_is_never_shown_as_if_nothing_were_missing() -> None:
    output = Output("abcdef", gap_at=3, left_out=10)
    first, rest, _, _ = reported(output=output)
    assert "10 of 16 characters of output left out" in first
    assert rest == "Output:\nabc\n… 10 characters left out …\ndef"


def test_a_long_value_is_cut_and_kept() -> None:
    value = json.dumps(list(range(5_000)))
    first, rest, _, kept = reported(value=value)
    assert kept == [value]
    onward = re.search(r"offset=(\d+)\) gives the rest", first)
    assert onward is not None
    shown = int(onward[1])
    assert rest.startswith(f"Value:\n{value[:shown]}\n… ")
    assert f"{len(value):,} characters" in first


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀", "\n", '"', "\x00", "\ud800"])
@pytest.mark.parametrize("room", [ROOM, 2_000])
def test_whatever_is_in_it_a_report_fits_and_can_be_sent(letter: str, room: int) -> None:
    failure = Failure("ToolError", letter * 50_000, letter * 50_000)
    parts = {"output": Output(letter * 50_000), "value": letter * 50_000, "failure": failure}
    first, _, _, _ = reported(room, status=Status.ERROR, **parts)
    assert first.startswith("[error after")
    assert first.endswith("]")


def test_an_error_shows_the_agents_own_frames_and_the_hint_last() -> None:
    failure = Failure("NameError", "name 'gti' is not defined", '  File "<run>", line 3, in <module>\n    gti.log()\n')
    _, rest, _, _ = reported(status=Status.ERROR, output=Output("before\n"), failure=failure, hint="Did you mean git?")
    assert rest.splitlines() == [
        "Output:",
        "before",
        '  File "<run>", line 3, in <module>',
        "    gti.log()",
        "NameError: name 'gti' is not defined",
        "Did you mean git?",
    ]


def test_what_the_backend_has_written_behind_the_frames_is_not_said_twice() -> None:
    traceback = "Traceback:\n  frame\nOSError: read-only\nHint: write below /tmp"
    _, rest, _, _ = reported(status=Status.ERROR, failure=Failure("OSError", "read-only", traceback))
    assert rest == traceback


def test_a_long_traceback_keeps_its_innermost_frames() -> None:
    failure = Failure("RecursionError", "too deep", "".join(f"  frame {number}\n" for number in range(2_000)))
    _, rest, _, _ = reported(status=Status.ERROR, failure=failure)
    assert "frame 1999" in rest
    assert "frame 0\n" not in rest
    assert "characters left out …" in rest


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    def listing(*names: str) -> Listing:
        return Listing(tuple({"name": name, "inputSchema": {"type": "object"}} for name in names), "2025-11-25")

    sources = [
        Source("git", "Git.", listing("git_log", "git_diff")),
        Source("time", "Time.", listing("get_current_time")),
        Source("pending", "Waits.", None, "it waits"),
    ]
    return build_catalog(sources, lambda server, tool: None)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("name 'gti' is not defined", "Did you mean git?"),
        ("name 'serverss' is not defined", "Did you mean servers?"),
        ("name 'get_current_time' is not defined", "Did you mean time.get_current_time?"),
        ("name 'call_tool' is not defined", "call_tool is not a function in code"),
        ("name 'zzz' is not defined", None),
        ("name 'pending' is not defined", None),
        ("name 'gti' is not defined; did you mean the server git?", None),
        ("module 'time' has no attribute 'get_current_time'", "import it under another name"),
        ("module 'json' has no attribute 'lods'", None),
        ("whatever", None),
    ],
)
def test_an_unknown_name_is_answered_with_what_was_meant(catalog: Catalog, message: str, said: str | None) -> None:
    assert hint(Failure("NameError", message, "  line 1\nHint: as the backend says"), catalog) is None
    given = hint(Failure("NameError", message), catalog)
    if said is None:
        assert given is None
    else:
        assert said in (given or "")
