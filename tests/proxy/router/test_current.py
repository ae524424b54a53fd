"""Which router is answered with while another one is being built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

import anyio
import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.records import ServerRecord
from proxy.router.base import Query, Ranked
from proxy.router.current import Built, CurrentRouter

pytestmark = pytest.mark.anyio
LIMIT_S = 20.0


@dataclass(frozen=True)
class Knowing:
    """A router that says for which servers it was built."""

    servers: Sequence[ServerRecord]
    policy = "knowing"

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        return [Ranked(server.written, 1.0) for server in self.servers]


@dataclass
class Factory:
    """Builds at once, or once it may; `started` counts the builds."""

    may_build: Event = field(default_factory=Event)
    started: int = 0
    failures: int = 0

    def __call__(self, servers: Sequence[ServerRecord]) -> Knowing:
        self.started += 1
        if not self.may_build.wait(LIMIT_S):
            raise TimeoutError
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no memory")
        return Knowing(servers)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.may_build.clear()
        try:
            yield
        finally:
            self.may_build.set()


@pytest.fixture
def factory() -> Factory:
    made = Factory()
    made.may_build.set()
    return made


def catalog(*names: str) -> Catalog:
    return Catalog(tuple(ServerRecord(name, name, f"for {name}", (), None) for name in names))


async def suits(built: Built) -> bool:
    ranking = await built.ranker.rank(Query(""), 9)
    return [found.tool for found in ranking.tools] == [each.name for each in built.catalog.servers]


async def gone_by(factory: Factory, count: int) -> None:
    with anyio.fail_after(LIMIT_S):
        while factory.started < count:
            await anyio.sleep(0.005)


async def test_one_catalogue_is_built_once_however_many_ask_at_once(factory: Factory) -> None:
    current, wanted = CurrentRouter(factory), catalog("a")
    answers: list[Built] = []

    async def ask() -> None:
        answers.append(await current.get(wanted, LIMIT_S))

    with anyio.fail_after(LIMIT_S), factory.held():
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
            await gone_by(factory, 1)
            factory.may_build.set()
    assert factory.started == 1
    assert len({id(answer) for answer in answers}) == 1
    assert await current.get(wanted, 0) is answers[0]


async def test_while_a_slow_build_runs_the_older_router_answers_for_its_own_catalogue(factory: Factory) -> None:
    current, old, new = CurrentRouter(factory), catalog("a"), catalog("a", "b")
    await current.get(old, LIMIT_S)
    with factory.held():
        for _ in range(3):
            with anyio.fail_after(LIMIT_S / 2):
                built = await current.get(new, 0.01)
            assert built.catalog is old
            assert await suits(built)
    with anyio.fail_after(LIMIT_S):
        built = await current.get(new, LIMIT_S)
    assert built.catalog is new
    assert await suits(built)
    assert factory.started == 2  # who stopped waiting did not stop the build


async def test_a_build_nobody_waited_for_is_there_for_the_next(factory: Factory) -> None:
    current, old, new = CurrentRouter(factory), catalog("a"), catalog("b")
    await current.get(old, LIMIT_S)
    with factory.held():
        await current.get(new, 0)
        await gone_by(factory, 2)
    with anyio.fail_after(LIMIT_S):
        while (built := await current.get(new, 0)).catalog is old:
            await anyio.sleep(0.005)
    assert await suits(built)
    assert factory.started == 2


async def test_a_catalogue_that_changes_during_a_build_gets_its_own_router(factory: Factory) -> None:
    current, first, second = CurrentRouter(factory), catalog("a"), catalog("b")
    answers: dict[str, Built] = {}

    async def ask(wanted: Catalog) -> None:
        answers[wanted.servers[0].name] = await current.get(wanted, LIMIT_S)

    with anyio.fail_after(LIMIT_S), factory.held():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, first)
            await gone_by(factory, 1)
            tasks.start_soon(ask, second)
            factory.may_build.set()
    assert answers["b"].catalog is second
    for answer in answers.values():
        assert await suits(answer)


async def test_a_failed_build_is_told_and_tried_again(factory: Factory) -> None:
    current, wanted = CurrentRouter(factory), catalog("a")
    factory.failures = 1
    with pytest.raises(RuntimeError, match="no memory"):
        await current.get(wanted, LIMIT_S)
    assert await suits(await current.get(wanted, LIMIT_S))


async def test_an_agent_that_gives_up_during_the_first_build_leaves_it_to_the_others(factory: Factory) -> None:
    current, wanted = CurrentRouter(factory), catalog("a")
    with factory.held():
        with anyio.move_on_after(0.01) as gave_up:
            await current.get(wanted, LIMIT_S)
        assert gave_up.cancelled_caught
        await gone_by(factory, 1)
    assert await suits(await current.get(wanted, LIMIT_S))
    assert factory.started == 1


async def test_what_was_prepared_is_not_built_again_for_who_asks(factory: Factory) -> None:
    current, wanted = CurrentRouter(factory), catalog("a")
    with factory.held():
        current.prepare(wanted)
        current.prepare(wanted)
        await gone_by(factory, 1)
    assert await suits(await current.get(wanted, LIMIT_S))
    current.prepare(wanted)
    assert factory.started == 1


async def test_an_agent_that_asks_gives_the_prepared_build_of_an_older_catalogue_its_time(factory: Factory) -> None:
    current, old, new = CurrentRouter(factory), catalog("a"), catalog("b")
    with factory.held():
        current.prepare(old)
        await gone_by(factory, 1)
    built = await current.get(new, LIMIT_S)
    assert built.catalog is new
    assert await suits(built)
