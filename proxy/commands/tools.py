"""`toolatlas tools`: search, describe and call from the shell, through the same catalogue and the same permissions;
accepting.py adds list and accept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import mcp_types as types
import typer
from mcp.shared.exceptions import MCPError

from proxy.app import App
from proxy.catalog.arguments import understand
from proxy.catalog.stubs import signature, stub
from proxy.catalog.text import first_sentence, one_line, printable
from proxy.commands.accepting import accept, list_tools
from proxy.commands.local import emit, with_gateway
from proxy.commands.servers import ConfigOption, JsonOption
from proxy.errors import InvalidArguments
from proxy.metatools.base import Caller
from proxy.router.base import Query
from proxy.servers.origin import Origin

FIRST_LISTING_S = 60.0


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The tools of the configured servers.", no_args_is_help=True)
    group.command("search")(search)
    group.command("describe")(describe)
    group.command("call")(call)
    group.command("list")(list_tools)
    group.command("accept")(accept)
    app.add_typer(group, name="tools")


def search(
    query: Annotated[str, typer.Argument(help="What you want to do.")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many tools.")] = 5,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find tools by what they do."""

    async def work(app: App) -> list[dict[str, Any]]:
        built = await app.gateway.router(FIRST_LISTING_S)
        ranking = await built.ranker.rank(Query(query), limit)
        return [
            {
                "tool": found.tool,
                "score": round(found.score, 3),
                "signature": signature(built.catalog.tools[found.tool]),
                "purpose": first_sentence(built.catalog.tools[found.tool].description, 140),
            }
            for found in ranking.tools
        ]

    found = with_gateway(config, work)

    def show() -> None:
        for row in found:
            typer.echo(f"{row['tool']}\n    {row['signature']}\n    {row['purpose']}")
        if not found:
            typer.echo("nothing found; try other words, or `toolatlas servers list`", err=True)

    emit(found, as_json, show)
    if not found:
        raise typer.Exit(3)


def describe(
    tool: Annotated[str, typer.Argument(help="server.tool")], config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """The Python stub of a tool, or with --json its definition as the server gave it."""

    async def work(app: App) -> tuple[dict[str, Any], str]:
        record = await app.gateway.tool(tool, FIRST_LISTING_S)
        return dict(record.raw), f"# {record.written}\n{stub(record)}"

    raw, text = with_gateway(config, work)
    emit(raw, as_json, lambda: typer.echo(text))


def call(
    tool: Annotated[str, typer.Argument(help="server.tool")],
    arguments: Annotated[str, typer.Option("--args", help="Arguments as a JSON object.")] = "{}",
    yes: Annotated[bool, typer.Option("--yes", help="Allow what would be asked about.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Call a tool and print its result. Exit code 1 when the tool failed."""
    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise InvalidArguments(f'--args is not JSON ({error}); give an object such as \'{{"text": "hi"}}\'') from error

    async def ask(method: str, params: Mapping[str, Any], on_progress: object) -> dict[str, Any]:
        if params.get("requestedSchema", {}).get("properties"):
            raise MCPError(types.INVALID_PARAMS, "the command line has no forms; call this tool through a client")
        allowed = yes or typer.confirm(one_line(str(params.get("message", "")), 400), err=True)
        return {"action": "accept", "content": {}} if allowed else {"action": "decline"}

    async def tell(method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/message":
            typer.echo(one_line(str(params.get("data", "")), 400), err=True)

    async def work(app: App) -> dict[str, Any]:
        record = await app.gateway.tool(tool, FIRST_LISTING_S)
        can_ask: dict[str, Any] = {"elicitation": {"form": {}}} if yes or sys.stdin.isatty() else {}
        origin = Origin(session="command", modern=False, ask=ask, tell=tell, capabilities=can_ask)
        caller = Caller(agent="local", origin=origin)
        return await app.service.calls.call(record, understand(given, record.input_schema), caller)

    result = with_gateway(config, work)

    def show() -> None:
        for item in result.get("content", []):
            # On a terminal some characters are commands; --json gives the text as it is.
            text = printable(str(item.get("text"))) if item.get("type") == "text" else f"[{item.get('type')}]"
            typer.echo(text)

    emit(result, as_json, show)
    if result.get("isError"):
        raise typer.Exit(1)
