"""The catalogue resolves every name that we print, forgives spelling, and refuses what is denied."""

from __future__ import annotations

import pytest

from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.records import Listing
from proxy.errors import Denied, UnknownName


def listing(*names: str) -> Listing:
    return Listing(tools=tuple({"name": name, "inputSchema": {}} for name in names), protocol_version="2025-11-25")


def catalog(refused: tuple[str, str] | None = None) -> Catalog:
    def refusal(server: str, tool: str) -> str | None:
        return "denied by tools.deny" if (server, tool) == refused else None

    return build_catalog(
        [
            Source("my.srv:1", "Things.", listing("read-file", "GET:/x", "search")),
            Source("web", "Web.", listing("search", "fetch")),
            Source("silent", "Nothing yet.", None),
        ],
        refusal,
    )


@pytest.mark.parametrize(
    "name",
    [
        "my_srv_1.read_file",
        "my.srv:1.read-file",
        "my_srv_1/read_file",
        "My_Srv_1.readFile",
        "read_file",
        "my_srv_1__read_file",
    ],
)
def test_one_tool_is_found_under_every_spelling(name: str) -> None:
    tool = catalog().tool(name)
    assert (tool.server, tool.name) == ("my.srv:1", "read-file")


def test_every_written_and_exposed_name_leads_to_its_tool() -> None:
    built = catalog()
    for written, tool in built.tools.items():
        assert built.tool(written) is tool
    for exposed, tool in built.exposed.items():
        assert built.tool(exposed) is tool


def test_a_tool_name_that_two_servers_have_must_be_named_in_full() -> None:
    with pytest.raises(UnknownName, match=r"my_srv_1\.search, web\.search"):
        catalog().tool("search")


def test_a_misspelled_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"did you mean web\.fetch"):
        catalog().tool("web.fetsch")


def test_a_misspelled_server_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean web"):
        catalog().server("webb")


@pytest.mark.parametrize("name", ["web.fetch", "web__fetch", "WEB.Fetch"])
def test_a_denied_tool_is_refused_under_every_spelling(name: str) -> None:
    with pytest.raises(Denied, match=r"tools\.deny"):
        catalog(refused=("web", "fetch")).tool(name)


def test_a_denied_tool_is_refused_under_its_own_name_too() -> None:
    built = catalog(refused=("web", "fetch"))
    with pytest.raises(Denied, match=r"tools\.deny"):
        built.own_tool(built.server("web"), "fetch")


def test_denying_a_tool_renames_no_other() -> None:
    assert set(catalog().tools) - set(catalog(refused=("web", "search")).tools) == {"web.search"}


def test_a_server_that_was_never_listed_is_in_the_index() -> None:
    assert catalog().server("silent").tools == ()


def test_the_hash_changes_with_a_description_only() -> None:
    def refusal(server: str, tool: str) -> None:
        return None

    one = build_catalog([Source("a", "p", Listing(({"name": "t", "description": "x"},), "v"))], refusal)
    two = build_catalog([Source("a", "p", Listing(({"name": "t", "description": "y"},), "v"))], refusal)
    assert one.hash != two.hash
