"""Uploads of any size, byte by byte as a client of bad manners may send them, and what they cost the process."""

import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.service import Service

MIB = 1024 * 1024
PIECE = 256 * 1024
PATIENCE = 120
"""Seconds for an answer."""

OPENING = b'--x\r\nContent-Disposition: form-data; name="file"; filename="large.pdf"\r\n\r\n'
CLOSING = b'\r\n--x\r\nContent-Disposition: form-data; name="jobs"\r\n\r\n[]\r\n--x--\r\n'


def pieces(size: int) -> Iterator[bytes]:
    """A file of so many bytes that passes for a PDF, no two pieces alike."""
    block = b"%PDF-1.7 " + b"0123456789abcdef" * (PIECE // 16)
    for start in range(0, size, PIECE):
        yield (block[:9] + b"%015d" % start + block[24:PIECE])[: min(PIECE, size - start)]


def form(size: int) -> Iterator[bytes]:
    yield OPENING
    yield from pieces(size)
    yield CLOSING


def length(size: int) -> int:
    return len(OPENING) + size + len(CLOSING)


class Upload:
    """One request on a connection of its own."""

    def __init__(self, service: Service) -> None:
        parts = urlsplit(service.url)
        self._socket = socket.create_connection((str(parts.hostname), int(parts.port or 80)), timeout=PATIENCE)
        self._head = (
            f"POST /v1/documents HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {service.api_key}\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n"
        )
        self.sent = 0
        """Bytes that the kernel took."""

    def with_length(self, body: Iterator[bytes], declared: int) -> tuple[int, dict[str, Any]]:
        return self._send([f"{self._head}Content-Length: {declared}\r\n\r\n".encode()], body)

    def chunked(self, body: Iterator[bytes]) -> tuple[int, dict[str, Any]]:
        framed = (b"%x\r\n%s\r\n" % (len(piece), piece) for piece in body)
        return self._send([f"{self._head}Transfer-Encoding: chunked\r\n\r\n".encode()], framed, [b"0\r\n\r\n"])

    def left_amid(self, body: Iterator[bytes], declared: int) -> None:
        """Sends this much and goes."""
        with self._socket:
            self._socket.sendall(f"{self._head}Content-Length: {declared}\r\n\r\n".encode())
            for piece in body:
                self._socket.sendall(piece)

    def _send(self, *parts: Any) -> tuple[int, dict[str, Any]]:
        with self._socket:
            for piece in (piece for part in parts for piece in part):
                # Who is answered already stops sending.
                if select.select([self._socket], [], [], 0)[0] or not self._push(piece):
                    break
            return self._answer()

    def _push(self, piece: bytes) -> bool:
        view = memoryview(piece)
        while view:
            readable, writable, _ = select.select([self._socket], [self._socket], [], PATIENCE)
            if readable or not writable:
                return False
            try:
                count = self._socket.send(view)
            except ConnectionError:
                return False
            self.sent += count
            view = view[count:]
        return True

    def _answer(self) -> tuple[int, dict[str, Any]]:
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        size = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        while len(body) < size:
            body += self._more()
        return int(lines[0].split(" ")[1]), json.loads(body[:size])

    def _more(self) -> bytes:
        chunk = self._socket.recv(65536)
        assert chunk, "the connection was closed without an answer"
        return chunk


class Memory:
    """What a process has in memory, in MiB."""

    def __init__(self, process_id: int) -> None:
        self._folder = Path(f"/proc/{process_id}")

    def now(self) -> float:
        return self._read("VmRSS")

    def forget_peak(self) -> None:
        (self._folder / "clear_refs").write_text("5")

    def peak(self) -> float:
        return self._read("VmHWM")

    def _read(self, name: str) -> float:
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def settled(look: Callable[[], Any], expected: Any, *, seconds: float = 15) -> Any:
    """What is seen once it is as expected, or after that time."""
    deadline = time.monotonic() + seconds
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen
