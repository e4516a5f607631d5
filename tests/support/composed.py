"""docker-compose.yml, run by podman-compose: the file as it is, but for what an old podman makes wrong of it."""

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.support.deployments import ROOT, compose, seconds
from tests.support.environments import programs_of
from tests.support.podman import Podman
from tests.support.service import wait_until

PACKAGES = Path(__file__).with_name("podman_compose.txt")
HEALTHY_WITHIN = 90
"""Seconds, on a busy machine."""


@dataclass(frozen=True, kw_only=True)
class Composed:
    podman: Podman
    file: Path
    env_file: Path
    project: str
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *services: str) -> None:
        for service in services:
            self._compose("up", "--detach", "--no-build", service)

    def start_all(self) -> None:
        """In the order and on the conditions that the file has."""
        self.start("postgres")
        self.until_healthy("postgres")
        for once in ("roles", "migrate"):
            self.start(once)
            assert self.ended(once) == 0, self.log(once)
        self.start("pgbouncer", "valkey")
        self.until_healthy("pgbouncer", "valkey")
        self._compose("up", "--detach", "--no-build", "--scale", "worker=2", "worker")
        self.start("web")
        self.until_healthy("web", "worker")

    def name(self, service: str, number: int = 1) -> str:
        return f"{self.project}_{service}_{number}"

    def execute(self, service: str, *command: str, number: int = 1) -> subprocess.CompletedProcess[str]:
        return self.podman.attempt("exec", self.name(service, number), *command, within=180)

    def python(self, service: str, program: str, *, number: int = 1) -> str:
        done = self.execute(service, "python", "-c", program, number=number)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def until_healthy(self, *services: str) -> None:
        """By the commands that Docker would run: podman needs systemd for that."""
        for service in services:
            try:
                wait_until(partial(self._is_healthy, service, self._health(service)), seconds=HEALTHY_WITHIN)
            except AssertionError:
                raise AssertionError(f"{service} is not healthy: {self.log(service)}") from None

    def stop(self, service: str, *, number: int = 1) -> int:
        """SIGTERM, and what it ends with; 137 where it had to be killed."""
        name = self.name(service, number)
        self.podman("stop", f"--time={seconds(compose()['services'][service]['stop_grace_period'])}", name)
        return int(self.podman("inspect", "--format", "{{.State.ExitCode}}", name))

    def ended(self, service: str, *, number: int = 1) -> int:
        return int(self.podman("wait", self.name(service, number), within=120))

    def log(self, service: str, number: int = 1) -> str:
        done = self.podman.attempt("logs", "--tail", "30", self.name(service, number))
        return done.stdout + done.stderr

    def _is_healthy(self, service: str, command: list[str]) -> bool:
        return self.execute(service, *command).returncode == 0

    def _health(self, service: str) -> list[str]:
        told: list[str] = compose()["services"][service].get("healthcheck", {}).get("test", [])
        if not told:
            image = self.podman("inspect", "--format", "{{json .Config.Healthcheck.Test}}", self.name(service))
            told = yaml.safe_load(image)
        kind, *command = told
        assert kind == "CMD"
        return command

    def _compose(self, *arguments: str) -> None:
        command = [
            *(str(programs_of(PACKAGES) / "podman-compose"), "--podman-path", self.podman.program),
            *("--env-file", str(self.env_file), "-p", self.project, "-f", str(self.file), *arguments),
        ]
        done = subprocess.run(
            command, env=self.podman.environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, f"{shlex.join(command)}:\n{done.stdout}\n{done.stderr[-3000:]}"

    def remove(self) -> None:
        # It forgets all but the first of a service that was scaled.
        ours = f"label=io.podman.compose.project={self.project}"
        left = self.podman("ps", "--all", "--quiet", "--filter", ours).split()
        self.podman("rm", "--force", "--time=5", *left, within=180)
        self._compose("down", "--volumes")


@contextmanager
def composed(podman: Podman, folder: Path, *, port: int, **more: str) -> Iterator[Composed]:
    """`cp .env.example .env`, with so much more in it, and `docker compose up`, with nothing started yet."""
    env_file, file = folder / ".env", folder / "docker-compose.yml"
    lines = [f"{name}={value}" for name, value in {"WEB_PORT": str(port), **more}.items()]
    env_file.write_text((ROOT / ".env.example").read_text() + "\n".join(["", *lines, ""]))
    file.write_text(yaml.safe_dump(_adapted(env_file)))
    running = Composed(podman=podman, file=file, env_file=env_file, project=f"daira-test-{int(time.time())}", port=port)
    try:
        yield running
    finally:
        running.remove()


def _adapted(env_file: Path) -> dict[str, Any]:
    """podman 4 takes `depends_on` for something else, and paths are relative to the file."""
    file = compose()
    for service in file["services"].values():
        service.pop("depends_on", None)
        service.pop("build", None)
        if "env_file" in service:
            service["env_file"] = [str(env_file)]
        service["volumes"] = [volume.replace("./", f"{ROOT}/", 1) for volume in service.get("volumes", [])]
    return {"services": file["services"], "volumes": file["volumes"]}
