"""The command line and the client in odd hands: no traceback, no misleading word, nothing cut off."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
import typer
from rich.table import Table
from typing_extensions import override

from app.__main__ import main
from app.cli import addresses, tables
from app.client.client import Client
from app.client.faults import ApiFault
from app.client.retries import NO_RETRIES
from app.domain.errors import NotFound
from tests.support.service import command, environment

HIT = {"filename": "🦊.pdf", "page": 1, "snippet": "fox", "rank": 1.0}


class Fox(BaseHTTPRequestHandler):
    """Whatever is asked, one page is found."""

    def do_GET(self) -> None:
        body = json.dumps({"data": [HIT], "next_cursor": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Fox) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def ran(url: str, *arguments: str, streams: str = "", folder: Path, **settings: str) -> tuple[int, str, str]:
    """Exit status, and what was printed to both; `streams` as a shell has it."""
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {streams}', "sh", *command(*arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(DAIRA_URL=url, DAIRA_API_KEY="daira_x_y", **settings),
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("arguments", "streams", "said"),
    [
        (["upload", "missing.pdf"], ">&-", "missing.pdf: No such file or directory\n"),
        (["upload", "-"], "<&-", "standard input: the file is empty\n"),
        (["upload", "-"], ">&- <&-", "standard input: the file is empty\n"),
    ],
)
def test_a_closed_stream_ends_in_no_traceback(
    url: str, tmp_path: Path, *, arguments: list[str], streams: str, said: str
) -> None:
    assert ran(url, *arguments, streams=streams, folder=tmp_path) == (1, "", said)


def test_what_an_encoding_does_not_have_is_not_blamed_on_the_address(url: str, tmp_path: Path) -> None:
    status, _, errors = ran(url, "search", "fox", folder=tmp_path, PYTHONIOENCODING="latin-1")
    assert (status, "PYTHONIOENCODING=utf-8" in errors, "DAIRA_URL" in errors) == (2, True, False)


def test_an_argument_that_is_no_text_is_not_blamed_on_the_address(url: str, tmp_path: Path) -> None:
    status, _, errors = ran(url, "search", os.fsdecode(b"\xff"), folder=tmp_path)
    assert (status, errors) == (2, "daira: an argument is not in UTF-8\n")


class Interrupted:
    """Ctrl-C, while the program is still being read."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "app.cli.program":
            raise KeyboardInterrupt


def test_ctrl_c_while_the_program_is_being_read_ends_in_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.cli.program", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


@pytest.mark.parametrize("command_", ["usage", "backlog"])
def test_settings_in_another_encoding_end_in_no_traceback(url: str, tmp_path: Path, command_: str) -> None:
    (tmp_path / ".env").write_bytes("DAIRA_BLOB_URL=file:///Bücher".encode("latin-1"))
    status, _, errors = ran(url, command_, folder=tmp_path)
    assert (status, errors.count("\n")) == (2, 1)
    assert ".env, is not in UTF-8" in errors


@pytest.mark.parametrize("left", ["[]", "{}", "null", '"x"', '{"url": "http://daira.example"}', "{", "\xff"])
def test_what_up_has_not_left_so_is_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    for name in ("DAIRA_URL", "DAIRA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "dev.json").write_text(left, encoding="latin-1")
    with pytest.raises(NotFound, match="start one"):
        addresses.find(url=None, api_key=None, data_dir=tmp_path)


@pytest.mark.parametrize("url", ["daira.example", "ftp://daira.example", "http://", "http://[::1", "http://xn--/"])
def test_an_address_that_is_none_is_wrong_usage(url: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no address"):
        addresses.find(url=url, api_key="daira_x_y", data_dir=None)


@pytest.mark.parametrize("key", ["daira_x_sec\nret", "daira_x_secretü", "daira_x_sec\x00ret"])
def test_a_key_that_no_header_can_hold_is_wrong_usage_and_not_shown(key: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        addresses.find(url="http://daira.example", api_key=key, data_dir=None)
    assert "sec" not in str(refused.value)


def test_line_ends_around_address_and_key_do_no_harm() -> None:
    found = addresses.find(url="http://daira.example/\r\n", api_key="daira_x_y\r\n", data_dir=None)
    assert found == addresses.ServiceAddress("http://daira.example", "daira_x_y")


@pytest.mark.parametrize(
    "body",
    ["<html>Sign in to the network</html>", "", "null", '["a"]', "[" * 100_000],
    ids=["a page", "nothing", "null", "a list", "a deep one"],
)
def test_another_server_is_told_apart_from_the_service(body: str) -> None:
    answering = httpx.MockTransport(lambda _: httpx.Response(200, text=body))
    with Client("http://elsewhere", "daira_x_y", patience=NO_RETRIES, transport=answering) as client:
        for ask in (client.me, lambda: list(client.jobs()), lambda: client.upload(b"x", filename="x.txt")):
            with pytest.raises(ApiFault, match="not Daira's: is http://elsewhere"):
                ask()


def test_a_listing_of_another_server_is_told_apart() -> None:
    answering = httpx.MockTransport(lambda _: httpx.Response(200, json={"object": "list", "data": []}))
    with (
        Client("http://elsewhere", "daira_x_y", patience=NO_RETRIES, transport=answering) as client,
        pytest.raises(ApiFault, match="not Daira's"),
    ):
        list(client.jobs())


@pytest.mark.parametrize("what", ["content", "text", "searchable.pdf"])
def test_a_page_of_another_server_is_not_downloaded_as_a_document(what: str) -> None:
    answering = httpx.MockTransport(lambda _: httpx.Response(200, html="<html>Sign in to the network</html>"))
    with (
        Client("http://elsewhere", "daira_x_y", patience=NO_RETRIES, transport=answering) as client,
        pytest.raises(ApiFault, match="not Daira's"),
        client.download("an-id", what),
    ):
        pass


@pytest.mark.parametrize("columns", ["0", "20", "80"])
def test_a_table_in_a_pipe_is_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert not sys.stdout.isatty()
    table = Table("scopes")
    table.add_row("documents:read documents:write " * 10)
    tables.console().print(table)
    assert "documents:read documents:write " * 9 in capsys.readouterr().out
