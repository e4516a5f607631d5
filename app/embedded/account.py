"""The account the server runs as: PostgreSQL refuses to run as root, so root hands it to somebody else."""

import os
import pwd
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class ServerUnavailable(Exception):
    """The embedded server can't run now; the message says what to install, to set or to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    uid: int
    gid: int

    @property
    def dropped(self) -> bool:
        """We are root, and the server is somebody else."""
        return os.geteuid() != self.uid

    def run(
        self, command: Sequence[str | Path], *, cwd: Path = Path("/"), pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - the programs of the chosen PostgreSQL installation
            command,
            check=False,
            cwd=cwd,
            pass_fds=pass_fds,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            user=self.uid if self.dropped else None,
            group=self.gid if self.dropped else None,
            extra_groups=[] if self.dropped else None,
        )

    def can_traverse(self, path: Path) -> bool:
        """By mode bits alone; what does not exist yet is about to be made traversable."""
        return all(self._can_enter(each) for each in (path, *path.parents) if each.exists())

    def _can_enter(self, directory: Path) -> bool:
        found = directory.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def environment() -> dict[str, str]:
    """The same for every caller, so that the cluster does not depend on who started it first."""
    return {"PATH": os.defpath, "HOME": "/", "LC_ALL": "C", "TZ": "UTC"}


def current_account() -> ServiceAccount:
    return ServiceAccount(uid=os.geteuid(), gid=os.getegid())


def owner_of(directory: Path) -> ServiceAccount:
    found = directory.stat()
    try:
        entry = pwd.getpwuid(found.st_uid)
    except KeyError:
        return ServiceAccount(uid=found.st_uid, gid=found.st_gid)
    return ServiceAccount(uid=entry.pw_uid, gid=entry.pw_gid)


def unprivileged_account(preferred: str | None) -> ServiceAccount:
    """`preferred`, or the first of the invoker of sudo, `postgres` and `nobody` that exists.

    No account is ever made: initdb needs a passwd entry, and /etc/passwd is not ours to write.
    """
    if preferred is not None:
        account = _named(preferred)
        if account is None:
            raise ServerUnavailable(f"PostgreSQL can't run as {preferred!r}: set DAIRA_PG_USER to an ordinary account")
        return account
    for name in (os.environ.get("SUDO_USER"), "postgres", "nobody"):
        if name and (account := _named(name)):
            return account
    raise ServerUnavailable(
        "PostgreSQL does not run as root and no ordinary account was found: "
        "set DAIRA_PG_USER to one, or DAIRA_DATABASE_URL to a running server"
    )


def _named(name: str) -> ServiceAccount | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return ServiceAccount(uid=entry.pw_uid, gid=entry.pw_gid) if entry.pw_uid else None
