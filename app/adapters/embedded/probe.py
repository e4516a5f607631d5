"""Whether a server takes sessions on a socket."""

import socket
import struct
from contextlib import suppress
from pathlib import Path

_PARAMETERS = b"user\0postgres\0database\0postgres\0\0"
# https://www.postgresql.org/docs/current/protocol-message-formats.html: StartupMessage 3.0, Terminate
_STARTUP = struct.pack("!ii", 8 + len(_PARAMETERS), 3 << 16) + _PARAMETERS
_TERMINATE = b"X\0\0\0\4"
_CANNOT_CONNECT_NOW = b"C57P03\0"
TIMEOUT_S = 2.0


def accepts(path: Path) -> bool:
    """Ask for a session, as pg_isready does: a bare SSLRequest is answered while the server is starting up, too."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(_STARTUP)
        reply = connection.recv(1024)
        with suppress(OSError):
            connection.sendall(_TERMINATE)
        # Any other error, such as too many connections, comes from a server at work.
        return reply.startswith(b"R") or (reply.startswith(b"E") and _CANNOT_CONNECT_NOW not in reply)
    return False
