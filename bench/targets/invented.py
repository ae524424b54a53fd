"""An invented catalogue of any size, always the same: 28 everyday servers, repeated under numbered names.

It lets the benches run where no real catalogue is at hand. Rows are as in a catalogue file, see catalog_server.py.
"""

from __future__ import annotations

from itertools import product
from typing import Any

SERVERS = {
    "weather": ("Forecasts, observations and warnings for any place", "forecast observation warning station"),
    "maps": ("Addresses, routes and places nearby", "place route address area"),
    "calendar": ("Events and free times of the user's calendars", "event calendar invitation reminder"),
    "mail": ("Reads, sorts and sends the user's mail", "message folder draft attachment"),
    "notes": ("A notebook with pages, tags and links", "page notebook tag link"),
    "drive": ("Files and folders in the company's storage", "file folder revision permission"),
    "repositories": ("Git repositories: branches, commits and reviews", "branch commit review release"),
    "issues": ("Bug reports and plans of software projects", "issue comment milestone label"),
    "database": ("Runs queries on PostgreSQL and explains them", "table row index query"),
    "websearch": ("Searches the web and fetches pages as text", "page site snippet image"),
    "news": ("Articles of newspapers since 1990", "article headline topic source"),
    "stocks": ("Prices, filings and ratios of listed companies", "quote filing dividend portfolio"),
    "coins": ("Markets of crypto currencies", "pair wallet block order"),
    "music": ("Tracks, albums and the user's playlists", "track album playlist artist"),
    "video": ("Finds videos and their transcripts", "video channel transcript clip"),
    "photos": ("The user's photographs, by place, date and content", "photo album face location"),
    "recipes": ("Recipes with nutrients and shopping lists", "recipe ingredient menu nutrient"),
    "trains": ("Timetables, delays and tickets of European railways", "connection station delay ticket"),
    "flights": ("Flights, fares and seat maps", "flight fare airport seat"),
    "hotels": ("Rooms, prices and reviews of hotels", "room hotel offer booking"),
    "translation": ("Translates texts and looks up words", "text term glossary language"),
    "genes": ("Genes, proteins and variants from public databases", "gene protein variant pathway"),
    "molecules": ("Structures and properties of chemical compounds", "compound reaction spectrum property"),
    "sky": ("Positions of planets, stars and satellites", "planet star satellite eclipse"),
    "library": ("Catalogue, loans and full texts of a library", "book loan author citation"),
    "shop": ("Products, stock and orders of an online shop", "product order customer discount"),
    "museum": ("Works, artists and exhibitions of a large museum", "work artist exhibition gallery"),
    "health": ("Steps, sleep and training of the user's watch", "workout night measurement goal"),
}
VERBS = {
    "search": "Finds every {thing} that matches a query. Results are sorted by relevance; use `limit` and `offset` to "
    "page through them, and the filters to narrow them down.",
    "get": "Returns one {thing} in full, with its history and everything that is linked to it. Ask the search for "
    "its identifier first.",
    "list": "Lists the {thing} entries that the user may see, newest first.",
    "create": "Makes a new {thing}. All fields but the title are optional; what is left out gets the default of the "
    "user's settings. Returns the identifier.",
    "update": "Changes fields of an existing {thing} and leaves all others as they are.",
    "delete": "Removes a {thing} for good. This cannot be undone.",
    "export": "Writes the chosen {thing} entries to a file in the given format and returns its address.",
    "compare": "Puts two {thing} entries side by side and reports in which fields they differ.",
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "id": {"type": "string", "description": "Identifier of the {thing}"},
    "other_id": {"type": "string", "description": "Identifier of the {thing} to compare with"},
    "title": {"type": "string", "description": "Short title of the {thing}, at most 120 characters"},
    "query": {"type": "string", "description": "Words to look for; quote phrases, put - before words to leave out"},
    "since": {"type": "string", "format": "date", "description": "Only what is not older than this day, YYYY-MM-DD"},
    "until": {"type": "string", "format": "date", "description": "Only what is not newer than this day, YYYY-MM-DD"},
    "sort": {"type": "string", "enum": ["relevance", "date", "name"], "description": "How to sort the results"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many to return"},
    "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "How many to leave out at the beginning"},
    "fields": {"type": "object", "description": "New values by field name", "additionalProperties": True},
    "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags that the {thing} has to carry"},
    "format": {"type": "string", "enum": ["json", "csv", "pdf"], "description": "Format of the file"},
}
TAKES = {
    "search": "query since until sort tags limit offset",
    "get": "id",
    "list": "since sort limit offset",
    "create": "title fields tags",
    "update": "id fields tags",
    "delete": "id",
    "export": "query since until format limit",
    "compare": "id other_id",
}


def invented_rows(servers: int = 28, tools: int = 257) -> list[dict[str, Any]]:
    """The catalogue. A server has at most 32 tools, so `tools` may be up to 32 times `servers`."""
    names = list(SERVERS)
    rows: list[dict[str, Any]] = []
    for number in range(servers):
        base = names[number % len(names)]
        round_ = number // len(names)
        purpose, things = SERVERS[base]
        share = (number + 1) * tools // servers - number * tools // servers
        for thing, verb in list(product(things.split(), VERBS))[:share]:
            rows.append(
                {
                    "server": f"{base}_{round_ + 1}" if round_ else base,
                    "server_description": purpose,
                    "tool": f"{verb}_{thing}",
                    "tool_description": VERBS[verb].format(thing=thing),
                    "input_schema": _schema(TAKES[verb].split(), thing),
                }
            )
    return rows


def _schema(parameters: list[str], thing: str) -> dict[str, Any]:
    properties = {name: {**PARAMETERS[name]} for name in parameters}
    for name, schema in properties.items():
        schema["description"] = PARAMETERS[name]["description"].format(thing=thing)
    return {"type": "object", "properties": properties, "required": parameters[:1]}
