"""What may be seen and called, and when the user is asked."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.catalog.records import ToolRecord
from proxy.servers.config import Approve, ServerConfig, TransportKind
from proxy.servers.permission import Permissions


def permissions(**changes: Any) -> Permissions:
    return Permissions({"files": ServerConfig(name="files", transport=TransportKind.STDIO, command="x", **changes)})


def tool(**annotations: object) -> ToolRecord:
    raw = {"name": "delete_file", "annotations": annotations}
    return ToolRecord(server="files", name="delete_file", written="files.delete_file", raw=raw)


def test_everything_is_permitted_unless_the_entry_says_otherwise() -> None:
    assert permissions().refusal("files", "delete_file") is None


def test_a_denied_tool_names_the_glob() -> None:
    refusal = permissions(deny=("x*", "delete_*")).refusal("files", "delete_file")
    assert refusal == "'delete_file' of server 'files' is denied by tools.deny ('delete_*') in its configuration entry"


def test_deny_wins_over_allow() -> None:
    both = permissions(allow=("delete_file",), deny=("delete_*",))
    assert "tools.deny" in (both.refusal("files", "delete_file") or "")


def test_what_is_not_allowed_is_refused_with_the_globs() -> None:
    reading = permissions(allow=("read_*", "list_?"))
    assert reading.refusal("files", "read_file") is None
    assert reading.refusal("files", "list_a") is None
    assert reading.refusal("files", "list_ab") == (
        "'list_ab' of server 'files' is not among tools.allow ('read_*', 'list_?') in its configuration entry"
    )


def test_an_empty_allow_list_permits_nothing() -> None:
    assert "tools.allow (empty)" in (permissions(allow=()).refusal("files", "read_file") or "")


def test_a_long_allow_list_is_cut_and_says_so() -> None:
    refusal = permissions(allow=tuple(f"tool{i}" for i in range(30))).refusal("files", "x") or ""
    assert "'tool7' and 22 more" in refusal
    assert "tool8" not in refusal


def test_globs_mind_upper_and_lower_case_and_the_whole_name() -> None:
    denied = permissions(deny=("Delete",))
    assert denied.refusal("files", "delete") is None
    assert denied.refusal("files", "Delete_all") is None
    assert denied.refusal("files", "Delete") is not None


def test_an_unknown_server_is_refused() -> None:
    assert "no entry for that server" in (permissions().refusal("mail", "send") or "")
    assert Permissions({}).refusal("files", "read_file") is not None


def test_a_server_that_is_turned_off_or_unusable_is_refused() -> None:
    assert "turned off" in (permissions(enabled=False).refusal("files", "read_file") or "")
    assert "'url' is bad" in (permissions(disabled_reason="'url' is bad").refusal("files", "read_file") or "")


def test_invisible_characters_of_a_tool_name_do_not_reach_the_text() -> None:
    refusal = permissions(deny=("*",)).refusal("files", "a\u202eb\u200b\x1b[31m") or ""
    assert refusal.isprintable()


def test_a_destructive_tool_is_asked_about() -> None:
    asked = permissions().approval("files", tool(destructiveHint=True))
    assert asked == "Allow files.delete_file? Its server says it is destructive."


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"destructiveHint": False},
        {"destructiveHint": "true"},
        {"destructiveHint": 1},
        {"destructiveHint": True, "readOnlyHint": True},
    ],
)
def test_a_tool_that_does_not_say_destructive_is_not_asked_about(annotations: dict[str, object]) -> None:
    assert permissions().approval("files", tool(**annotations)) is None


def test_a_read_only_hint_that_is_not_literally_true_takes_nothing_back() -> None:
    assert permissions().approval("files", tool(destructiveHint=True, readOnlyHint="yes")) is not None


def test_approve_always_and_never_do_not_look_at_the_hints() -> None:
    always, never = permissions(approve=Approve.ALWAYS), permissions(approve=Approve.NEVER)
    assert always.approval("files", tool(readOnlyHint=True)) == (
        "Allow files.delete_file? The configuration asks before every call to its server."
    )
    assert never.approval("files", tool(destructiveHint=True)) is None


def test_a_tool_of_an_unknown_server_is_always_asked_about() -> None:
    assert Permissions({}).approval("files", tool(readOnlyHint=True)) is not None
