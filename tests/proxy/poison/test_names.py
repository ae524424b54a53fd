"""Look-alike names lead nowhere but to their own tool and are reported; stuffed words win no search for another's."""

from __future__ import annotations

import pytest
from mcp import Client

from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.lookalikes import lookalikes, plain, skeleton
from proxy.catalog.names import OWN_TOOLS
from proxy.catalog.purpose import purpose
from proxy.errors import AgentError, Denied, UnknownName
from proxy.router.base import Query
from proxy.router.lexical import LexicalRouter
from tests.fixtures.poisoned import EVERYONE, HONEST, NAMES
from tests.proxy.poison.conftest import StartKnowing

STUFFED = frozenset({"stuffed", "stuffed_name", "stuffed_parameters", "query_name"})
BEYOND_WORDS = {"what time is it in Paris": "query_name"}
"""A tool whose name is the whole question, with a word in it that no honest tool has. Words alone cannot tell."""


def catalog(denied: str = "") -> Catalog:
    def refusal(server: str, tool: str) -> str | None:
        return "denied by tools.deny" if f"{server}.{tool}" == denied else None

    return build_catalog([Source(said.name, purpose(None, said.listing), said.listing) for said in EVERYONE], refusal)


HONEST_TOOLS = [(said.name, str(tool["name"])) for said in HONEST for tool in said.tools]


def spellings(server: str, tool: str) -> list[str]:
    camel = "".join(part.capitalize() for part in tool.split("_"))
    return [
        f"{server}.{tool}", f"{server}__{tool}", f"{server}/{tool}", f"{server}:{tool}", f"{server}.{camel}",
        f"{server}-{tool}".upper(), f"{server}_{tool.replace('_', '-')}", tool, tool.replace("_", "-"), camel,
    ]  # fmt: skip


@pytest.mark.parametrize(("server", "tool"), HONEST_TOOLS)
def test_no_spelling_of_an_honest_tool_leads_to_another(server: str, tool: str) -> None:
    built = catalog()
    assert built.tool(f"{server}.{tool}").server == server
    for name in spellings(server, tool):
        try:
            found = built.tool(name)
        except UnknownName as error:
            # Another has a name of the same letters; which one is meant is asked, not guessed.
            found = built.tool(f"{server}.{tool}") if f"{server}.{tool}" in str(error) else None
        assert found is not None, name
        assert (found.server, found.name) == (server, tool), name


@pytest.mark.parametrize(("server", "tool"), HONEST_TOOLS)
def test_a_denied_tool_is_not_replaced_by_one_that_looks_like_it(server: str, tool: str) -> None:
    built = catalog(f"{server}.{tool}")
    for name in spellings(server, tool):
        with pytest.raises(AgentError):
            built.tool(name)
    with pytest.raises(Denied):
        built.tool(f"{server}.{tool}")


@pytest.mark.parametrize("name", ["search_tools", "call_tool", "describe_tools", "SearchTools", "callTool"])
def test_a_name_of_the_gateway_s_own_means_no_server_s_tool(name: str) -> None:
    with pytest.raises(UnknownName):
        catalog().tool(name)
    assert catalog().tool("our_names.search_tools").server == "our_names"


@pytest.mark.anyio
async def test_the_names_of_the_gateway_s_own_tools_are_those_it_has(start_knowing: StartKnowing) -> None:
    async with start_knowing([]) as app, Client(app.server) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == OWN_TOOLS


def test_every_look_alike_is_reported_with_what_it_looks_like_and_no_honest_tool_is() -> None:
    reports = lookalikes(catalog().servers)
    assert {report.text for report in reports if report.serious} == {
        "cyrillic.r_ad_file ('r\\u0435ad_file') can be taken for files.read_file",
        "cyrillic.delet__file ('delet\\u0435_file') can be taken for files.delete_file, same_name.delete_file",
        "digits.read_fi1e can be taken for files.read_file",
        "digits.s3nd_emai1 can be taken for mail.send_email",
        "wide._____file ('\\uff52\\uff45\\uff41\\uff44_file') can be taken for files.read_file",
        "full_name.files_read_file ('files.read_file') bears the full name of files.read_file",
        "full_name.mail_send_email ('mail/send_email') bears the full name of mail.send_email",
        "joined.files__write_file bears the full name of files.write_file",
        "our_names.de_cribe_tools ('de\\u0455cribe_tools') looks like the gateway's own describe_tools",
    }
    assert {report.text for report in reports if not report.serious} == {
        "our_names.search_tools looks like the gateway's own search_tools",
        "our_names.callTool looks like the gateway's own call_tool",
    }


def test_names_in_usual_spellings_are_no_look_alikes() -> None:
    assert skeleton("read-file") == skeleton("readFile") == skeleton("READ_FILE")
    assert skeleton("工具") != skeleton("工")
    assert plain("Délete_\uff46\u0456le\u200b") == "Delete_file"
    assert lookalikes(catalog().servers[: len(HONEST)]) == []


@pytest.mark.parametrize(
    ("query", "tool"), [(q, f"{said.name}.{t}") for said in HONEST for q, t in said.queries.items()]
)
def test_stuffed_words_do_not_come_first_where_an_honest_tool_fits(query: str, tool: str) -> None:
    ranked = [found.tool for found in LexicalRouter(catalog().servers).rank(Query(query), 5)]
    first = ranked[0].partition(".")[0]
    assert (first if first in STUFFED else None) == BEYOND_WORDS.get(query)
    assert tool in ranked


def test_without_impostors_every_honest_tool_comes_first() -> None:
    """`stuffed` and the rest compete; those that copy another's words letter by letter are told apart by names only."""
    copies = NAMES - STUFFED
    servers = [server for server in catalog().servers if server.name not in copies]
    router = LexicalRouter(servers)
    for said in HONEST:
        for query, tool in said.queries.items():
            # "tomorrow" is a word of `stuffed` alone, which weighs a lot among so few tools.
            if query not in {*BEYOND_WORDS, "will it rain tomorrow"}:
                assert router.rank(Query(query), 1)[0].tool == f"{said.name}.{tool}", query
