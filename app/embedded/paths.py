"""The paths and the owner of one cluster: derived from the home and the file system, alike in every process."""

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.embedded import account as accounts
from app.embedded.account import ServerUnavailable, ServiceAccount
from app.embedded.files import make_private, make_reachable

CLUSTERS = Path("/var/lib/daira/clusters")
"""For root, where the server's account can't enter the home."""

SOCKET = ".s.PGSQL.5432"
"""The port only names the socket: nothing listens on TCP."""

LONGEST_RUN = 85
"""Bytes of a socket's directory: sun_path holds 104 on macOS, 108 on Linux, and the socket's name takes 15."""

# asyncpg splits a host at commas and SQLAlchemy at colons.
_PLAIN = re.compile(r"[\w./-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPaths:
    home: Path
    base: Path
    """Home, or its place below `CLUSTERS`."""
    account: ServiceAccount

    @property
    def run(self) -> Path:
        """The directory of the socket."""
        inside = self.base / "run"
        if len(os.fsencode(inside)) <= LONGEST_RUN and _PLAIN.fullmatch(str(inside)):
            return inside
        # Not tempfile.gettempdir(): TMPDIR may differ between processes that share the server.
        return Path(f"/tmp/daira-{_digest(self.base)}")  # noqa: S108 - made 0700 and its owner checked

    @property
    def socket(self) -> Path:
        return self.run / SOCKET

    @property
    def log(self) -> Path:
        return self.base / "postgres.log"

    @property
    def shelf(self) -> Path:
        """The folder for copies of binaries: clusters below `CLUSTERS` share them (33 MB each)."""
        return self.base if self.base == self.home else CLUSTERS

    def data(self, major: int) -> Path:
        return self.base / f"pg{major}"

    def prepare(self) -> None:
        for directory in (self.home, self.base):
            make_reachable(directory, account=self.account)
        if self.account.dropped and not self.account.can_traverse(self.base):
            raise ServerUnavailable(
                f"the account PostgreSQL runs as can't enter {self.base}: "
                "set DAIRA_DATA_DIR to a directory everybody can pass, or DAIRA_DATABASE_URL to a running server"
            )
        if self.base != self.home:
            self._leave_notes()

    def make_run(self) -> None:
        make_private(self.run, account=self.account)

    def _leave_notes(self) -> None:
        """For people: what is whose. The program itself never follows them."""
        for note, target in ((self.home / "cluster", self.base), (self.base / "home", self.home)):
            with suppress(FileExistsError):
                note.symlink_to(target)


def cluster_paths(home: Path, *, pg_user: str | None) -> ClusterPaths:
    if os.geteuid() != 0:
        return ClusterPaths(home=home, base=home, account=accounts.current_account())
    exile = CLUSTERS / _digest(home)
    account = _owner_of_data(home) or _owner_of_data(exile) or accounts.unprivileged_account(pg_user)
    return ClusterPaths(home=home, base=home if account.can_traverse(home) else exile, account=account)


def _owner_of_data(base: Path) -> ServiceAccount | None:
    """Whoever ran it before goes on running it: PostgreSQL refuses a data directory of somebody else."""
    for directory in sorted(base.glob("pg[0-9]*")):
        if directory.name[2:].isdigit() and (owner := accounts.owner_of(directory)).uid:
            return owner
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
