"""Daira as docs/deployment.md has it on machines of one's own: its commands and settings to the letter, on loopback."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import pgbouncer
from tests.support.deployments import DEPLOY
from tests.support.folders import open_folder
from tests.support.ministack import Ministack
from tests.support.ports import free_port
from tests.support.seaweedfs import SeaweedFS
from tests.support.service import answers, environment, install, wait_until
from tests.support.snippets import snippets
from tests.support.tcp_postgres import running_postgres
from tests.support.valkey import running_valkey

PAGE, TEST = "docs/deployment.md", "test_production_line.py"
BUCKET = "daira-documents"
BASH = ["/usr/bin/env", "bash", "-euo", "pipefail", "-c"]
STARTING = 120
"""Seconds that a process may take on a busy machine."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """One `daira serve`."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    def until_ready(self) -> None:
        ready = f"{self.url}/readyz"
        wait_until(lambda: self.process.poll() is not None or answers(ready, timeout=20), seconds=STARTING)
        assert self.process.poll() is None, self.log.read_text()


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where the servers run, and who asks them what."""

    folder: Path
    here: Mapping[str, str]
    """What stands for the addresses and the queue of the page."""
    admin_url: str
    processes: list[Serving] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """Of web and workers alike."""
        lines = [line.partition("=") for line in self._adapted(_snippets()[1]).splitlines()]
        return {name: value for name, _, value in lines}

    def set_up(self) -> None:
        """Roles and schema, and the file of settings."""
        self._shell(self._adapted(_snippets()[0]))
        (self.folder / "daira.env").write_text(self._adapted(_snippets()[1]))

    def run(self, command: str, *, tenant: str = "acme") -> str:
        """A command of the page, with the settings of web and workers; what it prints."""
        sourcing, *commands = _snippets()[2].splitlines()
        assert command in commands
        return self._shell(f"{sourcing}\n{command.replace('acme', tenant)}")

    def serve_all(self) -> list[Serving]:
        """What the page starts, in its order, each on a free port."""
        sourcing, *commands = _snippets()[2].splitlines()
        return [self._serve(f"{sourcing}\n{command}") for command in commands if command.endswith("daira serve")]

    def _serve(self, code: str) -> Serving:
        port = free_port()
        code = re.sub(r"DAIRA_PORT=\d+ daira", f"DAIRA_PORT={port} exec daira", code)
        log = self.folder / f"{port}.log"
        with log.open("wb") as out:
            process = subprocess.Popen([*BASH, code], cwd=self.folder, env=self._environment(), stderr=out)
        self.processes.append(Serving(process=process, port=port, log=log))
        return self.processes[-1]

    def make_bucket(self) -> None:
        """As compose makes its own."""
        told = self.settings | {"AWS_DEFAULT_REGION": self.settings["DAIRA_AWS_REGION"]}
        self._shell(shlex.join([sys.executable, str(DEPLOY / "compose" / "bucket.py"), BUCKET]), **told)

    def stop(self) -> None:
        for each in self.processes:
            each.process.kill()
            each.process.wait()

    def _adapted(self, code: str) -> str:
        for there, replaced in self.here.items():
            code = code.replace(there, replaced)
        return code

    def _shell(self, code: str, **settings: str) -> str:
        ours = self._environment() | settings
        done = subprocess.run(
            [*BASH, code], cwd=self.folder, env=ours, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """No setting at all, neither of whoever runs the tests nor of other tests, and no credentials."""
        ours = environment()
        kept = {name: value for name, value in ours.items() if not name.startswith(("DAIRA_", "AWS_"))}
        return kept | {"PATH": f"{self.folder}:{ours['PATH']}"}


@contextmanager
def site(queue: str) -> Iterator[Site]:
    """All servers, with nothing in them yet but the bucket."""
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        install(folder)
        postgres = stack.enter_context(running_postgres(password="ADMIN_SECRET"))
        pooler = stack.enter_context(pgbouncer.deployed(postgres=postgres, users='"daira_app" "APP_SECRET"\n'))
        rang, endpoint = SERVERS[queue](stack)
        opened = Site(
            folder=folder,
            here={
                "@postgres:5432": f"@127.0.0.1:{postgres}",
                "@pgbouncer:6432": f"@127.0.0.1:{pooler}",
                "redis://valkey:6379/0": rang,
                "DAIRA_AWS_REGION=": f"DAIRA_AWS_ENDPOINT_URL={endpoint}\nDAIRA_AWS_REGION=",
            },
            admin_url=f"postgresql://postgres:ADMIN_SECRET@127.0.0.1:{postgres}/daira",
        )
        stack.callback(opened.stop)
        opened.make_bucket()
        yield opened


def _sqs(stack: ExitStack) -> tuple[str, str]:
    """One server for queue and bucket."""
    server = Ministack()
    stack.callback(server.close)
    server.start()
    return "sqs://daira", server.url


def _redis(stack: ExitStack) -> tuple[str, str]:
    """The bucket is on a server that knows whose keys it takes."""
    valkey = stack.enter_context(running_valkey())
    bucket = SeaweedFS(key_id="KEY_ID", secret="KEY_SECRET")
    stack.callback(bucket.close)
    bucket.start()
    return f"{valkey.url}/0", bucket.url


SERVERS = {"sqs": _sqs, "redis": _redis}


def _snippets() -> list[str]:
    """Of the page: roles and schema, settings, what is started."""
    found = [each.code for each in snippets(PAGE) if TEST in each.mark]
    assert len(found) == 3
    return found
