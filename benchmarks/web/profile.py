"""A profile of a server's time: samples of its stacks (py-spy), each counted for the first part it belongs to."""

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Mapping
from pathlib import Path

PARTS: Mapping[str, tuple[str, ...]] = {
    "the key: looked up, and its use noted": ("app/services/tenants.py", "app/web/callers.py"),
    "the form and the file": ("app/web/bodies.py", "app/adapters/filesystem", "Uploads.receive"),
    "the doorbell": ("app/services/ringing.py", "app/adapters/postgres/doorbell.py"),
    "the transaction: begun, clamped, committed": (
        "app/adapters/postgres/engine.py",
        "app/adapters/postgres/database.py",
    ),
    "statements: built, sent, their rows read": ("app/adapters/postgres", "sqlalchemy/", "asyncpg/"),
    "the answer as JSON": ("serialize_response", "serialize_json", "dump_json", "app/web/schemas.py", "json/"),
    "parameters and dependencies": ("solve_dependencies",),
    "Daira's own layers": ("app/",),
    "routing and the framework": ("fastapi/", "starlette/"),
    "HTTP": ("uvicorn/", "h11/"),
}
"""A stack belongs to the part that is found first from its innermost frame; a frame belongs to the first of these."""

ELSE = "the loop, and what is none of these"
FRAMEWORK_ROOT = ("app/__main__.py", "app/cli/")


async def profiled(pid: int, load: Awaitable[object], *, seconds: float) -> dict[str, float]:
    """The shares of samples by part, largest first, while the load is on."""
    program = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:/usr/bin:/usr/local/bin")
    if program is None:
        raise SystemExit("py-spy is missing: pip install py-spy")
    with tempfile.NamedTemporaryFile("r+") as file:
        arguments = ["record", "-d", f"{seconds:.0f}", "-r", "500", "-f", "raw", "-o", file.name, "-p", str(pid)]
        spying = await asyncio.create_subprocess_exec(
            program, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await load
        if await spying.wait():
            raise SystemExit("py-spy may not read the server's memory: run as root, or allow ptrace")
        return _shares(file.read())


def _shares(samples: str) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for line in samples.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [frame for frame in stack.split(";") if not any(root in frame for root in FRAMEWORK_ROOT)]
        # To py-spy, a thread that waits for work is active while it checks its queue.
        if frames and "(concurrent/futures/thread.py" not in frames[-1]:
            counts[_part(frames)] += int(count)
    total = counts.total()
    return {part: count / total for part, count in counts.most_common()}


def _part(frames: list[str]) -> str:
    for frame in reversed(frames):
        for part, marks in PARTS.items():
            if any(mark in frame for mark in marks):
                return part
    return ELSE
