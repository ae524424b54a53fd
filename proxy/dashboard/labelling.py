"""Pages on which a person says how good an episode was, criterion by criterion.

Above: application.py. Below: forms.py, criteria.py, judged.py, timeline.py, store/labelling.py. What a judge said is
shown to nobody who has not said something first: people agree with what they have read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proxy.dashboard.choice import is_id
from proxy.dashboard.criteria import HASH_CHARS, Asked, asked
from proxy.dashboard.forms import Forms, fields_of
from proxy.dashboard.guard import NO_LABELS, Refused, Viewer
from proxy.dashboard.judged import Decided, Places, judged
from proxy.dashboard.queries import too_long
from proxy.dashboard.templating import Templates
from proxy.dashboard.timeline import STEPS_PER_PAGE, first_step, timeline
from proxy.dashboard.ways import way_up
from proxy.dashboard.words import too_long_to_show
from proxy.store.database import Database
from proxy.store.judgements import Judgement, LabelEntry, judgements, labels_of
from proxy.store.labelling import NOTE_CHARS, Saying, save_labels, unlabelled
from proxy.store.rubrics import Rubric, rubric_for, rubrics
from proxy.store.trajectories import load
from proxy.store.trajectory import Trajectory

MAX_FORM_BYTES = 600_000
"""Notes on all criteria, each byte of them written as three."""
MAX_FIELDS = 100
CANDIDATES = 20
"""Episodes that are looked at for one that is short enough for a page."""
VALUES: Mapping[str, float | None] = {"yes": 1.0, "partly": 0.5, "no": 0.0, "unsure": None}
WHOLE = ""
"""Stands for the episode as a whole among the criteria of a form."""
_WORDS: Mapping[str, Mapping[str, str]] = {
    "criterion": {"yes": "met", "partly": "partly", "no": "not met", "unsure": "cannot tell"},
    "pitfall": {"yes": "made", "partly": "partly", "no": "not made", "unsure": "cannot tell"},
    "whole": {"yes": "good", "partly": "in part", "no": "bad", "unsure": "cannot tell"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that a form asks."""

    name: str
    """Id of the criterion, or `WHOLE`."""
    asked: Asked
    words: Mapping[str, str]
    """The answers, by what the form sends."""
    chosen: str
    """What this person says; empty while they say nothing."""
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """All that a page of one episode needs."""

    trajectory: Trajectory
    rubric: Rubric | None
    judgement: Judgement | None
    """The latest one by that rubric."""
    said: Mapping[str, LabelEntry]
    """This person's last word, by criterion of that rubric, and on the whole."""


class Labelling:
    """`/ui/label` and the pages below it."""

    def __init__(self, database: Database, forms: Forms, templates: Templates) -> None:
        self._database = database
        self._forms = forms
        self._templates = templates

    async def next(self, request: Request) -> Response:
        """GET /ui/label: on to the newest episode of which this person has said nothing, behind `after`."""
        viewer = _labeller(request)
        given = request.query_params.get("after", "")
        after = given if is_id(given) else None
        for episode_id in await unlabelled(self._database, viewer.label, CANDIDATES, after=after):
            if not await too_long(self._database, episode_id):
                return RedirectResponse(f"label/{_segment(episode_id)}", 303)
        text = (
            "There is no older episode to label."
            if after
            else "You have said something of every episode that has ended and was logged in full."
        )
        return await self._message(request, viewer, 200, "Nothing to label", text)

    async def form(self, request: Request) -> Response:
        """GET /ui/label/ID: the episode with the form; once something is said, what the judge said beside it."""
        viewer = _labeller(request)
        found = await self._matter(request, viewer, request.query_params.get("rubric") or None)
        if isinstance(found, Response):
            return found
        if found.said and "change" not in request.query_params:
            return await self._compared(request, viewer, found)
        return await self._asked(request, viewer, found, {})

    async def save(self, request: Request) -> Response:
        """POST /ui/label/ID."""
        viewer = _labeller(request)
        fields = await fields_of(request, max_bytes=MAX_FORM_BYTES, max_fields=MAX_FIELDS)
        if not self._forms.genuine(request, viewer, fields):
            raise Refused(403, "This form was out of date, or another site sent it. Nothing was saved.")
        found = await self._matter(request, viewer, fields.get("rubric") or None)
        if isinstance(found, Response):
            return found
        try:
            said = list(_read(fields, found))
        except ValueError as problem:
            return await self._asked(request, viewer, found, fields, f"Nothing was saved: {problem}.")
        if not said and not found.said:
            problem = "Nothing was chosen, so nothing was saved."
            return await self._asked(request, viewer, found, fields, problem)
        if said and not await save_labels(self._database, found.trajectory.id, viewer.label, said):
            return await self._missing(request, viewer, found.trajectory.id)
        query = "" if found.rubric is None else f"?rubric={_segment(found.rubric.hash)}"
        return RedirectResponse(f"{_segment(found.trajectory.id)}{query}", 303)

    async def _matter(self, request: Request, viewer: Viewer, wanted: str | None) -> Matter | Response:
        """What the page is about, or the page that says why there is none."""
        episode_id = request.path_params["episode"]
        if not is_id(episode_id):
            return await self._missing(request, viewer, episode_id)
        if await too_long(self._database, episode_id):
            return await self._message(request, viewer, 413, "Too long", too_long_to_show(episode_id))
        trajectory = await load(self._database, episode_id)
        if trajectory is None:
            return await self._missing(request, viewer, episode_id)
        judged_so_far = (await judgements(self._database, [episode_id])).get(episode_id, ())
        rubric = await self._rubric(episode_id, judged_so_far, wanted)
        if wanted is not None and rubric is None:
            text = f"There is no rubric {wanted[:HASH_CHARS]}, or not any more.{_unsaved(request)}"
            return await self._message(request, viewer, 404, "Not found", text)
        by_it = [each for each in judged_so_far if rubric is not None and each.rubric_hash == rubric.hash]
        async with self._database.reading() as connection:
            entries = (await labels_of(connection, [episode_id])).get(episode_id, ())
        own = {None, None if rubric is None else rubric.hash}
        said = {
            each.criterion or WHOLE: each
            for each in entries
            if each.labeller == viewer.label and each.rubric_hash in own and each.step_id is None
        }
        return Matter(trajectory=trajectory, rubric=rubric, judgement=by_it[-1] if by_it else None, said=said)

    async def _rubric(self, episode_id: str, judged_so_far: Sequence[Judgement], wanted: str | None) -> Rubric | None:
        """The one that is asked for, else that of the latest judgement, else the one that would judge it."""
        if wanted is None and not judged_so_far:
            return await rubric_for(self._database, episode_id)
        hash = judged_so_far[-1].rubric_hash if wanted is None else wanted
        return (await rubrics(self._database, [hash])).get(hash) if is_id(hash) else None

    async def _asked(
        self, request: Request, viewer: Viewer, matter: Matter, fields: Mapping[str, str], problem: str | None = None
    ) -> Response:
        secret = self._forms.secret_of(request, viewer)
        answer = await self._page(
            request,
            viewer,
            matter,
            status=400 if problem else 200,
            questions=list(_questions(matter, fields)),
            compared=None,
            note_chars=NOTE_CHARS,
            problem=problem,
            page_token=self._forms.token(secret),
        )
        if viewer.session is None:
            self._forms.give(answer, secret)
        return answer

    async def _compared(self, request: Request, viewer: Viewer, matter: Matter) -> Response:
        trajectory, judgement = matter.trajectory, matter.judgement
        verdicts: dict[str, Decided] = {}
        if judgement is not None:
            places = Places(trajectory, (1, 0))
            verdicts = {each.asked.id: each for each in judged(judgement, matter.rubric, places).verdicts}
        compared = [(each, verdicts.get(each.name)) for each in _questions(matter, {})]
        return await self._page(
            request, viewer, matter, questions=[], compared=compared, note_chars=NOTE_CHARS, problem=None, page_token=""
        )

    async def _page(
        self, request: Request, viewer: Viewer, matter: Matter, *, status: int = 200, **values: Any
    ) -> Response:
        number = first_step(request.query_params.get("from"), len(matter.trajectory.steps))
        shown = timeline(matter.trajectory, number)
        return await self._templates.page(
            "label.html",
            status,
            up="../",
            viewer=viewer,
            form_token=None if viewer.session is None else self._forms.token(viewer.session.nonce),
            episode=matter.trajectory,
            rubric=matter.rubric,
            judgement=matter.judgement,
            timeline=shown,
            before=max(1, number - STEPS_PER_PAGE) if number > 1 else None,
            after=shown.last + 1 if shown.last < shown.total else None,
            **values,
        )

    async def _missing(self, request: Request, viewer: Viewer, episode_id: str) -> Response:
        text = f"There is no episode {episode_id}, or not any more.{_unsaved(request)}"
        return await self._message(request, viewer, 404, "Not found", text)

    async def _message(self, request: Request, viewer: Viewer, status: int, title: str, text: str) -> Response:
        return await self._templates.page(
            "message.html",
            status,
            up=way_up(request),
            viewer=viewer,
            form_token=None if viewer.session is None else self._forms.token(viewer.session.nonce),
            title=title,
            text=text,
        )


def _labeller(request: Request) -> Viewer:
    """Raises Refused for whoever may look and no more."""
    viewer: Viewer = request.state.viewer
    if not viewer.may_label:
        raise Refused(403, NO_LABELS)
    return viewer


def _unsaved(request: Request) -> str:
    return " Nothing was saved." if request.method == "POST" else ""


def _questions(matter: Matter, fields: Mapping[str, str]) -> Iterator[Question]:
    """What is asked, with what was sent just now, else with what this person has said before."""
    for each in _all_asked(matter.rubric):
        before = matter.said.get(each.id)
        chosen = "" if before is None else _choice(before.value)
        note = "" if before is None else before.note or ""
        yield Question(
            name=each.id,
            asked=each,
            words=_WORDS["whole" if each.id == WHOLE else "pitfall" if each.pitfall else "criterion"],
            chosen=fields.get(f"value.{each.id}", "") if fields else chosen,
            note=fields.get(f"note.{each.id}", "") if fields else note,
        )


def _all_asked(rubric: Rubric | None) -> Iterator[Asked]:
    yield Asked(
        id=WHOLE,
        category="The whole",
        text="All in all, how well did the agent do what it was asked to do?",
        weight=None,
        essential=False,
        pitfall=False,
    )
    if rubric is not None:
        yield from asked(rubric)


def _read(fields: Mapping[str, str], matter: Matter) -> Iterator[Saying]:
    """What the form says, and was not said before in the same words. Raises ValueError."""
    for each in _all_asked(matter.rubric):
        chosen = fields.get(f"value.{each.id}", "")
        note = fields.get(f"note.{each.id}", "").replace("\r\n", "\n").strip() or None
        if chosen not in VALUES:
            if note is not None:
                raise ValueError(f"there is a note, and nothing chosen, at: {each.text}")
            continue
        before = matter.said.get(each.id)
        if before is not None and (_choice(before.value), before.note) == (chosen, note):
            continue
        rubric = None if each.id == WHOLE else matter.rubric
        yield Saying(
            rubric_hash=None if rubric is None else rubric.hash,
            criterion=None if rubric is None else each.id,
            value=VALUES[chosen],
            note=note,
        )


def _choice(value: float | None) -> str:
    """The answer that is nearest to a value: programs may give others."""
    if value is None:
        return "unsure"
    return "yes" if value > 0.75 else "no" if value < 0.25 else "partly"


def _segment(text: str) -> str:
    return quote(text, safe="")
