"""`daira up` for a newcomer's machine, `daira serve` for production."""

import asyncio
import fcntl
import json
import os
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
import uvicorn
import uvloop
from fastapi import FastAPI
from rich.console import Console
from typing_extensions import override

from app import local
from app.asgi import create_app
from app.cli.addresses import DEV_FILE
from app.domain.errors import Conflict, DairaError, Unavailable
from app.domain.keys import Scope
from app.guard import DEVELOPMENT_KEY, DEVELOPMENT_TENANT
from app.services.tenants import TenantService
from app.settings import Environment, Role, Settings, default_data_dir
from app.starting import end
from app.telemetry import logs_for_people, set_up_logging
from app.web.slow_clients import slow_client_protocol

log = structlog.get_logger()

HTTP_GRACE = 5
"""Seconds that open requests get when the server stops; a long poll is answered at once."""
ANOTHER_PORT = "set DAIRA_PORT to another port, or give `daira up` a --port"


def up(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="The port to listen on. Default: 8000, or any free port.", min=0, max=65535)
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder for all data.", file_okay=False)] = None,
) -> None:
    """Start everything on this machine without configuration. Ctrl-C stops it; documents stay.

    Starts an embedded Postgres (or uses DAIRA_DATABASE_URL), creates the tenant `dev` with a key,
    serves the API and runs jobs.
    """
    settings = Settings()
    if settings.env is Environment.PRODUCTION:
        raise Conflict(
            "DAIRA_ENV=production: `daira up` is for development and would make a tenant and a key in the database that"
            " DAIRA_DATABASE_URL names; start `daira serve`, or `env -u DAIRA_ENV -u DAIRA_DATABASE_URL daira up`"
        )
    folder = (data_dir or settings.data_dir).absolute()
    settings = settings.model_copy(
        update={"env": Environment.DEVELOPMENT, "role": Role.ALL, "host": host, "data_dir": folder}
    )
    set_up_logging(level="warning", human=True)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), _listening(host, port) as listener:
        _run(_up(settings, listener, program=context.find_root().info_name or "daira"))


def serve() -> None:
    """Start for production: read the settings from the environment, check them, then serve.

    DAIRA_ROLE is `web` (serves the API), `worker` (runs jobs) or `all`. Unsafe settings end it with status 78. A
    database, queue or blob store that can't be reached is waited for: /readyz names it. DAIRA_START_TIMEOUT ends the
    wait with status 75.
    """
    settings = Settings()
    set_up_logging(level=settings.log_level, human=logs_for_people(settings.log_format))
    with _listening(settings.host, settings.port) as listener:
        address = _shown(listener)

        async def ready() -> None:
            log.info("service_ready", role=settings.role, address=address)

        patience = settings.client_patience_seconds
        try:
            _run(_serve(create_app(settings), listener, ready=ready, patience=patience))
        except Exception as error:  # noqa: BLE001 - the end of the process, in the log's own form
            end(error)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """On the faster loop: a request takes a fifth less of the processor."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


async def _up(settings: Settings, listener: socket.socket, *, program: str) -> None:
    async with AsyncExitStack() as stack:
        with Console(stderr=True).status("Starting Postgres…"):
            settings = await stack.enter_async_context(local.with_database(settings))
            await local.bring_to_head(settings)
        dev_file = settings.data_dir / DEV_FILE
        stack.callback(dev_file.unlink, missing_ok=True)
        app = create_app(settings)

        async def ready() -> None:
            url = f"http://{_shown(listener)}"
            api_key = await _dev_key(app.state.runtime.tenants, kept=settings.data_dir / "dev-key")
            left = {
                "url": url,
                "tenant": DEVELOPMENT_TENANT,
                "api_key": api_key,
                "database_url": settings.database_url.get_secret_value(),
            }
            _write_private(dev_file, json.dumps(left))
            _announce(url, api_key, upload=f"{program} upload --wait document.pdf{_elsewhere(settings.data_dir)}")

        await _serve(app, listener, ready=ready, patience=settings.client_patience_seconds)


async def _serve(
    app: FastAPI, listener: socket.socket, *, ready: Callable[[], Awaitable[None]], patience: float
) -> None:
    server = _Server(app, ready=ready, patience=patience)
    await server.serve(sockets=[listener])
    if server.failure is not None:
        raise server.failure
    if not server.started:
        raise SystemExit(1)
    # There is no runtime where a stop came before anything could be reached.
    runtime = app.state.runtime
    if runtime is not None and runtime.worker is not None and runtime.worker.failure:
        # Not 0, which a supervisor may take for a wish to stop.
        raise SystemExit(os.EX_TEMPFAIL)


class _Server(uvicorn.Server):
    """Ends when the service does: `failure` is why."""

    def __init__(self, app: FastAPI, *, ready: Callable[[], Awaitable[None]], patience: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=slow_client_protocol(patience),
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=HTTP_GRACE,
                lifespan="on",
                ws="none",
            )
        )
        self._app = app
        self.failure: BaseException | None = None
        app.state.start.ready = ready
        app.state.start.failed = self._failed

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Being told to stop is a normal end: uvicorn's own form raises the signal again, past all clean-up."""
        loop = asyncio.get_running_loop()
        for told in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(told, self._told_to_stop, told)
        try:
            yield
        finally:
            for told in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(told)

    def _told_to_stop(self, told: signal.Signals) -> None:
        runtime = self._app.state.runtime
        if runtime is not None and not self.should_exit:
            runtime.stopping.set()
            log.warning("service_stopping", grace_seconds=runtime.settings.grace_seconds)
        self.handle_exit(told, None)

    def _failed(self, error: BaseException) -> None:
        self.failure = error
        self.should_exit = True


async def _dev_key(tenants: TenantService, *, kept: Path) -> str:
    """The same key with each start, so that what has it goes on working."""
    with suppress(Conflict):
        await tenants.create(DEVELOPMENT_TENANT)
    with suppress(DairaError, FileNotFoundError):
        key = kept.read_text().strip()  # noqa: ASYNC240 - a line, before anybody is served
        await tenants.authenticate(key)
        return key
    key = await tenants.issue_key(DEVELOPMENT_TENANT, name=DEVELOPMENT_KEY, scopes=frozenset({Scope.ADMIN}))
    _write_private(kept, key)
    return key


def _elsewhere(folder: Path) -> str:
    """The values by which other commands find this `up`."""
    return "" if folder == default_data_dir() else f" --data-dir {shlex.quote(str(folder))}"


def _announce(url: str, api_key: str, *, upload: str) -> None:
    console = Console()
    console.print(f"Daira is ready at [bold]{url}[/] (documentation: {url}/docs)", highlight=False, soft_wrap=True)
    console.print(f"API key: {api_key}", highlight=False, soft_wrap=True)
    console.print("Try:", highlight=False)
    print(f'  curl -H "Authorization: Bearer {api_key}" -F file=@document.pdf {url}/v1/documents')
    print(f"  {upload}", flush=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One `up` for a folder; the lock ends with the process, however that ends."""
    lock = os.open(folder / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another `daira up` runs on {folder}: stop it, or choose another --data-dir") from None
        (folder / DEV_FILE).unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


@contextmanager
def _listening(host: str, port: int | None) -> Iterator[socket.socket]:
    """Bound before anything is started: a port that is taken is told at once. Port None: 8000, or any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, 8000 if port is None else port))
        except OSError as error:
            if port is not None:
                raise Unavailable(f"can't listen on {host}:{port}: {error.strerror}; {ANOTHER_PORT}") from error
            listener.bind((host, 0))
        yield listener


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - an address to call, not to bind
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, and for the owner's eyes alone."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)
