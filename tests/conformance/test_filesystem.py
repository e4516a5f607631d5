"""The blobs on disk keep the contract, and leave nothing lying about."""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.adapters.filesystem import blobs as filesystem
from app.adapters.filesystem.blobs import FileBlobs
from app.domain.errors import Invalid, NotFound, Unavailable
from app.ports.blobs import CHUNK, InventoriedBlobs
from tests.conformance.blobs_suite import (
    ACME,
    EVER,
    HOSTILE,
    HOUR,
    KEY,
    BlobsSuite,
    Refused,
    an_hour_ago,
    chunks,
    content,
    keys,
    refused,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Not there yet."""
    return tmp_path / "var" / "blobs"


@pytest.fixture
def blobs(root: Path) -> InventoriedBlobs:
    return FileBlobs(root)


@pytest.fixture
def no_umask() -> Iterator[None]:
    """The modes must not depend on how the process was started."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def untouched(root: Path) -> Iterator[None]:
    yield
    assert not root.exists()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestFileBlobs(BlobsSuite):
    async def test_a_blob_is_one_file_under_its_tenant(self, blobs: InventoriedBlobs, root: Path) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert files(root) == [KEY]
        assert (root / KEY).read_bytes() == b"Dear Sir"

    @pytest.mark.usefixtures("no_umask")
    async def test_files_and_folders_are_their_owners_alone(self, blobs: InventoriedBlobs, root: Path) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert mode(root / KEY) == 0o600
        assert mode(root) == mode((root / KEY).parent) == 0o700

    async def test_a_refused_upload_leaves_no_file(self, blobs: InventoriedBlobs, root: Path) -> None:
        with pytest.raises(Refused):
            await blobs.put(KEY, refused(b"half of it"))
        assert files(root) == []

    @pytest.mark.parametrize("steps", [*range(12), 20, 40, 80])
    async def test_an_upload_cancelled_anywhere_leaves_the_whole_file_or_none(
        self, blobs: InventoriedBlobs, root: Path, steps: int
    ) -> None:
        upload = asyncio.create_task(blobs.put(KEY, chunks(b"a" * CHUNK, b"b" * CHUNK)))
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        upload.cancel()
        upload.cancel()
        await asyncio.gather(upload, return_exceptions=True)
        assert files(root) in ([], [KEY])
        if files(root):
            assert (root / KEY).stat().st_size == CHUNK * 2

    @pytest.mark.threat(59)
    @pytest.mark.usefixtures("untouched")
    @pytest.mark.parametrize("key", HOSTILE)
    async def test_a_hostile_key_reaches_no_disk(self, blobs: InventoriedBlobs, key: str) -> None:
        with pytest.raises(Invalid):
            await blobs.put(key, chunks(b"Dear Sir"))
        with pytest.raises(Invalid):
            await content(blobs, key)
        with pytest.raises(Invalid):
            await blobs.delete(key)

    @pytest.mark.usefixtures("untouched")
    async def test_reading_and_deleting_what_is_not_there_makes_nothing(self, blobs: InventoriedBlobs) -> None:
        with pytest.raises(NotFound):
            await content(blobs)
        await blobs.delete(KEY)

    async def test_the_last_blob_of_a_tenant_takes_the_folder_with_it(
        self, blobs: InventoriedBlobs, root: Path
    ) -> None:
        other = "acme/0197a2b8-7f3c-7000-8000-000000000002"
        for key in (KEY, other):
            await blobs.put(key, chunks(b"Dear Sir"))
        await blobs.delete(KEY)
        assert files(root) == [other]
        await blobs.delete(other)
        await blobs.delete(other)
        assert os.listdir(root) == []  # noqa: PTH208 - nothing to wait for

    async def test_an_upload_survives_that_the_folder_goes_just_then(
        self, blobs: InventoriedBlobs, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_folder = filesystem._make_folder

        def make_and_lose(folder: Path) -> None:
            monkeypatch.undo()
            make_folder(folder)
            folder.rmdir()

        monkeypatch.setattr(filesystem, "_make_folder", make_and_lose)
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert files(root) == [KEY]

    async def test_a_reader_that_stops_in_the_middle_closes_its_file(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"a" * CHUNK, b"b" * CHUNK))
        before = open_files()
        reader = blobs.get(KEY)
        await anext(reader)
        await reader.aclose()  # type: ignore[attr-defined]
        assert open_files() == before

    async def test_what_a_killed_process_left_is_found_by_its_age_and_a_part_that_grows_is_not(
        self, blobs: InventoriedBlobs, root: Path
    ) -> None:
        dead = root / "acme" / f".name.{'0' * 32}.part"
        dead.parent.mkdir(parents=True)
        dead.write_bytes(b"half of it")
        os.utime(dead, (0, time.time() - HOUR.total_seconds() - 60))

        async def looking() -> AsyncIterator[bytes]:
            yield b"half of it, "
            assert await blobs.clear_unfinished(ACME, before=await an_hour_ago(blobs), dry_run=True) == 1
            assert await blobs.clear_unfinished(ACME, before=await an_hour_ago(blobs)) == 1
            yield b"and the rest"

        await blobs.put(KEY, looking())
        assert files(root) == [KEY]

    async def test_the_age_of_a_blob_is_that_of_its_last_byte(self, blobs: InventoriedBlobs, root: Path) -> None:
        for key in (KEY, "acme/old"):
            await blobs.put(key, chunks(b"Dear Sir"))
        os.utime(root / "acme/old", (0, time.time() - HOUR.total_seconds() - 60))
        assert await keys(blobs, before=await an_hour_ago(blobs)) == ["acme/old"]

    async def test_a_long_folder_is_listed_in_pieces_and_links_and_folders_are_no_blobs(
        self, blobs: InventoriedBlobs, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(filesystem, "AT_A_TIME", 3)
        for n in range(10):
            await blobs.put(f"acme/{n}", chunks(b"Dear Sir"))
        (root / "acme" / "folder").mkdir()
        (root / "acme" / "link").symlink_to(root / "acme" / "0")
        before = open_files()
        assert await keys(blobs) == [f"acme/{n}" for n in range(10)]
        listing = blobs.keys(ACME, before=EVER)
        await anext(listing)
        await listing.aclose()  # type: ignore[attr-defined]
        assert open_files() == before

    async def test_a_ping_leaves_nothing(self, blobs: InventoriedBlobs, root: Path) -> None:
        await blobs.ping()
        assert files(root) == []

    async def test_a_root_that_can_not_be_is_unavailable(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        blobs = FileBlobs(tmp_path / "file" / "blobs")
        with pytest.raises(Unavailable):
            await blobs.ping()
        with pytest.raises(Unavailable):
            await blobs.put(KEY, chunks(b"Dear Sir"))
        with pytest.raises(Unavailable):
            await content(blobs)
