"""Shares of the event loop: who has taken too much of it waits while others come, and only then."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from app.domain.errors import TooMany
from app.domain.ids import TenantId
from app.services.loop_shares import CREDIT, DEBT, MOST_IN_ADVANCE, RECENT, SHARE, LoopShares
from app.web.loop_accounts import LoopMeter, metered, paced
from tests.unit.served import ACME, served

GLOBEX, INITECH = TenantId("globex"), TenantId("initech")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shares(clock: Clock) -> LoopShares:
    return LoopShares(max_open=2, clock=clock)


def come(shares: LoopShares, tenant: TenantId) -> None:
    shares.enter(tenant)
    shares.leave(tenant)


def test_a_tenant_waits_for_what_it_took_beyond_its_credit_and_others_do_not(shares: LoopShares) -> None:
    come(shares, ACME)
    come(shares, GLOBEX)
    shares.charge(ACME, 0.2)
    assert shares.wait(ACME) == pytest.approx(0.2 / SHARE - CREDIT)
    assert shares.wait(GLOBEX) == 0


def test_a_tenant_that_is_alone_never_waits(shares: LoopShares, clock: Clock) -> None:
    come(shares, GLOBEX)
    clock.now += RECENT + 1
    come(shares, ACME)
    shares.charge(ACME, 1.0)
    assert shares.wait(ACME) == 0
    come(shares, GLOBEX)
    assert shares.wait(ACME) > 0


def test_two_in_debt_divide_the_share(shares: LoopShares, clock: Clock) -> None:
    for tenant in (ACME, GLOBEX):
        come(shares, tenant)
        shares.charge(tenant, 0.2)
    clock.now += CREDIT
    before = shares.wait(ACME)
    shares.charge(ACME, 0.1)
    assert shares.wait(ACME) - before == pytest.approx(0.1 / (SHARE / 2))


def test_a_debt_has_an_end(shares: LoopShares) -> None:
    come(shares, ACME)
    come(shares, GLOBEX)
    shares.charge(ACME, 1_000)
    assert shares.wait(ACME) == DEBT


def test_one_tenant_may_have_so_many_requests_open(shares: LoopShares) -> None:
    shares.enter(ACME)
    shares.enter(ACME)
    with pytest.raises(TooMany) as refused:
        shares.enter(ACME)
    assert refused.value.retry_after is not None
    shares.enter(GLOBEX)
    shares.leave(ACME)
    shares.enter(ACME)


async def test_a_request_does_not_wait_in_line_for_ever() -> None:
    shares = LoopShares(max_open=2, patience=0.01)
    come(shares, ACME)
    come(shares, GLOBEX)
    shares.charge(ACME, 1_000)
    with pytest.raises(TooMany):
        await shares.admit(ACME)
    assert await shares.admit(GLOBEX) == MOST_IN_ADVANCE
    assert not shares._lines[ACME].locked()


async def test_who_is_absent_is_forgotten(shares: LoopShares, clock: Clock) -> None:
    come(shares, ACME)
    shares.charge(ACME, 1)
    await shares.admit(ACME)
    clock.now += RECENT + 1
    come(shares, GLOBEX)
    clock.now += RECENT + 1
    come(shares, GLOBEX)
    known = (shares._seen, shares._paid_until, shares._usual, shares._lines, shares._open)
    assert all(ACME not in each for each in known)


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_the_steps_of_a_request_are_charged_to_its_tenant_in_tasks_and_parts_too() -> None:
    shares = LoopShares(max_open=2)
    come(shares, GLOBEX)

    async def work() -> None:
        await asyncio.sleep(0)
        spin(0.03)

    async def parts() -> AsyncIterator[int]:
        spin(0.03)
        yield 1

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        spin(0.03)
        await scope["state"]["account"].admit(shares, ACME)
        await work()
        await asyncio.create_task(metered(work()))
        assert [part async for part in paced(parts())] == [1]

    await LoopMeter(app)({"type": "http"}, None, None)  # type: ignore[arg-type]
    # Four times 0.03 s, at the least: it waited for some of them at its last part already.
    assert shares._usual[ACME] >= 0.12
    assert ACME not in shares._open


async def test_what_a_request_raises_and_its_cancel_come_through_the_meter() -> None:
    ended = []

    async def failing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def lasting(_scope: Scope, _receive: Receive, _send: Send) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(ZeroDivisionError):
        await LoopMeter(failing)({"type": "http"}, None, None)  # type: ignore[arg-type]
    task = asyncio.ensure_future(LoopMeter(lasting)({"type": "http"}, None, None))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_a_request_of_a_tenant_in_debt_waits_at_the_door_and_another_tenants_does_not() -> None:
    async with served() as web:
        others = await web.key_of("globex")
        await web.client.get("/v1/me", headers=others)
        web.runtime.shares.charge(ACME, 1_000)
        waiting = asyncio.create_task(web.client.get("/v1/me"))
        answer = await web.client.get("/v1/me", headers=others)
        assert answer.status_code == 200
        assert not waiting.done()
        assert (await waiting).status_code == 200


async def test_more_open_requests_than_allowed_are_refused_with_retry_after() -> None:
    async with served(max_open_requests=1) as web:
        job = (await web.uploaded())["jobs"][0]["id"]
        waiting = asyncio.create_task(web.client.get(f"/v1/jobs/{job}", params={"wait": 60}))
        while not web.runtime.shares._open[ACME]:
            await asyncio.sleep(0)
        refused = await web.client.get("/v1/me")
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "2"
        assert (await web.client.get("/v1/me", headers=await web.key_of("globex"))).status_code == 200
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
