"""Ports of loopback that nobody has, for servers that must be told one."""

import socket
from contextlib import ExitStack


def free_port() -> int:
    (port,) = free_ports(1)
    return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """All held until the last is found, so that no two are the same."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
