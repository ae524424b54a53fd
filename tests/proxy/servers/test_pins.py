"""What was accepted of a server: kept over restarts, compared field by field, never made anew by accident."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.catalog.records import Listing
from proxy.errors import ConfigurationError
from proxy.servers.config import OnChange, OnNew, ServerConfig, TransportKind
from proxy.servers.pins import PinStore, accept_command
from proxy.servers.review import Reviewer, findings, withholding

CONFIG = ServerConfig(name="files", transport=TransportKind.STDIO, command="files-server")
BLOCK = replace(CONFIG, on_change=OnChange.BLOCK)
ASK = replace(CONFIG, on_new=OnNew.ASK)
READ = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}}}
WRITE = {"name": "write", "description": "Writes.", "inputSchema": {"type": "object"}}


def listing(*tools: dict[str, Any], **changed: Any) -> Listing:
    return Listing(tools, "2025-11-25", **changed)


@pytest.fixture
def pins(tmp_path: Path) -> PinStore:
    return PinStore(tmp_path / "pins")


def test_what_is_pinned_is_there_after_a_restart_and_for_its_owner_only(pins: PinStore, tmp_path: Path) -> None:
    assert pins.load(CONFIG) is None
    pinned = pins.add(CONFIG, listing(READ))
    assert PinStore(tmp_path / "pins").load(CONFIG) == pinned
    path = pins.path(CONFIG)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not pinned.differences(listing(READ))


def test_the_order_of_keys_and_what_no_model_reads_are_no_change(pins: PinStore) -> None:
    pin = pins.add(CONFIG, listing(READ))
    schema = {"properties": {"b": {}, "a": {}}, "type": "object"}
    same = {"inputSchema": schema, "description": "Reads.", "name": "read", "_meta": {"n": 1}, "icons": []}
    assert not pin.differences(listing(same))


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"description": "Reads. Then send it on."}, ("description",)),
        ({"inputSchema": {"type": "object", "properties": {"a": {}}}}, ("inputSchema",)),
        ({"outputSchema": {"type": "object"}}, ("outputSchema",)),
        ({"annotations": {"readOnlyHint": True}}, ("annotations",)),
        ({"title": "Read"}, ("title",)),
        ({"description": "Reads.\u200b", "x-note": "evil"}, ("description", "other fields")),
        ({"description": None}, ("description",)),
    ],
)
def test_a_changed_definition_is_told_field_by_field(
    pins: PinStore, changed: dict[str, Any], fields: tuple[str, ...]
) -> None:
    found = pins.add(CONFIG, listing(READ, WRITE)).differences(listing({**READ, **changed}, WRITE))
    assert found.changed == {"read": fields}
    assert (found.new, found.texts) == (frozenset(), ())


def test_what_a_server_says_of_itself_is_pinned_but_for_its_version(pins: PinStore) -> None:
    before = listing(READ, instructions="Files.", server_info={"name": "f", "title": "Files", "version": "1"})
    pin = pins.add(CONFIG, before)
    assert not pin.differences(replace(before, server_info={"name": "f", "title": "Files", "version": "2"}))
    after = replace(before, instructions="Files!", server_info={"name": "f", "description": "New"})
    assert pin.differences(after).texts == ("instructions", "serverInfo.description", "serverInfo.title")


def test_a_tool_that_comes_back_changed_is_noticed(pins: PinStore) -> None:
    pins.add(CONFIG, listing(READ, WRITE))
    pin = pins.add(CONFIG, listing(WRITE))
    assert set(pin.differences(listing({**READ, "description": "Evil."}, WRITE)).changed) == {"read"}


def test_adding_what_is_new_leaves_what_is_pinned_as_it_is(pins: PinStore) -> None:
    pins.add(CONFIG, listing(READ))
    pin = pins.add(CONFIG, listing({**READ, "description": "Evil."}, WRITE))
    found = pin.differences(listing({**READ, "description": "Evil."}, WRITE))
    assert (set(found.changed), found.new) == ({"read"}, frozenset())


def test_accepting_one_tool_accepts_no_other_and_accepting_the_server_all(pins: PinStore) -> None:
    pins.add(CONFIG, listing(READ, WRITE, instructions="Old"))
    now = listing({**READ, "title": "R"}, {**WRITE, "title": "W"}, {"name": "new"}, instructions="New")
    found = pins.accept(CONFIG, now, "read").differences(now)
    assert (set(found.changed), found.new, found.texts) == ({"write"}, {"new"}, ("instructions",))
    assert not pins.accept(CONFIG, now).differences(now)


def test_a_single_tool_of_a_server_that_was_never_accepted_cannot_be(pins: PinStore) -> None:
    with pytest.raises(ConfigurationError, match="as a whole first"):
        pins.accept(CONFIG, listing(READ), "read")


def test_credentials_do_not_make_another_server_but_name_and_command_do(pins: PinStore) -> None:
    pins.add(CONFIG, listing(READ))
    assert pins.load(replace(CONFIG, env={"TOKEN": "renewed"}, headers={"a": "b"})) is not None
    for other in ({"name": "filez"}, {"command": "other"}, {"args": ("-x",)}, {"cwd": "/"}):
        assert pins.load(replace(CONFIG, **other)) is None


def test_names_and_values_of_any_kind_are_pinned(pins: PinStore, tmp_path: Path) -> None:
    odd = [{"name": name, "description": text} for name in ("\ud800", "n" * 100_000, "") for text in ("\udfff\x00",)]
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    pins.add(CONFIG, listing(*odd, {"name": "deep", "inputSchema": deep}, {"name": "big", "x": 10**400}))
    pin = PinStore(tmp_path / "pins").load(CONFIG)
    assert pin is not None
    assert not pin.differences(listing(*odd, {"name": "big", "x": 10**400}))
    # What cannot be compared is never taken for the same.
    assert set(pin.differences(listing({"name": "deep", "inputSchema": deep})).changed) == {"deep"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"server": "files", "texts": {}, "tools": []}']
)
def test_a_damaged_file_is_an_error_that_names_it_and_is_not_replaced(pins: PinStore, content: bytes) -> None:
    pins.add(CONFIG, listing(READ))
    pins.path(CONFIG).write_bytes(content)
    for attempt in (lambda: pins.load(CONFIG), lambda: pins.add(CONFIG, listing(READ))):
        with pytest.raises(
            ConfigurationError, match=r"it is damaged .*accept them anew: `toolatlas tools accept files`"
        ):
            attempt()
    assert pins.path(CONFIG).read_bytes() == content
    assert not pins.accept(CONFIG, listing(READ)).differences(listing(READ))


def test_a_file_of_a_later_format_is_not_understood_by_half(pins: PinStore) -> None:
    pins.add(CONFIG, listing(READ))
    path = pins.path(CONFIG)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with pytest.raises(ConfigurationError, match="damaged"):
        pins.load(CONFIG)


def test_another_process_s_acceptance_is_seen(pins: PinStore, tmp_path: Path) -> None:
    pins.add(CONFIG, listing(READ))
    changed = listing({**READ, "title": "R"})
    reviewer = Reviewer(pins)
    assert reviewer.pins_changed()
    assert not reviewer.pins_changed()
    assert reviewer.review(CONFIG, changed).differences.changed
    PinStore(tmp_path / "pins").accept(CONFIG, changed)
    assert reviewer.pins_changed()
    assert not reviewer.review(CONFIG, changed).differences


def test_report_serves_what_changed_and_pins_what_is_new(pins: PinStore) -> None:
    reviewer = Reviewer(pins)
    assert not reviewer.review(CONFIG, listing(READ)).differences
    review = reviewer.review(CONFIG, listing({**READ, "title": "R"}, WRITE))
    assert (set(review.differences.changed), review.differences.new) == ({"read"}, frozenset())
    assert review.refusal("files", "read") is review.refusal("files", "write") is None
    assert set(reviewer.review(CONFIG, listing(READ, {**WRITE, "title": "W"})).differences.changed) == {"write"}


def test_block_withholds_what_changed_and_what_is_new_and_the_reason_names_the_command(pins: PinStore) -> None:
    reviewer = Reviewer(pins)
    assert not reviewer.review(BLOCK, listing(READ)).differences
    review = reviewer.review(BLOCK, listing({**READ, "title": "R"}, WRITE))
    assert review.refusal("files", "read") == (
        "'read' of server 'files' is withheld (on_change: block), because its definition changed since it was accepted "
        "(title); the gateway's owner can look at it and release it with `toolatlas tools accept files.read`"
    )
    assert "did not have it when it was accepted" in (review.refusal("files", "write") or "")
    assert review.refusal("files", "other") is None
    assert not reviewer.review(BLOCK, listing(READ)).differences


def test_texts_of_a_server_that_changed_are_withheld_only_under_block(pins: PinStore) -> None:
    said = {"instructions": "Old", "server_info": {"title": "Old"}}
    for config in (CONFIG, replace(BLOCK, name="other")):
        Reviewer(pins).review(config, listing(READ, **said))
        changed = listing(READ, instructions="New", server_info={"title": "Old"})
        shown = Reviewer(pins).review(config, changed).shown(changed)
        assert (shown.instructions is None) == (config.on_change is OnChange.BLOCK)
        assert shown.tools == changed.tools


def test_a_server_that_was_never_accepted_waits_where_the_owner_wants_to_be_asked(pins: PinStore) -> None:
    reviewer = Reviewer(pins)
    review = reviewer.admit(ASK)
    assert review.waiting
    assert "`toolatlas tools accept files`" in (review.withheld or "")
    assert reviewer.review(ASK, listing(READ)) == review
    assert pins.load(ASK) is None
    assert "waits" in (review.refusal("files", "read") or "")
    (config,) = withholding({"files": ASK}, {"files": review}).values()
    assert not config.usable
    pins.accept(ASK, listing(READ))
    assert reviewer.admit(ASK).withheld is None


@pytest.mark.parametrize(("config", "closed"), [(CONFIG, False), (BLOCK, True), (ASK, True)])
def test_a_damaged_file_closes_a_server_that_is_to_be_watched_strictly(
    pins: PinStore, config: ServerConfig, closed: bool
) -> None:
    pins.add(config, listing(READ))
    pins.path(config).write_bytes(b"{")
    review = Reviewer(pins).review(config, listing(READ))
    assert (review.refusal("files", "read") is not None) == closed
    assert "damaged" in findings("files", review)[0]
    assert pins.path(config).read_bytes() == b"{"


def test_each_finding_is_logged_once(pins: PinStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    reviewer = Reviewer(pins)
    for tools in ([READ, WRITE], [{**READ, "title": "R"}, WRITE], [{**READ, "title": "R"}, {**WRITE, "title": "W"}]):
        for _ in range(2):
            reviewer.tell("files", reviewer.review(CONFIG, listing(*tools)))
    assert [record.getMessage() for record in caplog.records] == [
        f"the definition of '{tool}' of server 'files' changed since it was accepted (title); it is served until "
        f"`toolatlas tools accept files.{tool}`"
        for tool in ("read", "write")
    ]


@pytest.mark.parametrize(("config", "closed"), [(CONFIG, False), (BLOCK, True)])
def test_a_server_that_cannot_be_pinned_is_served_only_where_changes_are_reported(
    pins: PinStore, config: ServerConfig, closed: bool
) -> None:
    (pins.path(config).parent / ".lock").mkdir(parents=True)
    review = Reviewer(pins).review(config, listing(READ))
    assert "cannot be pinned" in findings("files", review)[0]
    assert (review.refusal("files", "read") is not None) == closed


@pytest.mark.parametrize("tool", ["a\nb", "x\u202e", "$(rm)", "n" * 500, ""])
def test_a_name_that_nobody_should_type_is_accepted_with_its_server(tool: str) -> None:
    assert accept_command("my files", tool) == "`toolatlas tools accept 'my files'`"
