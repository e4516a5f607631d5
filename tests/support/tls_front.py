"""TLS as a provider's proxy does it, before a server that has none: the embedded Postgres is built without."""

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""https://www.postgresql.org/docs/current/protocol-message-formats.html"""
HANDSHAKE = b"\x16"
"""The first byte of TLS, without a question before (`sslnegotiation=direct`)."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def tls_in_front_of(server: int, context: ssl.SSLContext, *, host: str = "127.0.0.1") -> Iterator[int]:
    """The port of a proxy before a port of loopback. Who does not ask for TLS is let through without."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        listening.setblocking(False)
        loop = asyncio.new_event_loop()
        accepting = loop.create_task(_accept(listening, server, context))
        thread = threading.Thread(target=_run, args=(loop, accepting))
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            loop.call_soon_threadsafe(accepting.cancel)
            thread.join()
            loop.close()


def _run(loop: asyncio.AbstractEventLoop, accepting: "asyncio.Task[None]") -> None:
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(accepting)


async def _accept(listening: socket.socket, server: int, context: ssl.SSLContext) -> None:
    async with asyncio.TaskGroup() as clients:
        while True:
            client, _ = await asyncio.get_running_loop().sock_accept(listening)
            client.setblocking(False)
            clients.create_task(_serve(client, server, context))


async def _serve(client: socket.socket, server: int, context: ssl.SSLContext) -> None:
    # A client that refuses the certificate, or leaves, ends its own connection alone.
    with client, suppress(OSError, EOFError):
        inside = await _stream(client, context if await _wants_tls(client) else None)
        outside = await asyncio.open_connection("127.0.0.1", server)
        try:
            await asyncio.gather(_copy(inside[0], outside[1]), _copy(outside[0], inside[1]))
        finally:
            inside[1].transport.abort()
            outside[1].transport.abort()


async def _wants_tls(client: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    await readable.wait()
    loop.remove_reader(client)
    asked = client.recv(len(SSL_REQUEST), socket.MSG_PEEK)
    if asked == SSL_REQUEST:
        client.recv(len(SSL_REQUEST))
        client.send(b"S")
    return asked == SSL_REQUEST or asked.startswith(HANDSHAKE)


async def _stream(client: socket.socket, context: ssl.SSLContext | None) -> Stream:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, client, ssl=context)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(2**16):
        target.write(data)
        await target.drain()
    raise EOFError
