"""Images and containers by podman, in a store of their own; what no registry gives is made of Debian's packages."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.support.deployments import DEPLOY, ROOT

SUBSTITUTES = Path(__file__).parent / "substitute_images"
PULL_PATIENCE = 60
"""Seconds; without a registry it is told sooner."""

MINUTES = 60.0
DEBIAN = "trixie"

ENGINE = """
[containers]
# Those of whoever starts it: not everybody may raise them.
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
STORAGE = """
[storage]
driver = "overlay"
graphroot = "{home}/store"
runroot = "{home}/run"
"""


class Podman:
    """Needs root, and Debian's podman, runc, netavark, aardvark-dns, iptables and debootstrap."""

    def __init__(self) -> None:
        program = shutil.which("podman")
        assert program, "podman is missing: apt-get install podman runc netavark aardvark-dns iptables debootstrap"
        self.program = program
        self._home = Path(tempfile.gettempdir()) / f"daira-podman-{os.getuid()}"
        self._home.mkdir(mode=0o700, exist_ok=True)
        for name, text in {"containers": ENGINE, "storage": STORAGE}.items():
            (self._home / f"{name}.conf").write_text(text.format(home=self._home))

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "CONTAINERS_CONF": str(self._home / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self._home / "storage.conf"),
        }

    def attempt(self, *arguments: str, within: float = MINUTES) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    def __call__(self, *arguments: str, within: float = MINUTES) -> str:
        done = self.attempt(*arguments, within=within)
        assert done.returncode == 0, f"podman {' '.join(arguments)}:\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def build(self, tag: str, folder: Path, dockerfile: Path, **arguments: str) -> None:
        given = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        self(
            *("build", "--network=host", "--format=docker", "--tag", tag, "--file", str(dockerfile)),
            *(*_trusted(), *given, str(folder)),
            within=30 * MINUTES,
        )

    def images(self) -> None:
        """All that compose starts by default, and what the profile `aws` adds."""
        base = _argument(ROOT / "Dockerfile", "PYTHON_IMAGE")
        debian = _argument(DEPLOY / "compose" / "pgbouncer.Dockerfile", "DEBIAN_IMAGE")
        self._provide(base, self._bootstrapped)
        self._provide(debian, lambda tag: self("tag", base, tag))
        for name, image in {"postgres": "postgres:18-trixie", "valkey": "valkey/valkey:8-alpine"}.items():
            made_of = SUBSTITUTES / f"{name}.Dockerfile"
            self._provide(image, partial(self.build, folder=SUBSTITUTES, dockerfile=made_of, BASE=base))
        compose = DEPLOY / "compose"
        self.build("daira:local", ROOT, ROOT / "Dockerfile")
        self.build("daira-pgbouncer:local", compose, compose / "pgbouncer.Dockerfile")
        self.build("daira-aws:local", ROOT / "tests" / "support", compose / "aws.Dockerfile")

    def _provide(self, image: str, make: Callable[[str], object]) -> None:
        """Kept, pulled, or made under the same name."""
        tag = f"docker.io/{image if '/' in image else f'library/{image}'}"
        if self.attempt("image", "exists", tag).returncode == 0:
            return
        try:
            pulled = self.attempt("pull", "--quiet", tag, within=PULL_PATIENCE).returncode == 0
        except subprocess.TimeoutExpired:
            pulled = False
        if not pulled:
            make(tag)

    def _bootstrapped(self, tag: str) -> None:
        """Debian with its own Python, from where this machine has its packages."""
        root = self._home / "root"
        shutil.rmtree(root, ignore_errors=True)
        packages = "--include=ca-certificates,python3,python3-venv,python3-pip"
        _run("debootstrap", "--variant=minbase", packages, DEBIAN, str(root), _mirror())
        archive = self._home / "root.tar"
        _run("tar", "-C", str(root), "-cf", str(archive), ".")
        self("import", str(archive), tag, within=10 * MINUTES)
        shutil.rmtree(root)
        archive.unlink()


def _argument(dockerfile: Path, name: str) -> str:
    found = re.search(rf"^ARG {name}=(\S+)$", dockerfile.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _mirror() -> str:
    listed = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian")
    return listed.split()[0]


def _trusted() -> list[str]:
    """Certificates that this machine trusts beyond those that the image has."""
    bundle = os.environ.get("SSL_CERT_FILE", "")
    return [f"--volume={bundle}:{bundle}:ro", f"--env=PIP_CERT={bundle}"] if Path(bundle).is_file() else []


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20 * MINUTES, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr[-3000:]}"
    return done.stdout
