"""Blobs as files, `root/tenant/name`. A file is complete and durable, or not there."""

import asyncio
import math
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import ExitStack, aclosing, suppress
from datetime import UTC, datetime
from errno import ENOENT
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar
from uuid import uuid4

from app.domain import ids
from app.domain.documents import BLOB_NAME_PATTERN, parse_blob_key
from app.domain.errors import NotFound, Unavailable
from app.domain.ids import TenantId
from app.ports.blobs import CHUNK

FILE_MODE = 0o600
FOLDER_MODE = 0o700

FOLDER_TRIES = 10
"""Tries to make a folder. A folder is removed with its last blob, possibly just when another blob is stored."""

PART_PATTERN = re.compile(r"\..+\.part")

AT_A_TIME = 1_000
"""Names read from a folder in one call, so that a long folder does not block a thread for long."""

ArgumentsP = ParamSpec("ArgumentsP")
ReturnT = TypeVar("ReturnT")


class FileBlobs:
    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store a blob.

        A cancelled put leaves nothing, unless all bytes were written and the file was just being renamed.
        """
        path = self._path(key)
        # No key begins with a dot, so an unfinished file can't be read. Files that a crash leaves are recognised by
        # their name.
        part = path.with_name(f".{path.name}.{uuid4().hex}.part")
        files = ExitStack()
        try:
            file = await _in_thread(_create, files, part)
            async for chunk in chunks:
                await _in_thread(file.write, chunk)
            # One call: switching to a thread and back takes longer than most files.
            await _in_thread(_complete, file, part, path)
        except BaseException:
            await _in_thread(_discard, files, part)
            raise

    def get(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        return _read(self._path(key), start=start, end=end)

    async def delete(self, key: str) -> None:
        await _in_thread(_remove, self._path(key))

    async def delete_all(self, tenant_id: TenantId) -> None:
        await _in_thread(_remove_folder, self._root / ids.tenant_id(tenant_id))

    async def now(self) -> datetime:
        """Write a file and return its time, which on a network's file system is the server's."""
        return datetime.fromtimestamp(await _in_thread(_probe, self._root), UTC)

    async def keys(self, tenant_id: TenantId, *, before: datetime) -> AsyncIterator[str]:
        folder = self._root / ids.tenant_id(tenant_id)
        async with aclosing(_names(folder, before=before)) as names:
            async for name in names:
                if BLOB_NAME_PATTERN.fullmatch(name):
                    yield f"{tenant_id}/{name}"

    async def clear_unfinished(self, tenant_id: TenantId, *, before: datetime, dry_run: bool = False) -> int:
        """Remove files of unfinished puts. A file that still grows is kept, however old the put is."""
        folder = self._root / ids.tenant_id(tenant_id)
        found = [name async for name in _names(folder, before=before) if PART_PATTERN.fullmatch(name)]
        for name in found if not dry_run else []:
            await _in_thread(_remove, folder / name)
        return len(found)

    async def ping(self) -> None:
        await _in_thread(_probe, self._root)

    def _path(self, key: str) -> Path:
        tenant, name = parse_blob_key(key)
        return self._root / tenant / name


async def _read(path: Path, *, start: int, end: int | None) -> AsyncIterator[bytes]:
    files = ExitStack()
    position = start
    try:
        file = await _in_thread(_open, files, path, start)
        while chunk := await _in_thread(file.read, _size(position, end)):
            position += len(chunk)
            yield chunk
    finally:
        await _in_thread(files.close)


async def _names(folder: Path, *, before: datetime) -> AsyncGenerator[str]:
    """Names of the files that were last written to before then."""
    names = _older(folder, before.timestamp())
    try:
        while batch := await _in_thread(lambda: list(islice(names, AT_A_TIME))):
            for name in batch:
                yield name
    finally:
        await _in_thread(names.close)


async def _in_thread(
    call: Callable[ArgumentsP, ReturnT], *args: ArgumentsP.args, **kwargs: ArgumentsP.kwargs
) -> ReturnT:
    """Run blocking work in a thread, always to its end.

    Clean-up after a cancel must not meet a thread still at work. Raises Unavailable for an OSError.
    """
    running = asyncio.get_running_loop().run_in_executor(None, partial(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        raise
    except OSError as error:
        raise Unavailable(f"the blob store failed: {error.strerror}") from error


def _older(folder: Path, before: float) -> Generator[str]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and _modified_at(entry) < before:
                yield entry.name


def _modified_at(entry: "os.DirEntry[str]") -> float:
    """The time of the last write, in seconds since 1970; infinite for a file that was removed meanwhile."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return math.inf


def _size(position: int, end: int | None) -> int:
    return CHUNK if end is None else max(0, min(CHUNK, end - position))


def _create(files: ExitStack, path: Path) -> BinaryIO:
    for _ in range(FOLDER_TRIES):
        with suppress(FileNotFoundError):
            _make_folder(path.parent)
            return files.enter_context(open(path, "xb", opener=_private))
    raise FileNotFoundError(ENOENT, "the folder can't be made", str(path.parent))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _open(files: ExitStack, path: Path, start: int) -> BinaryIO:
    try:
        file = files.enter_context(path.open("rb"))
    except FileNotFoundError:
        raise NotFound(f"there is no blob {path.parent.name}/{path.name}") from None
    file.seek(start)
    return file


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _complete(file: BinaryIO, part: Path, path: Path) -> None:
    with file:
        _sync(file)
    part.replace(path)
    _sync_folder(path.parent)


def _discard(files: ExitStack, part: Path) -> None:
    # There may be no folder either, without a disk or rights. The error that led here says so.
    with suppress(OSError):
        files.close()
    with suppress(OSError):
        part.unlink()


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
        _sync_folder(path.parent)
    # The folder goes with its last blob: nothing is left of a tenant that has no blobs.
    with suppress(OSError):
        path.parent.rmdir()


def _remove_folder(folder: Path) -> None:
    if not folder.is_dir():
        return
    for path in list(folder.iterdir()):
        path.unlink(missing_ok=True)
    # A put may have begun meanwhile; then its folder stays.
    with suppress(OSError):
        folder.rmdir()
    _sync_folder(folder.parent)


def _probe(root: Path) -> float:
    """Write a file and remove it. Return the time of its last write."""
    probe, files = root / f".probe-{uuid4().hex}", ExitStack()
    try:
        file = _create(files, probe)
        file.write(b"probe")
        _sync(file)
        written_at = os.fstat(file.fileno()).st_mtime
        files.close()
        probe.unlink()
        return written_at
    finally:
        _discard(files, probe)


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents, each synced in its parent: a file is only as durable as the path to it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
