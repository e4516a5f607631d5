"""A second S3, on loopback: SeaweedFS, which shares no line with ministack and knows whose keys it takes."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.support.environments import programs_of
from tests.support.ports import free_ports
from tests.support.valkey import DIE_WITH_PARENT

PACKAGES = Path(__file__).with_suffix(".txt")
PORTS = ["s3.port", "master.port", "volume.port", "filer.port", "admin.port"]

PATIENCE = 90
"""Seconds for a start on a busy machine; one or two on an idle one."""


class SeaweedFS:
    """One address for life, however often it is stopped and started; what it holds stays until it is closed.

    Start it from a thread that lives as long as the server shall.
    """

    def __init__(self, *, key_id: str, secret: str, certificate: Path | None = None) -> None:
        """Takes this one pair of credentials. With a certificate, which is followed by its key, it speaks TLS."""
        self._weed = programs_of(PACKAGES) / "weed"
        self._folder = Path(tempfile.mkdtemp(prefix="daira-seaweedfs-"))
        self._ports = dict(zip([*PORTS, *(f"{port}.grpc" for port in PORTS)], free_ports(2 * len(PORTS)), strict=True))
        self._credentials = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret}
        self._certificate = certificate
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._ports['s3.port']}"

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    DIE_WITH_PARENT,
                    str(os.getpid()),
                    str(self._weed),
                    *self._options(),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self._folder), **self._credentials},
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"SeaweedFS did not start:\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """At once: a clean end takes it many seconds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def _options(self) -> list[str]:
        options = {
            "dir": str(self._folder / "data"),
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "admin.ui": "false",
            "webdav": "false",
            "master.telemetry": "false",
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            # What is missing must not come to be by being asked for.
            "s3.autoCreateBucket": "false",
            "s3.iam": "false",
            # Each bucket takes some, and those of a removed one come back late: by the free space there may be three.
            "volume.max": "1000",
            **self._ports,
        }
        if self._certificate:
            options |= {"s3.cert.file": str(self._certificate), "s3.key.file": str(self._certificate)}
        (self._folder / "data").mkdir(exist_ok=True)
        return ["mini", *(f"-{name}={value}" for name, value in options.items())]

    def _answers(self) -> bool:
        """To strangers with 403, once it knows its own."""
        try:
            # Whose certificate it is does not matter here.
            answer = httpx.get(self.url, trust_env=False, timeout=5, verify=False)  # noqa: S501 - no more than a knock
            return answer.status_code == httpx.codes.FORBIDDEN
        except httpx.HTTPError:
            return False
