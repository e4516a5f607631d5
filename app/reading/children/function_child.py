"""A child process that calls one function with each request, each call within its CPU time.

The function is named by module and name, so that this program knows no code above it. Out of CPU time, the process ends
by SIGPROF.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from app.reading.children import wire
from app.reading.sandbox import CpuTimeLimit, enter_sandbox

NICE = 10
"""The processes that answer requests come first."""


def main() -> None:
    requests, answers = wire.private_pipes()
    setup = json.loads(sys.argv[1])
    module, _, name = setup["function"].partition(":")
    function: Callable[[wire.Message], wire.Message] = getattr(import_module(module), name)
    os.nice(NICE)
    enter_sandbox(parent=setup["parent"], memory_bytes=setup["memory_bytes"])
    limit = CpuTimeLimit(setup["cpu_seconds"])
    wire.send(answers, {"ready": True})
    while (request := wire.read(requests)) is not None:
        with limit.counting():
            answer = _called(function, request)
        wire.send(answers, answer)


def _called(function: Callable[[wire.Message], wire.Message], request: wire.Message) -> wire.Message:
    if request.get("do") == "close":
        return {}
    try:
        return function(request)
    except Exception as error:  # noqa: BLE001 - the boundary: the parent has to learn of any error
        # The place and not the message, which may quote the request.
        last = traceback.extract_tb(error.__traceback__)[-1]
        return {"error": f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno} ({last.name})"}


if __name__ == "__main__":
    main()
