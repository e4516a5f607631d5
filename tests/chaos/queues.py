"""A queue of each kind on a real server of its own, and what can be done to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import aioboto3
from redis.asyncio import Redis

from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.redis.doorbell import RedisDoorbell
from app.adapters.sqs.doorbell import SqsDoorbell
from app.embedded.server import EmbeddedPostgres
from app.ports.doorbell import Doorbell
from tests.chaos.servers import OwnServer
from tests.support.databases import Cloned
from tests.support.folders import open_folder
from tests.support.ministack import Ministack
from tests.support.service import using, wait_until
from tests.support.valkey import running_valkey

AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDTEST",
    "AWS_SECRET_ACCESS_KEY": "made-up-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True, kw_only=True)
class Queue:
    url: str
    doorbell: Doorbell
    wipe: Callable[[], Awaitable[object]]
    stop: Callable[[], Awaitable[object]]
    start: Callable[[], Awaitable[object]]
    settings: dict[str, str] = field(default_factory=dict)


def _unheard(count: int) -> None:
    raise AssertionError(f"{count} genuine bells were dropped")


@asynccontextmanager
async def postgres_queue(_cloned: Cloned) -> AsyncIterator[Queue]:
    """On a server apart from the main database, so that it alone can be stopped."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(open_folder())
        embedded = EmbeddedPostgres(folder / "pg", grace=timedelta(seconds=0))
        stack.callback(wait_until, lambda: not using(folder), seconds=30)
        stack.callback(embedded.close)
        server = OwnServer(embedded)
        await server.start()
        await server.prepare()
        url = server.cloned.app_url
        engine = PostgresEngine(url, pool_size=2, name="test")
        stack.push_async_callback(engine.close)
        doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=url, dropped=_unheard)
        stack.push_async_callback(doorbell.close)

        async def wipe() -> None:
            async with administer(url) as connection:
                await connection.execute("delete from daira.doorbells")

        yield Queue(url=url, doorbell=doorbell, wipe=wipe, stop=server.kill, start=server.start)


@asynccontextmanager
async def main_queue(cloned: Cloned) -> AsyncIterator[Queue]:
    """On the main database, as without a setting: it goes where that goes."""
    engine = PostgresEngine(cloned.app_url, pool_size=4, name="test")
    doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=_unheard)

    async def wipe() -> None:
        async with administer(cloned.admin_url) as connection:
            await connection.execute("delete from daira.doorbells")

    async def nothing_of_its_own() -> None: ...

    try:
        yield Queue(url="", doorbell=doorbell, wipe=wipe, stop=nothing_of_its_own, start=nothing_of_its_own)
    finally:
        await doorbell.close()
        await engine.close()


@asynccontextmanager
async def redis_queue(_cloned: Cloned) -> AsyncIterator[Queue]:
    with ExitStack() as stack:
        server = await asyncio.to_thread(stack.enter_context, running_valkey())
        doorbell = RedisDoorbell(server.url, lane="ocr", dropped=_unheard)

        async def wipe() -> None:
            async with Redis.from_url(server.url) as client:
                await client.flushall()

        async def stop() -> None:
            server.stop()

        async def start() -> None:
            server.start()
            await server.answering()

        yield Queue(url=server.url, doorbell=doorbell, wipe=wipe, stop=stop, start=start)
        await doorbell.close()


@asynccontextmanager
async def sqs_queue(_cloned: Cloned) -> AsyncIterator[Queue]:
    server = Ministack()
    server.start()
    settings = AWS | {"DAIRA_AWS_ENDPOINT_URL": server.url, "DAIRA_AWS_REGION": "us-east-1"}
    try:
        doorbell = SqsDoorbell(queue="daira-ocr", endpoint_url=server.url, region="us-east-1", dropped=_unheard)
        await doorbell.open()

        async def wipe() -> None:
            async with aioboto3.Session(region_name="us-east-1").client("sqs", endpoint_url=server.url) as client:
                url = (await client.get_queue_url(QueueName="daira-ocr"))["QueueUrl"]
                await client.purge_queue(QueueUrl=url)

        async def stop() -> None:
            server.stop()

        async def start() -> None:
            await asyncio.to_thread(server.start)

        yield Queue(url="sqs://daira", doorbell=doorbell, wipe=wipe, stop=stop, start=start, settings=settings)
        await doorbell.close()
    finally:
        server.close()


QUEUES = {"postgres": postgres_queue, "redis": redis_queue, "sqs": sqs_queue}
