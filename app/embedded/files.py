"""Files and directories that root makes and another account uses; nobody's symlink is followed."""

import os
import stat
from pathlib import Path

from app.embedded.account import ServerUnavailable, ServiceAccount

_OWNER_ONLY = 0o700


def open_private(path: Path, *, flags: int = os.O_RDWR) -> int:
    """A descriptor no child inherits; a new file belongs to whoever owns the directory, even if root makes it."""
    fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    directory = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(fd).st_uid != directory.st_uid:
        os.fchown(fd, directory.st_uid, directory.st_gid)
    return fd


def make_reachable(path: Path, *, account: ServiceAccount) -> None:
    """Make what is missing of `path`, passable for the account whatever our umask; what exists stays as it is."""
    mode = 0o755 if account.dropped else _OWNER_ONLY
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        each.chmod(mode)


def make_private(path: Path, *, account: ServiceAccount) -> None:
    """A directory for the account alone. Only its mode protects a server that trusts whoever connects."""
    path.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    # Also finishes the work of a process killed between mkdir and chown.
    if account.dropped and path.lstat().st_uid == os.geteuid():
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid:
        raise ServerUnavailable(
            f"{path} belongs to somebody else: remove it, or set DAIRA_DATA_DIR to another directory"
        )
    if stat.S_IMODE(found.st_mode) != _OWNER_ONLY:
        path.chmod(_OWNER_ONLY)
