"""Tokens for servers behind OAuth: renewed silently, once for all callers, over restarts too; lost with a reason."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from proxy.errors import ProtocolFault, ServerDown
from proxy.servers.config import OAuthConfig, ServerConfig
from proxy.servers.connection import ServerConnection, Terms, connect, innermost
from proxy.servers.logins import LoginStore
from proxy.servers.oauth_login import log_in
from proxy.servers.oauth_tokens import Keyring, LoginNeeded, Tokens
from proxy.servers.sealing import Sealer
from proxy.servers.supervisor import Phase, Supervisor
from proxy.servers.transports import open_transport
from tests.fixtures.authorization import Protected, protected
from tests.fixtures.running import LOOPBACK
from tests.proxy.servers.conftest import LIMIT_S, call, config, text

pytestmark = pytest.mark.anyio


def store_in(folder: Path) -> LoginStore:
    return LoginStore(folder / "logins", Sealer(folder / "secret.key", {}))


async def browse(address: str) -> None:
    """What the browser of an owner does who agrees at once."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        await browser.get(address)


async def nothing(*_: object) -> None:
    pass


@asynccontextmanager
async def connected(server: ServerConfig, keyring: Keyring) -> AsyncIterator[ServerConnection]:
    with anyio.fail_after(LIMIT_S):
        async with connect(server, partial(open_transport, keyring=keyring), Terms(on_notice=nothing)) as connection:
            yield connection


@asynccontextmanager
async def logged_in(
    folder: Path, *, lifetime_s: int = 3600, sse: bool = False
) -> AsyncIterator[tuple[Protected, ServerConfig, LoginStore]]:
    with anyio.fail_after(LIMIT_S):
        async with protected(lifetime_s=lifetime_s, sse=sse) as pair:
            server, store = config(pair.entry), store_in(folder)
            assert await log_in(server, store, browse) is not None
            yield pair, server, store


async def refusal_of(server: ServerConfig, keyring: Keyring) -> ServerDown:
    with pytest.raises(ServerDown) as failed:
        async with connected(server, keyring):
            pass
    return failed.value


@pytest.mark.parametrize("sse", [False, True])
async def test_without_a_login_the_error_says_how_to_log_in(tmp_path: Path, sse: bool) -> None:
    async with protected(sse=sse) as pair:
        failure = await refusal_of(config(pair.entry), Keyring(store_in(tmp_path)))
        assert "toolatlas servers login srv" in str(failure)
        assert failure.__cause__ is not None
        assert isinstance(innermost(failure.__cause__), LoginNeeded)


async def test_waiting_for_a_login_is_no_failure_that_holds_the_server_back(tmp_path: Path) -> None:
    async with protected() as pair:
        server, keyring = config(pair.entry), Keyring(store_in(tmp_path))
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                opening = partial(open_transport, keyring=keyring)
                supervisor = Supervisor(server, tasks, opening, Terms(on_notice=nothing), lambda: None)
                for _ in range(5):
                    with pytest.raises(ServerDown, match="toolatlas servers login srv"):
                        await supervisor.connection()
                    assert supervisor.retry_in_s == 0
                assert supervisor.state.phase is Phase.DOWN
                assert "toolatlas servers login srv" in (supervisor.state.reason or "")
                await log_in(server, store_in(tmp_path), browse)
                assert text(await supervisor.request(call("add", a=2, b=3))) == "5"
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("sse", [False, True])
async def test_a_login_opens_the_server(tmp_path: Path, sse: bool) -> None:
    async with logged_in(tmp_path, sse=sse) as (pair, server, store), connected(server, Keyring(store)) as connection:
        assert text(await connection.request(call("add", a=2, b=3))) == "5"
        assert pair.authorization.asked[0].resource == pair.url


async def test_a_login_made_meanwhile_counts_at_the_next_try(tmp_path: Path) -> None:
    async with protected() as pair:
        server, keyring = config(pair.entry), Keyring(store_in(tmp_path))
        await refusal_of(server, keyring)
        await log_in(server, store_in(tmp_path), browse)
        async with connected(server, keyring) as connection:
            assert text(await connection.request(call("add", a=2, b=3))) == "5"


async def test_tokens_of_two_seconds_are_renewed_without_a_call_that_notices(tmp_path: Path) -> None:
    async with logged_in(tmp_path, lifetime_s=2) as (pair, server, store):
        async with connected(server, Keyring(store)) as connection:
            while pair.authorization.renewals < 2:
                assert text(await connection.request(call("add", a=2, b=3))) == "5"


async def test_a_renewed_login_survives_a_restart(tmp_path: Path) -> None:
    async with logged_in(tmp_path, lifetime_s=2) as (pair, server, store):
        async with connected(server, Keyring(store)) as connection:
            while pair.authorization.renewals < 1:
                await connection.request(call("add", a=1, b=1))
        # The first refresh token is used up: this works only if its successor was kept.
        async with connected(server, Keyring(store_in(tmp_path))) as connection:
            while pair.authorization.renewals < 2:
                assert text(await connection.request(call("add", a=2, b=3))) == "5"


@pytest.mark.parametrize("gateways", [1, 2])
async def test_twenty_calls_at_once_renew_once(tmp_path: Path, gateways: int) -> None:
    async with logged_in(tmp_path) as (pair, server, _):
        keyrings = [Keyring(store_in(tmp_path)) for _ in range(gateways)]
        async with connected(server, keyrings[0]) as one, connected(server, keyrings[-1]) as other:
            pair.authorization.access.clear()
            pair.authorization.slow_s = 0.2
            answers: list[str] = []

            async def add(connection: ServerConnection, number: int) -> None:
                answers.append(text(await connection.request(call("add", a=number, b=0))))

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(add, (one, other)[number % 2], number)
        assert sorted(map(int, answers)) == list(range(20))
        assert pair.authorization.renewals == 1


async def test_two_processes_renew_once(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (pair, server, store):
        login = store.load(server)
        assert login is not None
        pair.authorization.access.clear()
        pair.authorization.slow_s = 0.5
        root = Path(__file__).parents[3]
        given = (str(tmp_path), server.url, pair.issuer, login.access_token)
        command = [sys.executable, "-m", "tests.proxy.servers.renewing", *given]
        tokens: list[str] = []

        async def renew() -> None:
            done = await anyio.run_process(command, cwd=root)
            tokens.append(done.stdout.decode().strip())

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(renew)
        assert pair.authorization.renewals == 1
        assert len(tokens) == 2
        assert len(set(tokens)) == 1
        assert tokens[0] in pair.authorization.access


async def test_a_call_taken_back_in_the_middle_of_a_renewal_does_not_lose_the_new_token(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (pair, server, store):
        pair.authorization.access.clear()
        pair.authorization.slow_s = 0.3
        login = store.load(server)
        assert login is not None
        tokens = Tokens(server, store)
        async with anyio.create_task_group() as tasks:

            async def impatient() -> None:
                await tokens.after_refusal(login.access_token)

            tasks.start_soon(impatient)
            while not pair.authorization.renewals:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        kept = store_in(tmp_path).load(server)
        assert kept is not None
        assert kept.refresh_token in pair.authorization.refresh


async def test_a_lost_login_fails_calls_one_by_one_and_says_what_to_do(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (pair, server, store), connected(server, Keyring(store)) as connection:
        pair.authorization.revoke_all()
        for _ in range(2):
            with pytest.raises(ProtocolFault, match="no longer valid") as failed:
                await connection.request(call("add", a=2, b=3))
            assert "toolatlas servers login srv" in str(failed.value)
        # The connection is still there, and a new login is taken over by it.
        await log_in(server, store_in(tmp_path), browse)
        assert text(await connection.request(call("add", a=2, b=3))) == "5"


async def test_a_lost_login_ends_an_sse_connection_instead_of_leaving_the_call_waiting(tmp_path: Path) -> None:
    async with logged_in(tmp_path, sse=True) as (pair, server, store):

        async def lose_it() -> None:
            async with connected(server, Keyring(store)) as connection:
                pair.authorization.revoke_all()
                await connection.request(call("add", a=2, b=3))

        with pytest.raises(ServerDown, match="toolatlas servers login srv"):
            await lose_it()


async def test_a_logout_counts_at_once(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (_, server, store), connected(server, Keyring(store)) as connection:
        assert store_in(tmp_path).forget("srv") == 1
        with pytest.raises(ProtocolFault, match="toolatlas servers login srv"):
            await connection.request(call("add", a=2, b=3))


async def test_a_token_is_renewed_ahead_and_kept_where_the_authorization_server_is_away(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (pair, server, store):
        login = store.load(server)
        assert login is not None
        assert login.expires_at is not None
        now = [login.obtained_at + 3500]
        tokens = Tokens(server, store, clock=lambda: now[0])
        assert await tokens.current() == login.access_token
        store.save(server, replace(login, token_endpoint=f"http://{LOOPBACK}:1/token"))
        now[0] = login.expires_at - 10
        away = Tokens(replace(server, oauth=allowing(server, f"http://{LOOPBACK}:1")), store, clock=lambda: now[0])
        assert await away.current() == login.access_token
        now[0] = login.expires_at + 1
        with pytest.raises(ServerDown, match="does not work") as failed:
            await away.current()
        assert not isinstance(failed.value, LoginNeeded)
        # Back again, and the pause after a failure is over.
        store.save(server, login)
        now[0] += 10
        assert await away.current() in pair.authorization.access


def allowing(server: ServerConfig, *origins: str) -> OAuthConfig:
    return replace(server.oauth, allowed_origins=server.oauth.allowed_origins | set(origins))


async def test_a_login_is_never_used_for_another_address_or_another_server(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (_, server, store):
        for other in (replace(server, url=server.url.replace("/mcp", "/other")), replace(server, name="twin")):
            assert store.load(other) is None
            assert await Tokens(other, store).current() is None


async def test_credentials_in_the_entry_are_used_instead_of_a_login(tmp_path: Path) -> None:
    async with logged_in(tmp_path) as (pair, server, store):
        own = replace(server, headers={"Authorization": "Bearer static-secret"})
        pair.server.seen.clear()
        failure = await refusal_of(own, Keyring(store))
        assert {headers.get("authorization") for headers in pair.server.seen} == {"Bearer static-secret"}
        assert "refuses the credentials in its entry" in str(failure)
        assert "static-secret" not in str(failure)
