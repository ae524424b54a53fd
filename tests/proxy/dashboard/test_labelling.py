"""Labelling: what the form asks, what it saves and shows, who may, and the same as JSON; over both databases."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import httpx2
import pytest

from proxy.dashboard import labelling
from proxy.endpoint.tokens import Scope, TokenStore
from proxy.store.database import Database
from proxy.store.deletions import Selection, delete
from proxy.store.judgements import LabelEntry, labels, labels_of
from proxy.store.labelling import NOTE_CHARS, Saying, save_labels, unlabelled
from tests.fixtures import judged, logged
from tests.proxy.dashboard.conftest import FORM_TOKEN, Site, bearer, sign_in
from tests.proxy.dashboard.test_hostile import Structure

pytestmark = pytest.mark.anyio
ONE, TWO, THREE, RUNNING = (f"e_{number:024x}" for number in (1, 2, 3, 5))
VERDICTS = ("It leaves out one of them.", "0.62", "small-model")
"""What of the judge's word must not be read before one's own."""
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def labeller(tokens: TokenStore) -> str:
    return tokens.create("ann", None, [Scope.VIEW, Scope.LABEL])


async def fill(site: Site) -> None:
    await logged.write(site.database, *logged.sample())
    await judged.write_sample(site.database)


def words_of(answer: httpx2.Response) -> str:
    structure = Structure()
    structure.feed(answer.text)
    return " ".join(" ".join(structure.text).split())


async def send(http: httpx2.AsyncClient, episode: str, page: httpx2.Response, **fields: str) -> httpx2.Response:
    """As a browser does with the form of that page. `_` stands for the dot of a field's name, `__` for a dash."""
    tokens = FORM_TOKEN.findall(page.text)
    rubric = page.text.partition('name="rubric" value="')[2].partition('"')[0]
    sent = {name.replace("__", "-").replace("_", ".", 1): value for name, value in fields.items()}
    return await http.post(f"/ui/label/{episode}", data={"form_token": tokens[-1], "rubric": rubric, **sent})


async def said(database: Database, episode: str) -> list[LabelEntry]:
    async with database.reading() as connection:
        return list((await labels_of(connection, [episode])).get(episode, ()))


async def test_a_person_labels_and_sees_the_judge_only_then(each_site: Site, labeller: str) -> None:
    await fill(each_site)
    async with each_site.client() as http:
        await sign_in(http, labeller)
        page = await http.get(f"/ui/label/{ONE}")
        assert page.status_code == 200
        text = words_of(page)
        for each in judged.CRITERIA:
            assert each["text"] in text
        assert "github.get_checks" in text, "the timeline stands beside it"
        assert "Labelled as ann" in text
        for verdict in VERDICTS:
            assert verdict not in page.text, "nobody is to read the judge's word before their own"
        answer = await send(
            http,
            ONE,
            page,
            value_="yes",
            value_answers__both="partly",
            note_answers__both="44 is missing\r\nand so is 45",
            value_no__repeats="no",
            value_grounded="unsure",
        )
        assert (answer.status_code, answer.headers["location"]) == (303, f"{ONE}?rubric={judged.RUBRIC}")
        after = await http.get(f"/ui/label/{ONE}?rubric={judged.RUBRIC}")
        text = words_of(after)
        assert "reward 0.62 by small-model+checks-1/ab12cd34" in text
        assert "44 is missing and so is 45 Judge: It leaves out one of them. partly partly met 0.50" in text
        assert "not made not made" in text
        assert "cannot tell not met" in text
    found = {each.criterion: each for each in await said(each_site.database, ONE)}
    assert {criterion: each.value for criterion, each in found.items()} == {
        None: 1.0,
        "answers-both": 0.5,
        "no-repeats": 0.0,
        "grounded": None,
    }
    assert found["answers-both"].note == "44 is missing\nand so is 45"
    assert {each.labeller for each in found.values()} == {"ann"}
    assert (found[None].rubric_hash, found["grounded"].rubric_hash) == (None, judged.RUBRIC)
    counting = (await labels(each_site.database, [ONE]))[ONE]
    assert {each.criterion for each in counting} == {None, "answers-both", "no-repeats"}


async def test_who_changes_their_mind_is_asked_again_without_the_judge_and_only_that_is_written(
    each_site: Site, labeller: str
) -> None:
    await fill(each_site)
    async with each_site.client() as http:
        await sign_in(http, labeller)
        page = await http.get(f"/ui/label/{ONE}")
        await send(http, ONE, page, value_="yes", value_fits="yes", note_fits="all of them")
        page = await http.get(f"/ui/label/{ONE}?change=1")
        for verdict in VERDICTS:
            assert verdict not in page.text
        assert 'name="value.fits" value="yes" checked' in page.text
        assert ">all of them</textarea>" in page.text
        await send(http, ONE, page, value_="no", value_fits="yes", note_fits="all of them")
    entries = await said(each_site.database, ONE)
    assert [(each.criterion, each.value) for each in entries if each.criterion is None] == [(None, 1.0), (None, 0.0)]
    assert len(entries) == 3, "what was said before in the same words is not written again"
    counting = (await labels(each_site.database, [ONE]))[ONE]
    assert {each.criterion: each.value for each in counting} == {None: 0.0, "fits": 1.0}


async def test_labels_of_others_are_neither_shown_nor_changed(each_site: Site, labeller: str) -> None:
    await fill(each_site)
    await save_labels(each_site.database, ONE, "bob", [Saying(value=0.0, note="bob's own words")])
    async with each_site.client() as http:
        await sign_in(http, labeller)
        page = await http.get(f"/ui/label/{ONE}")
        assert 'value="no" checked' not in page.text
        assert "bob&#39;s own words" not in page.text
        await send(http, ONE, page, value_="yes")
    counting = (await labels(each_site.database, [ONE]))[ONE]
    assert {each.labeller: each.value for each in counting} == {"bob": 0.0, "ann": 1.0}


async def test_the_next_episode_is_the_newest_that_has_ended_and_that_one_has_not_labelled(
    each_site: Site, labeller: str
) -> None:
    await fill(each_site)
    async with each_site.client() as http:
        await sign_in(http, labeller)

        async def next_one(query: str = "") -> str:
            return (await http.get(f"/ui/label{query}")).headers["location"]

        assert await next_one() == f"label/{ONE}", "not the one that is running"
        assert await next_one(f"?after={ONE}") == f"label/{TWO}"
        await send(http, ONE, await http.get(f"/ui/label/{ONE}"), value_="yes")
        assert await next_one() == f"label/{TWO}"
        for episode in (TWO, THREE):
            await send(http, episode, await http.get(f"/ui/label/{episode}"), value_="unsure")
        nothing = await http.get("/ui/label")
        assert nothing.status_code == 200
        assert "You have said something of every episode" in words_of(nothing), "not what was logged in part"
    assert await unlabelled(each_site.database, "bob", 9) == [ONE, TWO, THREE]


async def test_an_episode_that_is_too_long_for_a_page_is_passed_over(
    site: Site, labeller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(site)
    monkeypatch.setattr("proxy.dashboard.queries.MAX_STEPS", 3)
    async with site.client() as http:
        await sign_in(http, labeller)
        assert (await http.get("/ui/label")).headers["location"] == f"label/{TWO}"
        assert (await http.get(f"/ui/label/{ONE}")).status_code == 413


async def test_without_a_judgement_the_rubric_that_would_judge_is_asked_by_and_without_one_the_whole(
    each_site: Site, labeller: str
) -> None:
    await logged.write(each_site.database, *logged.sample())
    async with each_site.client() as http:
        await sign_in(http, labeller)
        page = await http.get(f"/ui/label/{THREE}")
        assert "There is no rubric yet" in words_of(page)
        assert "toolatlas judge run" in words_of(page)
        other = judged.rubric(judged.hash_of("other"), judged.CRITERIA[:1])
        await judged.write(each_site.database, [judged.rubric(), other], default=judged.RUBRIC)
        page = await http.get(f"/ui/label/{THREE}")
        assert judged.CRITERIA[4]["text"] in page.text
        page = await http.get(f"/ui/label/{THREE}?rubric={other['hash']}")
        assert judged.CRITERIA[0]["text"] in page.text
        assert judged.CRITERIA[4]["text"] not in page.text
        await send(http, THREE, page, value_answers__both="no", value_right__values="yes")
    (entry,) = await said(each_site.database, THREE)
    assert (entry.criterion, entry.rubric_hash) == ("answers-both", other["hash"]), "nothing but what was asked"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "Nothing was chosen"),
        ({"value_": "perhaps"}, "Nothing was chosen"),
        ({"value_": "yes", "note_fits": "why"}, "there is a note, and nothing chosen, at: Only tools"),
        ({"value_fits": "no", "note_fits": "é" * (NOTE_CHARS + 1)}, "a note has at most 1,000 characters, not 1,001"),
    ],
)
async def test_what_cannot_be_saved_is_explained_and_nothing_of_the_form_is_lost(
    site: Site, labeller: str, fields: dict[str, str], problem: str
) -> None:
    await fill(site)
    async with site.client() as http:
        await sign_in(http, labeller)
        answer = await send(http, ONE, await http.get(f"/ui/label/{ONE}"), **fields)
        assert answer.status_code == 400
        assert problem in words_of(answer)
        for name, value in fields.items():
            assert (
                (f">{value}</textarea>" in answer.text) or f'value="{value}" checked' in answer.text or name == "value_"
            )
    assert await said(site.database, ONE) == []


async def test_notes_of_full_length_on_every_criterion_can_be_sent(site: Site, labeller: str) -> None:
    await logged.write(site.database, *logged.sample())
    criteria = [judged.CRITERIA[1] | {"id": f"c{number}"} for number in range(40)]
    await judged.write(site.database, [judged.rubric(criteria=criteria)], default=judged.RUBRIC)
    note = "\N{SNOWMAN}" * NOTE_CHARS
    async with site.client() as http:
        await sign_in(http, labeller)
        page = await http.get(f"/ui/label/{ONE}")
        names = ["", *(each["id"] for each in criteria)]
        fields = {f"{kind}_{name}": "yes" if kind == "value" else note for kind in ("value", "note") for name in names}
        assert (await send(http, ONE, page, **fields)).status_code == 303
        too_much = await http.post(f"/ui/label/{ONE}", content=b"a" * (labelling.MAX_FORM_BYTES + 1), headers=FORM)
        assert too_much.status_code == 413
    assert len(await said(site.database, ONE)) == 41


async def test_whoever_may_look_and_no_more_cannot_label(each_site: Site, tokens: TokenStore) -> None:
    await fill(each_site)
    viewer = tokens.create("eve", None, [Scope.VIEW])
    async with each_site.client() as http:
        await sign_in(http, viewer)
        for answer in (
            await http.get("/ui/label"),
            await http.get(f"/ui/label/{ONE}"),
            await http.post(f"/ui/label/{ONE}", data={"value.": "yes"}),
            await http.get("/api/labels"),
            await http.post("/api/labels", json={}),
        ):
            assert answer.status_code == 403
            assert "--scope label" in answer.text
        page = await http.get(f"/ui/episodes/{ONE}")
        assert "Label this episode" not in page.text
        assert 'href="../label"' not in page.text
    async with each_site.client(headers=bearer(viewer)) as program:
        assert (await program.post("/api/labels", json={})).status_code == 403
        assert (await program.get(f"/ui/label/{ONE}")).status_code == 403
    assert await said(each_site.database, ONE) == []


@pytest.mark.parametrize("scope", [Scope.AGENT, Scope.LABEL])
async def test_a_token_that_may_not_look_opens_no_page(site: Site, tokens: TokenStore, scope: Scope) -> None:
    await fill(site)
    secret = tokens.create("some", None, [scope])
    async with site.client() as http:
        assert (await sign_in(http, secret)).status_code == 403
        assert (await http.get(f"/ui/label/{ONE}", headers=bearer(secret))).status_code == 403
        allowed = (await http.get("/api/labels", headers=bearer(secret))).status_code
        assert allowed == (200 if scope is Scope.LABEL else 403)


async def test_nobody_without_a_token_labels_where_there_is_one(site: Site, labeller: str) -> None:
    await fill(site)
    async with site.client() as http:
        sent = await http.post(f"/ui/label/{ONE}", data={"value.": "yes"})
        assert sent.status_code == 303
        assert sent.headers["location"] == f"../login?next=label%2F{ONE}"
        assert (await http.get("/api/labels")).status_code == 401
    assert await said(site.database, ONE) == []


@pytest.mark.parametrize("sent", ["", "0" * 64, "\u00e9"])
async def test_a_form_of_another_site_saves_nothing(site: Site, labeller: str, sent: str) -> None:
    await fill(site)
    async with site.client() as http:
        await sign_in(http, labeller)
        answer = await http.post(f"/ui/label/{ONE}", data={"form_token": sent, "value.": "yes"})
        assert answer.status_code == 403
        assert "Nothing was saved" in answer.text
        token = FORM_TOKEN.findall((await http.get(f"/ui/label/{ONE}")).text)[-1]
        foreign = {"origin": "https://evil.example"}
        stolen = await http.post(f"/ui/label/{ONE}", data={"form_token": token, "value.": "yes"}, headers=foreign)
        assert stolen.status_code == 403
    assert await said(site.database, ONE) == []


async def test_a_form_of_another_session_saves_nothing(site: Site, tokens: TokenStore, labeller: str) -> None:
    await fill(site)
    bob = tokens.create("bob", None, [Scope.ADMIN])
    async with site.client() as one, site.client() as two:
        await sign_in(one, labeller)
        await sign_in(two, bob)
        page = await one.get(f"/ui/label/{ONE}")
        assert (await send(two, ONE, page, value_="yes")).status_code == 403
        assert (await send(one, ONE, page, value_="yes")).status_code == 303


async def test_where_pages_are_open_the_form_is_bound_to_a_cookie(site: Site) -> None:
    await fill(site)
    async with site.client() as http:
        page = await http.get(f"/ui/label/{ONE}")
        assert "Labelled as local" in words_of(page)
        kept = http.cookies["toolatlas-form"]
        http.cookies.clear()
        assert (await send(http, ONE, page, value_="yes")).status_code == 403
        http.cookies.set("toolatlas-form", kept)
        assert (await send(http, ONE, page, value_="yes")).status_code == 303
    assert [each.labeller for each in await said(site.database, ONE)] == ["local"]


async def test_what_is_gone_meanwhile_is_told(each_site: Site, labeller: str) -> None:
    await fill(each_site)
    async with each_site.client() as http:
        await sign_in(http, labeller)
        page = await http.get(f"/ui/label/{ONE}")
        gone = await http.post(
            f"/ui/label/{ONE}",
            data={"form_token": FORM_TOKEN.findall(page.text)[-1], "rubric": "f" * 64, "value.": "yes"},
        )
        assert gone.status_code == 404
        assert "There is no rubric ffffffffffff" in words_of(gone)
        await delete(each_site.database, Selection(episodes=(ONE,)))
        answer = await send(http, ONE, page, value_="yes")
        assert answer.status_code == 404
        assert "Nothing was saved" in words_of(answer)
    assert await save_labels(each_site.database, ONE, "ann", [Saying(value=1.0)]) == []


async def test_programs_read_and_give_labels(each_site: Site, tokens: TokenStore) -> None:
    await fill(each_site)
    secret = tokens.create("script", None, [Scope.LABEL])
    given = [
        {"value": 0.75, "note": "fine \ud800\u0000"},
        {"value": None, "rubric_hash": judged.RUBRIC, "criterion": "fits"},
        {"value": 1, "rubric_hash": judged.RUBRIC, "criterion": "grounded", "step_id": "s_1"},
    ]
    async with each_site.client(headers=bearer(secret)) as http:
        body = json.dumps({"episode_id": ONE, "labels": given})
        answer = await http.post("/api/labels", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 201
        ids = answer.json()["ids"]
        await save_labels(each_site.database, TWO, "bob", [Saying(value=0.0)])
        found = (await http.get("/api/labels")).json()
        assert [each["labeller"] for each in found["labels"]] == ["bob", "script", "script", "script"]
        assert found["next"] is None
        its = (await http.get(f"/api/labels?episode={ONE}&labeller=script")).json()["labels"]
        assert {each["id"]: each["value"] for each in its} == dict(zip(ids, [0.75, None, 1.0], strict=True))
        assert {each["criterion"] for each in its} == {None, "fits", "grounded"}
        pages: list[str] = []
        following = ""
        while following is not None:
            page = (await http.get("/api/labels", params={"limit": "3", "after": following})).json()
            pages += [each["id"] for each in page["labels"]]
            following = page["next"]
        assert pages == [each["id"] for each in found["labels"]]
        assert (await http.get("/api/labels?limit=0")).status_code == 400
        assert (await http.get("/api/labels?episode=%00")).status_code == 400


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ("{", 400, "no JSON"),
        ("[]", 400, "an object"),
        ({"episode_id": ONE, "labels": [], "labeller": "bob"}, 400, "nothing else"),
        ({"episode_id": ONE, "labels": []}, 400, "1 to 100"),
        ({"episode_id": ONE, "labels": [{"value": 1}] * 101}, 400, "1 to 100"),
        ({"episode_id": "e\0", "labels": [{"value": 1}]}, 400, "episode_id"),
        ({"episode_id": ONE, "labels": [{"value": 1}, {"value": 2}]}, 400, "labels[1]: a value is between 0 and 1"),
        ({"episode_id": ONE, "labels": [{"value": True}]}, 400, "labels[0].value"),
        ({"episode_id": ONE, "labels": [{"note": "x"}]}, 400, "labels[0]: an object with `value`"),
        ({"episode_id": ONE, "labels": [{"value": 1, "labeller": "bob"}]}, 400, "labels[0]: an object with"),
        ({"episode_id": ONE, "labels": [{"value": 1, "note": "x" * 1_001}]}, 400, "at most 1,000 characters"),
        ({"episode_id": ONE, "labels": [{"value": 1, "criterion": "fits"}]}, 400, "a criterion is one of a rubric"),
        ({"episode_id": ONE, "labels": [{"value": 1, "criterion": "x", "rubric_hash": judged.RUBRIC}]}, 400, "no such"),
        ({"episode_id": ONE, "labels": [{"value": 1, "criterion": "fits", "rubric_hash": "f"}]}, 400, "no such rubric"),
        ({"episode_id": ONE, "labels": [{"value": 1, "step_id": "\0"}]}, 400, "labels[0].step_id"),
        ('{"episode_id": "e", "labels": [{"value": NaN}]}', 400, "between 0 and 1"),
        ('{"episode_id": "e", "labels": [{"value": 1' + "0" * 400 + "}]}", 400, "between 0 and 1"),
        ({"episode_id": "e_none", "labels": [{"value": 1}]}, 404, "no such episode"),
    ],
)
async def test_what_a_program_cannot_mean_is_refused_whole(
    each_site: Site, tokens: TokenStore, body: Any, status: int, why: str
) -> None:
    await fill(each_site)
    secret = tokens.create("script", None, [Scope.LABEL])
    sent = body if isinstance(body, str) else json.dumps(body)
    async with each_site.client(headers=bearer(secret)) as http:
        answer = await http.post("/api/labels", content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert why in answer.json()["error"]
    assert await said(each_site.database, ONE) == []


async def test_a_program_that_sends_something_else_is_told_so(site: Site, labeller: str) -> None:
    async with site.client() as http:
        await sign_in(http, labeller)
        # What a form of another site could send with the cookie of a browser.
        assert (await http.post("/api/labels", content="{}", headers={"content-type": "text/plain"})).status_code == 415
        long = {"content-type": "application/json"}
        assert (await http.post("/api/labels", content=b" " * 700_000, headers=long)).status_code == 413
        assert (await http.put("/api/labels", json={})).status_code == 405


async def test_labels_stand_in_what_is_shown_of_an_episode(site: Site, labeller: str) -> None:
    await fill(site)
    async with site.client() as http:
        await sign_in(http, labeller)
        await send(http, ONE, await http.get(f"/ui/label/{ONE}"), value_="partly", note_="half of it")
        assert "ann said 1 thing of it" in words_of(await http.get(f"/ui/episodes/{ONE}"))
    command = [sys.executable, "-m", "proxy.cli", "episodes", "show", ONE, "--database", site.database.shown]
    environment = {**os.environ, "TOOLATLAS_HOME": str(site.folder)}
    with anyio.fail_after(60):
        shown = await anyio.run_process([*command, "--json"], env=environment)
    (label,) = json.loads(shown.stdout)["labels"]
    assert (label["labeller"], label["value"], label["note"]) == ("ann", 0.5, "half of it")
    with anyio.fail_after(60):
        shown = await anyio.run_process(command, env=environment)
    text = " ".join(shown.stdout.decode().split())
    assert "ann says 0.50 of the whole: half of it" in text
    assert "reward 0.62 by small-model+checks-1/ab12cd34, seen calls+task+answer" in text
