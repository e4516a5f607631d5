"""Accounts of requests: the time that each step of a request takes of the event loop is charged to its tenant.

The chunks of its body and answer come and go at the pace that the tenant's share allows.
"""

import time
from collections.abc import AsyncIterator, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.ids import TenantId
from app.services.loop_shares import LoopShares

T = TypeVar("T")


class LoopAccount:
    """The account of one request: the seconds that its steps took so far, and the tenant that they are charged to."""

    def __init__(self) -> None:
        self._entered: tuple[LoopShares, TenantId] | None = None
        self._charged: tuple[LoopShares, TenantId] | None = None
        self._took = 0.0
        self._advance = 0.0

    async def admit(self, shares: LoopShares, tenant_id: TenantId) -> None:
        """Charge the request to the tenant from here on, and wait for its share. Raises TooMany."""
        shares.enter(tenant_id)
        self._entered = shares, tenant_id
        self._advance = await shares.admit(tenant_id)
        self._charged = self._entered
        shares.charge(tenant_id, max(0.0, self._took - self._advance))

    async def pace(self) -> None:
        if self._charged is not None:
            shares, tenant_id = self._charged
            await shares.pace(tenant_id)

    def charge(self, seconds: float) -> None:
        charged = max(self._took, self._advance)
        self._took += seconds
        if self._charged is not None and self._took > charged:
            shares, tenant_id = self._charged
            shares.charge(tenant_id, self._took - charged)

    def close(self) -> None:
        if self._entered is None:
            return
        shares, tenant_id = self._entered
        shares.leave(tenant_id)
        if self._charged is not None:
            shares.charge(tenant_id, min(0.0, self._took - self._advance))
            shares.learn(tenant_id, self._took)
        self._entered = self._charged = None


_ACCOUNT: ContextVar[LoopAccount | None] = ContextVar("account", default=None)


class _Metered:
    """An awaitable that charges each step of a coroutine to an account."""

    def __init__(self, work: Coroutine[Any, Any, T], account: LoopAccount) -> None:
        self._work = work
        self._account = account

    def __await__(self) -> Generator[Any, Any, Any]:
        step, given = self._work.send, None
        while True:
            began = time.thread_time()
            try:
                waits_for = step(given)
            except StopIteration as end:
                return end.value
            finally:
                self._account.charge(time.thread_time() - began)
            try:
                given, step = (yield waits_for), self._work.send
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - thrown into the work
                given, step = error, self._work.throw


async def metered(work: Coroutine[Any, Any, T]) -> T:
    """Charge the work to the request's account: for work in a task of its own, which its request does not cover."""
    account = _ACCOUNT.get()
    return await work if account is None else await _Metered(work, account)


async def paced(parts: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the parts of an answer as fast as the tenant's share allows, and charge what making them takes."""
    account = _ACCOUNT.get()
    try:
        while True:
            if account is not None:
                await account.pace()
            try:
                part = await metered(_next(parts))
            except StopAsyncIteration:
                return
            yield part
    finally:
        if (close := getattr(parts, "aclose", None)) is not None:
            await close()


async def _next(parts: AsyncIterator[T]) -> T:
    return await anext(parts)


class LoopMeter:
    """Gives each request an account, and its body the pace of its tenant."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        account = LoopAccount()
        scope.setdefault("state", {})["account"] = account
        token = _ACCOUNT.set(account)

        async def at_its_pace() -> Message:
            await account.pace()
            return await receive()

        try:
            await _Metered(_called(self._app, scope, at_its_pace, send), account)
        finally:
            _ACCOUNT.reset(token)
            account.close()


async def _called(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
