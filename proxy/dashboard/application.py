"""Pages at `/ui` and REST at `/api`, put together: routes, guard, errors.

Above: endpoint/http.py, which adds `routes` to its own and puts `guard.protect` around `/metrics`. Below: all of
dashboard/. Every link is relative, so that a proxy in front may serve all of it under a folder.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files

from mcp.server.transport_security import TransportSecuritySettings
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.dashboard.adapters import Adapters
from proxy.dashboard.forms import Forms
from proxy.dashboard.guard import Guard, Hardened, Refused, refusal
from proxy.dashboard.labelling import Labelling
from proxy.dashboard.labels import Labels
from proxy.dashboard.pages import Pages
from proxy.dashboard.rest import Rest, answer
from proxy.dashboard.servers import ListServers
from proxy.dashboard.sessions import Sessions
from proxy.dashboard.signing import Signing
from proxy.dashboard.templating import Templates
from proxy.dashboard.training import Training
from proxy.dashboard.ways import HOME, way_to_login, way_up
from proxy.endpoint.tokens import Scope as TokenScope
from proxy.endpoint.tokens import TokenStore
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.registry import Followed

logger = logging.getLogger("toolatlas.dashboard")

Handler = Callable[[Request], Awaitable[Response]]
_NO_DATABASE = (
    "The database of the log does not answer. The gateway works on without it; its owner finds why in its log."
)
_STATIC = {"style.css": "text/css", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the HTTP application needs of it."""

    routes: list[BaseRoute]
    guard: Guard


def build_dashboard(
    database: Database,
    tokens: TokenStore,
    servers: ListServers,
    settings: Settings,
    security: TransportSecuritySettings,
    key: bytes,
    followed: Callable[[], Followed] | None = None,
) -> Dashboard:
    """Pages and REST over `database`.

    Args:
        security: Which hosts and origins are the gateway's own, as for `/mcp`.
        key: A secret of the installation, the same in all replicas; sessions are signed with it.
        followed: What this gateway makes of the registry; None where it follows none.
    """
    secure = settings.public_url is not None and settings.public_url.startswith("https://")
    sessions = Sessions(key, tokens)
    guard = Guard(tokens, sessions, security, open_to_all=settings.open_pages, secure=secure)
    forms = Forms(sessions, guard.cookie, secure=secure)
    templates = Templates()
    pages = Hardened(
        _pages(
            guard,
            Pages(database, servers, templates, sessions),
            Labelling(database, forms, templates),
            Signing(tokens, sessions, guard, forms, templates, secure=secure),
            Adapters(database, followed, templates, sessions),
            Training(database, templates, sessions),
            templates,
        )
    )
    rest = Hardened(_rest(guard, Rest(database, servers), Labels(database)))
    return Dashboard(
        [
            Route("/ui", _Endpoint(pages)),
            Route("/ui/{rest:path}", _Endpoint(pages)),
            Route("/api", _Endpoint(rest)),
            Route("/api/{rest:path}", _Endpoint(rest)),
        ],
        guard,
    )


def _pages(
    guard: Guard,
    pages: Pages,
    labelling: Labelling,
    signing: Signing,
    adapters: Adapters,
    training: Training,
    templates: Templates,
) -> Starlette:
    def seen(handler: Handler) -> Handler:
        """The page for those who may see it; others are asked to sign in."""

        async def page(request: Request) -> Response:
            try:
                request.state.viewer = await guard.viewer(request)
            except Refused as refused:
                if refused.status == 401 and "authorization" not in request.headers:
                    return RedirectResponse(way_to_login(request), 303)
                raise
            return await handler(request)

        return page

    async def home(request: Request) -> Response:
        return RedirectResponse(HOME if request.scope["path"].endswith("/") else f"ui/{HOME}", 303)

    async def problem(request: Request, error: Exception) -> Response:
        status, text, headers = _told(error)
        answer = await templates.page(
            "message.html",
            status,
            up=way_up(request),
            viewer=None,
            form_token=None,
            title=HTTPStatus(status).phrase,
            text=text,
        )
        answer.headers.update(headers)
        return answer

    routes = [
        Route("/ui", home),
        Route("/ui/", home),
        Route("/ui/login", signing.form),
        Route("/ui/login", signing.sign_in, methods=["POST"]),
        Route("/ui/logout", signing.sign_out, methods=["POST"]),
        *(Route(f"/ui/static/{name}", _static(name, kind)) for name, kind in _STATIC.items()),
        Route("/ui/servers", seen(pages.servers)),
        Route("/ui/episodes", seen(pages.episodes)),
        Route("/ui/episodes/{episode:path}", seen(pages.episode)),
        Route("/ui/label", seen(labelling.next)),
        Route("/ui/label/{episode:path}", seen(labelling.form)),
        Route("/ui/label/{episode:path}", seen(labelling.save), methods=["POST"]),
        Route("/ui/tools", seen(pages.tools)),
        Route("/ui/adapters", seen(adapters.page)),
        Route("/ui/training", seen(training.runs)),
        Route("/ui/training/{run:path}", seen(training.run)),
        Route("/ui/{rest:path}", seen(pages.missing)),
    ]
    return _application(routes, problem)


def _rest(guard: Guard, rest: Rest, labels: Labels) -> Starlette:
    def seen(handler: Handler, scope: TokenScope = TokenScope.VIEW) -> Handler:
        async def resource(request: Request) -> Response:
            request.state.viewer = await guard.viewer(request, scope)
            return await handler(request)

        return resource

    async def problem(request: Request, error: Exception) -> Response:
        if isinstance(error, Refused):
            return refusal(error)
        status, text, headers = _told(error)
        told = answer({"error": text}, status)
        told.headers.update(headers)
        return told

    routes = [
        Route("/api/episodes", seen(rest.episodes)),
        Route("/api/episodes/{episode:path}", seen(rest.episode)),
        Route("/api/labels", seen(labels.read, TokenScope.LABEL)),
        Route("/api/labels", seen(labels.add, TokenScope.LABEL), methods=["POST"]),
        Route("/api/stats", seen(rest.stats)),
        Route("/api/servers", seen(rest.servers)),
        Route("/api", seen(rest.missing)),
        Route("/api/{rest:path}", seen(rest.missing)),
    ]
    return _application(routes, problem)


def _application(routes: list[Route], problem: Callable[[Request, Exception], Awaitable[Response]]) -> Starlette:
    told = dict.fromkeys((Refused, HTTPException, SQLAlchemyError, OSError), problem)
    application = Starlette(routes=routes, exception_handlers=told)
    application.router.redirect_slashes = False
    return application


def _told(error: Exception) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of an error."""
    match error:
        case Refused():
            return error.status, str(error), {} if error.challenge is None else {"www-authenticate": error.challenge}
        case HTTPException(status_code=405):
            return 405, "This can be read, and nothing else.", dict(error.headers or {})
        case HTTPException():
            return error.status_code, error.detail, dict(error.headers or {})
        case _:
            logger.error("the log cannot be read for a page: %s", error)
            return 503, _NO_DATABASE, {"retry-after": "10"}


def _static(name: str, kind: str) -> Handler:
    content = files("proxy.dashboard").joinpath("static", name).read_bytes()

    async def static(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "max-age=300"})

    return static


class _Endpoint:
    """Starlette takes an object for an ASGI app and a function for a request handler."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
