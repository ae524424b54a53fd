"""Labels as JSON, for programs: what people said, and saying more.

Above: application.py. Below: store/labelling.py. Both need a token that may label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from proxy.dashboard.choice import BadChoice, is_id, read_page, written
from proxy.dashboard.criteria import asked
from proxy.dashboard.forms import body_of
from proxy.dashboard.guard import Refused, Viewer
from proxy.dashboard.rest import answer
from proxy.store.database import Database
from proxy.store.labelling import Saying, entries, save_labels
from proxy.store.rubrics import rubrics
from proxy.store.trajectories import Cursor

MAX_BYTES = 600_000
MAX_LABELS = 100
_MEMBERS = frozenset({"rubric_hash", "criterion", "step_id", "value", "note"})


class BadLabels(Exception):
    """What was sent cannot be meant; the text says where and why."""


class Labels:
    """`/api/labels`, for viewers that may label."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, request: Request) -> Response:
        """`{"labels": […], "next": …}`, the latest first, of one `episode` or `labeller` where that is asked for: all
        that was ever said. Of several by one person on one thing the latest counts; `value` is null where they could
        not tell."""
        query = request.query_params
        episode_id = query.get("episode") or None
        try:
            page = read_page(query)
            if episode_id is not None and not is_id(episode_id):
                raise BadChoice(f"episode: no episode has the id {episode_id!r}")
        except BadChoice as bad:
            return answer({"error": str(bad)}, 400)
        found = await entries(
            self._database,
            page.limit + 1,
            episode_id=episode_id,
            labeller=query.get("labeller") or None,
            after=page.after,
        )
        shown = found[: page.limit]
        following = Cursor(shown[-1].created_at, shown[-1].id) if len(found) > page.limit else None
        return answer({"labels": shown, "next": None if following is None else written(following)})

    async def add(self, request: Request) -> Response:
        """`{"episode_id": …, "labels": [{"rubric_hash", "criterion", "step_id", "value", "note"}, …]}`: all are
        written, or none. The labeller is the token's label."""
        viewer: Viewer = request.state.viewer
        # No form of another site can send this kind.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Labels are sent as application/json.")
        try:
            episode_id, said = _read(await body_of(request, MAX_BYTES))
            await self._check(said)
        except BadLabels as bad:
            return answer({"error": str(bad)}, 400)
        ids = await save_labels(self._database, episode_id, viewer.label, said)
        if not ids:
            return answer({"error": "There is no such episode, or not any more. Nothing was written."}, 404)
        return answer({"ids": ids}, 201)

    async def _check(self, said: list[Saying]) -> None:
        """Raises BadLabels for a rubric that is not here, or a criterion that it does not have."""
        known = await rubrics(self._database, {each.rubric_hash for each in said if each.rubric_hash is not None})
        criteria = {hash: {each.id for each in asked(rubric)} for hash, rubric in known.items()}
        for place, each in enumerate(said):
            if each.rubric_hash is not None and each.criterion not in criteria.get(each.rubric_hash, ()):
                raise BadLabels(f"labels[{place}]: there is no such rubric here, or it has no such criterion")


def _read(body: bytes) -> tuple[str, list[Saying]]:
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise BadLabels("this is no JSON") from None
    match given:
        case {"episode_id": str(episode_id), "labels": [*labels], **others} if not others:
            if not is_id(episode_id):
                raise BadLabels("episode_id: no episode has such an id")
            if not 1 <= len(labels) <= MAX_LABELS:
                raise BadLabels(f"labels: 1 to {MAX_LABELS} at once, not {len(labels)}")
            return episode_id, [_saying(place, each) for place, each in enumerate(labels)]
        case _:
            raise BadLabels("an object with `episode_id` and `labels`, a list, is expected, and nothing else")


def _saying(place: int, given: Any) -> Saying:
    if not isinstance(given, Mapping) or "value" not in given or not given.keys() <= _MEMBERS:
        raise BadLabels(f"labels[{place}]: an object with `value` and, as needed, {', '.join(sorted(_MEMBERS))}")
    members = cast("Mapping[str, Any]", given)
    value = members["value"]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise BadLabels(f"labels[{place}].value: a number between 0 and 1, or null where one cannot tell")
    try:
        return Saying(
            rubric_hash=_text(place, "rubric_hash", members, 64),
            criterion=_text(place, "criterion", members, 64),
            step_id=_text(place, "step_id", members, 40),
            value=value,
            note=_text(place, "note", members, None),
        )
    except ValueError as error:
        raise BadLabels(f"labels[{place}]: {error}") from None


def _text(place: int, name: str, members: Mapping[str, Any], most: int | None) -> str | None:
    """A note may be any text; all else is an id or hash, which is printable ASCII."""
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadLabels(f"labels[{place}].{name}: a text or null is expected")
    if most is not None and not (is_id(value) and len(value) <= most):
        raise BadLabels(f"labels[{place}].{name}: an id of 1 to {most} characters is expected")
    return value
