"""What agents and servers wrote stays text on every page, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dashboard.servers import ServerLine
from proxy.dashboard.templating import Templates
from proxy.dashboard.visible import visible
from proxy.store.database import Database
from proxy.store.labelling import Saying, save_labels
from tests.fixtures import judged, logged
from tests.proxy.dashboard.conftest import Site

SCRIPT = "<script>window.planted=1</script>"
ATTRIBUTE = '"><img src=x onerror="window.planted=1">\'onmouseover=\'window.planted=1'
LINK = "javascript:window.planted=1"
BIDI = "\u202egnirts\u2066 \u200b\U000e0041\x00\x1b[31m"
TEMPLATE = "{{ 7 * 7 }}{% include 'base.html' %}"
HOSTILE = f"{SCRIPT}{ATTRIBUTE}{LINK}{BIDI}{TEMPLATE}</pre></details></title><!--"
EPISODE = f"e_{77:024x}"
TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "link",
        "body",
        "a",
        "header",
        "div",
        "img",
        "nav",
        "form",
        "input",
        "span",
        "button",
        "main",
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "details",
        "summary",
        "label",
        "select",
        "option",
        "datalist",
        "ol",
        "li",
        "time",
        "pre",
        "dl",
        "dt",
        "dd",
        "code",
        "svg",
        "rect",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "section",
        "fieldset",
        "legend",
        "textarea",
        "blockquote",
    ]
)
ATTRIBUTES = frozenset(
    [
        "lang",
        "charset",
        "name",
        "content",
        "href",
        "rel",
        "type",
        "class",
        "src",
        "alt",
        "width",
        "height",
        "aria-label",
        "aria-current",
        "aria-hidden",
        "method",
        "action",
        "value",
        "title",
        "id",
        "for",
        "list",
        "selected",
        "checked",
        "role",
        "tabindex",
        "open",
        "datetime",
        "start",
        "scope",
        "x",
        "rx",
        "hidden",
        "autocomplete",
        "required",
        "autofocus",
        "spellcheck",
        "placeholder",
        "target",
        "maxlength",
        "rows",
    ]
)


def hostile_log() -> list[logged.Rows]:
    one = logged.Episode(77, agent=HOSTILE, client=HOSTILE, protocol="<b>2025</b>", began_at=logged.NOON)
    search = one.step("search_tools", {"query": HOSTILE, "task": HOSTILE}, logged.text(HOSTILE))
    one.decided(search, HOSTILE, [(HOSTILE, 1.0)], 1, policy="<i>lexical</i>", degraded=HOSTILE)
    one.step(HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: [HOSTILE]}, revealed=[[HOSTILE, "name"]], mode="direct")
    run = one.step("run_python", {"code": HOSTILE}, logged.text(HOSTILE * 20))
    step = one.step(HOSTILE, HOSTILE, None, parent_id=run, mode="code", outcome="tool_error", error=HOSTILE)
    one.called(step, HOSTILE, HOSTILE, arguments={"a": HOSTILE}, result=logged.text(HOSTILE))
    image = {"content": [{"type": HOSTILE, "mimeType": HOSTILE, "data": "aGk="}]}
    one.call(HOSTILE, HOSTILE, [HOSTILE], image)
    ended = one.end(HOSTILE, answer=HOSTILE)
    # What only an import from a file could bring.
    two = logged.Episode(78, began_at=logged.NOON - timedelta(hours=1))
    for rows in two.rows.values():
        for row in rows:
            row["id"] = "../../mcp?<b>"
    return [ended, two.rows]


def hostile_criterion(id: str, **members: Any) -> dict[str, Any]:
    return {"id": id, "category": HOSTILE, "text": HOSTILE, "weight": 3, **members}


async def write_hostile(database: Database) -> None:
    """The log, with a judgement, a rubric and labels that hold the same words."""
    await logged.write(database, *hostile_log())
    odd = [None, 7, [HOSTILE], {"id": 5}, {"id": "é"}, {"id": "x" * 65}, {"id": "a"}]
    criteria = [hostile_criterion("a"), hostile_criterion(SCRIPT, pitfall=True), *odd]
    verdicts = [
        judged.verdict("a", 0.5, note=HOSTILE, steps=[HOSTILE, "s_gone"], quotes=[[HOSTILE, HOSTILE], [1, 2], HOSTILE]),
        judged.verdict(HOSTILE, None, why=HOSTILE, note=HOSTILE),
        *odd,
    ]
    given = {"judge": HOSTILE, "scope": "<b>", "unrewarded": HOSTILE, "subtotals": {HOSTILE: None, "x": HOSTILE}}
    await judged.write(
        database,
        [judged.rubric(criteria=criteria, writer=HOSTILE), judged.rubric("no rubric", content=HOSTILE)],
        [
            judged.judgement(EPISODE, None, verdicts, minutes=2, **given),
            judged.judgement(EPISODE, 0.5, minutes=1, **given) | {"verdicts": HOSTILE, "subtotals": HOSTILE},
        ],
    )
    said = [
        Saying(value=0.5, note=HOSTILE),
        Saying(rubric_hash=judged.RUBRIC, criterion=SCRIPT, value=None, note=HOSTILE),
    ]
    for labeller in (HOSTILE, "local"):
        assert len(await save_labels(database, "../../mcp?<b>", labeller, said)) == 2


class Structure(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "action"):
                self.targets.add(value or "")

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def pages() -> Iterator[str]:
    yield "/ui/episodes"
    yield f"/ui/episodes/{EPISODE}"
    yield "/ui/tools?window=all"
    yield "/ui/servers?window=all"
    yield "/ui/episodes/%2E%2E%2F..%2Fmcp%3F%3Cb%3E"
    yield f"/ui/label/{EPISODE}"
    yield f"/ui/label/{EPISODE}?rubric=no%20rubric"
    yield "/ui/label/%2E%2E%2F..%2Fmcp%3F%3Cb%3E"
    yield f"/ui/label/%2E%2E%2F..%2Fmcp%3F%3Cb%3E?rubric={judged.RUBRIC}"
    yield f"/ui/label/%2E%2E%2F..%2Fmcp%3F%3Cb%3E?rubric={judged.RUBRIC}&change=1"
    for name in ("rubric", "from", "change", "after"):
        yield f"/ui/label/{EPISODE}?{name}=%3Cscript%3Ewindow.planted%3D1%3C%2Fscript%3E%22%27%E2%80%AE%00"
    for name in ("agent", "server", "tool", "outcome", "reason", "since", "text", "after", "limit", "window"):
        for page in ("episodes", "tools", "servers"):
            yield f"/ui/{page}?{name}=%3Cscript%3Ewindow.planted%3D1%3C%2Fscript%3E%22%27%E2%80%AE%00"
    yield "/ui/%3Cscript%3Ewindow.planted=1%3C/script%3E"
    yield "/ui/login?next=%22%3E%3Cscript%3Ewindow.planted%3D1%3C%2Fscript%3E"


@pytest.mark.anyio
async def test_no_page_gains_an_element_or_attribute_or_hidden_character(each_site: Site) -> None:
    line = ServerLine(name=HOSTILE, written=HOSTILE, phase="down", reason=HOSTILE, tools=0)
    site = replace(each_site, servers=(line,))
    await write_hostile(site.database)
    seen = 0
    async with site.client() as http:
        for page in pages():
            answer = await http.get(page)
            assert answer.status_code in (200, 400, 404), page
            structure = Structure()
            structure.feed(answer.text)
            structure.close()
            assert structure.tags <= TAGS, page
            assert structure.attributes <= ATTRIBUTES, page
            for target in structure.targets:
                assert not target.startswith(("javascript:", "//", "http:", "/")), (page, target)
            hidden = {c for c in answer.text if c not in "\n\t" and not c.isprintable()}
            assert hidden == set(), page
            assert "49" not in "".join(structure.text).split(), page
            seen += "".join(structure.text).count(SCRIPT)
    assert seen > 20, "the texts have to be there, or nothing was shown"


@pytest.mark.anyio
async def test_odd_names_lead_to_their_own_pages(site: Site) -> None:
    await write_hostile(site.database)
    async with site.client() as http:
        for page, own in (("/ui/episodes", "episodes/"), ("/ui/tools?window=all", "episodes?server=")):
            structure = Structure()
            structure.feed((await http.get(page)).text)
            for target in structure.targets:
                if target.startswith(own):
                    assert (await http.get(f"/ui/{target}")).status_code == 200, target


@given(st.text())
def test_visible_text_hides_nothing_and_keeps_what_is_plain(text: str) -> None:
    shown = visible(text)
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    if text.isascii() and text.isprintable():
        assert shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", "a\nb\tc"),
        ("a\r\nb\rc", "a\nb⟨U+000D⟩c"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("x\ufe0f\U000e0100", "x⟨U+FE0F⟩⟨U+E0100⟩"),
        ("⚠️ fine", "⚠️ fine"),
        ("\u3164\u115f", "⟨U+3164⟩⟨U+115F⟩"),
        ("\udc80", "⟨U+DC80⟩"),
        ("Việt 日本語 😀", "Việt 日本語 😀"),
    ],
)
def test_what_nobody_sees_is_written_as_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.anyio
async def test_a_value_that_a_page_needs_and_does_not_get_is_an_error() -> None:
    with pytest.raises(Exception, match="undefined"):
        await Templates().page("message.html", up="", viewer=None, form_token=None, title="x")


def test_no_template_switches_escaping_off() -> None:
    folder = Path(__file__).parents[3] / "proxy" / "dashboard" / "templates"
    sources = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.html")}
    assert len(sources) >= 7
    for name, source in sources.items():
        for word in ("|safe", "| safe", "autoescape", "Markup", "<script", "style=", "onclick", "http:", "https:"):
            assert word not in source, (name, word)
