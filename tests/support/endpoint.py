"""The address before a service's servers, such as a cloud's endpoint: after a failover it leads to another server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

PIECE = 65536


class Endpoint:
    """Leads new connections to `target`, a port of loopback; those that are open keep the server that they have."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.opened = 0
        """Connections so far."""
        self._silent = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._carried: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None, "it is not open"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def silence(self) -> None:
        """From now on the connections that are open carry nothing and do not end, like those to a host that died."""
        self._silent.set()
        self._silent = asyncio.Event()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None, "it is not open"
        self._server.close()
        for each in self._carried:
            each.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)

    def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        carried = asyncio.create_task(_carry(reader, writer, target=self.target, silent=self._silent))
        self._carried.add(carried)
        carried.add_done_callback(self._carried.discard)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, target: int, silent: asyncio.Event
) -> None:
    with closing(writer), suppress(OSError):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        with closing(far_writer):
            pipes = [
                asyncio.create_task(_pipe(reader, far_writer, silent)),
                asyncio.create_task(_pipe(far_reader, writer, silent)),
            ]
            try:
                await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pipe in pipes:
                    pipe.cancel()
                await asyncio.gather(*pipes, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: asyncio.Event) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(PIECE):
            if silent.is_set():
                continue
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def endpoint(target: int) -> AsyncIterator[Endpoint]:
    opened = Endpoint(target)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()
