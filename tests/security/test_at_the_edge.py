"""Threats of docs/threats.md that are met at the edge: hostile requests, and what the service tells of its inside."""

import ast
import asyncio
import gzip
import io
import json
import socket
import zipfile
from collections.abc import AsyncIterator, Iterator
from itertools import product
from pathlib import Path

import pytest
import structlog
from sqlalchemy import text

from app.adapters.postgres.engine import PostgresEngine
from app.domain.documents import blob_key
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.pages import Page
from app.services.documents import DocumentService
from app.services.outputs import OutputService
from app.telemetry import set_up_logging
from tests.security.tenant_fixtures import InProcessService, in_process_service, new_app
from tests.support.databases import Cloned
from tests.unit.served import END, Served, part, served

APP = Path(__file__).parents[2] / "app"

MARK = "planted-4f1c"
"""In all that a tenant sends, and nowhere else."""


@pytest.fixture
async def web() -> AsyncIterator[Served]:
    async with served() as web:
        yield web


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream, before = io.StringIO(), structlog.get_config()
    set_up_logging(level="debug", human=False, stream=stream)
    # Else a logger keeps the stream of the first test that makes it speak.
    structlog.configure(cache_logger_on_first_use=False)
    yield stream
    structlog.configure(**before)


HOSTILE = [
    "' or 1=1 --",
    "'; select set_config('app.tenant_id', 'acme', true); --",
    "id desc; drop table daira.jobs",
    "$.** ? (@ like_regex '.*')",
    "%' union select secret_sha256::text from daira.api_keys --",
    "\\",
    "%",
    "_",
]


@pytest.mark.threat(42)
async def test_threat_42_filters_take_text_as_text(cloned: Cloned) -> None:
    """Refused, or text that no name contains: never an error of the database, and never more than without a filter."""
    names = ("filename", "kind", "status", "state", "cursor", "document_id", "limit", "sort", "order")
    async with in_process_service(cloned, new_app()) as service:
        for tenant in ("acme", "globex"):
            await service.add_fixtures(await service.rig.tenant(tenant))
        headers = {"Authorization": f"Bearer {await service.key(TenantId('globex'))}"}
        for hostile, name in product(HOSTILE, names):
            for listing, most in (("documents", 1), ("jobs", 2)):
                answer = await service.client.get(f"/v1/{listing}", params={name: hostile}, headers=headers)
                assert answer.status_code in {200, 422}, (listing, name, hostile)
                assert len(answer.json().get("data", [])) <= most
                assert name != "filename" or listing != "documents" or answer.json()["data"] == []


def bombs() -> dict[str, bytes]:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../etc/passwd", bytes(10_000_000))
        archive.writestr("letter.pdf", b"%PDF-1.7")
    return {
        "zip": zipped.getvalue(),
        "gzip": gzip.compress(b"%PDF-1.7" + bytes(10_000_000)),
        "7z": b"7z\xbc\xaf\x27\x1c" + bytes(64),
        "tar": b"letter.pdf" + bytes(502) + bytes(1024),
        "xz": b"\xfd7zXZ\x00" + bytes(64),
    }


@pytest.mark.threat(51)
@pytest.mark.parametrize("kind", ["zip", "gzip", "7z", "tar", "xz"])
async def test_threat_51_archives_are_refused_unopened(web: Served, kind: str) -> None:
    answer = await web.form(part("file", bombs()[kind], filename="letter.pdf") + END)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert web.blobs == []


@pytest.mark.threat(51)
async def test_threat_51_a_compressed_body_is_not_unpacked(web: Served) -> None:
    body = gzip.compress(part("file", b"%PDF-1.7" + bytes(5_000_000), filename="a.pdf") + END)
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Content-Encoding": "gzip"}
    answer = await web.client.post("/v1/documents", content=body, headers=headers)
    assert answer.status_code == 422
    assert web.blobs == []


@pytest.mark.threat(55)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.png", b"MZ\x90\x00" + bytes(200)),
        ("a.jpg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        ("a.tiff", b"%!PS-Adobe-3.0 EPSF-3.0\n"),
        ("a.pdf", b"\x7fELF" + bytes(200)),
        ("a.webp", b"RIFF\x00\x00\x00\x00WAVE"),
    ],
)
async def test_threat_55_a_name_does_not_make_a_type(web: Served, name: str, content: bytes) -> None:
    answer = await web.form(part("file", content, filename=name) + END)
    assert answer.status_code == 415
    assert web.blobs == []


@pytest.mark.threat(61)
async def test_threat_61_bytes_exchanged_after_the_upload_are_not_read() -> None:
    async with served() as web:
        document = await web.uploaded()
        key = blob_key(TenantId("acme"), DocumentId(document["id"]))
        (stored,) = web.blobs
        assert stored.endswith(str(document["id"])), key

        async def others() -> AsyncIterator[bytes]:
            yield b"%PDF-1.7 of somebody else"

        await web.runtime.uploads.blobs.put(stored, others())
        await web.read(document)
        job = (await web.client.get(f"/v1/jobs/{document['jobs'][0]['id']}")).json()
        assert (job["state"], job["error"]["code"]) == ("failed", "corrupt")


def told(lines: io.StringIO) -> list[dict[str, object]]:
    """Each line as what it must be: one event."""
    return [json.loads(line) for line in lines.getvalue().splitlines()]


FORGED = '\r\n{"event": "tenant_removed", "level": "info"}\r\n\x1b[2J\x1b]0;owned\x07\u2028\u202e'


@pytest.mark.threat(68)
async def test_threat_68_nothing_that_is_sent_begins_a_line_of_the_log(web: Served, lines: io.StringIO) -> None:
    file = (FORGED + ".pdf", b"%PDF-1.7 " + uuid7().hex.encode())
    metadata = json.dumps({FORGED: FORGED})
    answers = [
        await web.client.post("/v1/documents", files={"file": file}, data={"metadata": metadata}),
        await web.client.get("/v1/documents", params={"filename": FORGED, "cursor": FORGED}),
        await web.client.get("/v1/jobs/" + "%0d%0a%7b%22event%22%3a1%7d%1b[2J"),
        await web.client.get("/nothing/%0d%0aevent"),
        await web.client.request("GET\tX", "/v1/jobs"),
        await web.client.get("/v1/jobs", headers={"X-Request-ID": "x{}\x1b".replace("\x1b", "%1b") + " y"}),
        await web.client.get("/v1/jobs", headers={"User-Agent": "\x1b[2J", "Referer": "{}"}),
    ]
    events = told(lines)
    assert [event["event"] for event in events].count("request_answered") == len(answers)
    assert "tenant_removed" not in {event["event"] for event in events}
    assert not any(mark in lines.getvalue() for mark in ("\x1b", "\u2028", "\u202e", "\x07"))


async def _violates_a_key(engine: PostgresEngine) -> None:
    for _ in range(2):
        async with engine.begin() as connection:
            await connection.execute(text("select set_config('app.tenant_id', 'acme', true)"))
            await connection.execute(
                text("insert into daira.idempotency_keys (tenant_id, key, fingerprint) values ('acme', :key, '')"),
                {"key": MARK},
            )


async def _violates_a_check(engine: PostgresEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("select set_config('app.tenant_id', 'acme', true)"))
        await connection.execute(
            text("insert into daira.jobs (tenant_id, id, kind, dedup_key) values ('acme', :id, 'ocr', :key)"),
            {"id": uuid7(), "key": MARK * 100},
        )


async def _takes_too_long(engine: PostgresEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("set local statement_timeout = 20"))
        await connection.execute(text("select pg_sleep(5), :mark"), {"mark": MARK})


async def _is_not_allowed(engine: PostgresEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("insert into daira.tenants (tenant_id) values (:mark)"), {"mark": MARK})


@pytest.mark.threat(69, 70)
@pytest.mark.parametrize("fails", [_violates_a_key, _violates_a_check, _takes_too_long, _is_not_allowed])
async def test_threat_70_an_error_of_the_database_tells_nothing_of_the_inside(
    cloned: Cloned, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch, fails: object
) -> None:
    async with in_process_service(cloned, new_app()) as service:
        headers = {"Authorization": f"Bearer {await _acme(service)}"}
        engine = service.rig.database._engine  # type: ignore[attr-defined]

        async def newest(*_: object, **__: object) -> list[object]:
            await fails(engine)  # type: ignore[operator]
            return []

        monkeypatch.setattr(DocumentService, "newest", newest)
        answer = await service.client.get("/v1/documents", headers=headers)
    assert answer.status_code in {500, 503}
    assert set(answer.json()) == {"type", "title", "status", "detail", "code", "request_id"}
    for inside in ("daira.", "insert", "constraint", "asyncpg", "sqlalchemy", "acme", MARK, "statement"):
        assert inside not in answer.text.lower()
    assert MARK not in lines.getvalue()


async def _acme(service: InProcessService) -> str:
    return await service.key(await service.rig.tenant("acme"))


@pytest.mark.threat(69)
async def test_threat_69_nothing_of_a_tenants_content_or_key_is_in_logs_or_metrics(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object, **__: object) -> list[Page]:
        raise RuntimeError("the store is broken")

    async with served() as web:
        key = web.client.headers["Authorization"].rpartition("_")[2]
        file = (f"{MARK}.pdf", b"%PDF-1.7 " + MARK.encode())
        document = (
            await web.client.post("/v1/documents", files={"file": file}, data={"metadata": json.dumps({MARK: MARK})})
        ).json()
        await web.read(document)
        for wrong in (f"daira_acme_{MARK}", f"daira_{MARK}_{MARK}", MARK):
            await web.client.get("/v1/jobs", headers={"Authorization": f"Bearer {wrong}"})
        await web.client.get("/v1/documents", params={"filename": MARK, "cursor": MARK, "status": MARK})
        await web.client.get(f"/{MARK}")
        await web.client.post("/v1/documents", files={"file": (MARK, MARK.encode())}, data={"jobs": MARK})
        monkeypatch.setattr(OutputService, "read_document", breaks)
        assert (await web.client.get(f"/v1/documents/{document['id']}/pages")).status_code == 500
        metrics = (await web.client.get("/metrics")).text
    written = lines.getvalue()
    assert "request_failed" in written
    assert "the store is broken" in written
    for secret in (MARK, key):
        assert secret not in written
        assert secret not in metrics


@pytest.mark.threat(48)
@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 20000000"])
async def test_threat_48_a_body_over_the_limit_is_answered_before_it_is_sent(length: str) -> None:
    from tests.security.test_slow_clients import listening

    async with listening(max_upload_bytes=100_000) as service:
        form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7 ' + b"x" * 150_000
        sent = form if length.startswith("Content") else b"%x\r\n%b\r\n" % (len(form), form)
        reader, writer = await service.connect(
            "POST /v1/documents HTTP/1.1\r\nHost: daira\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            f"Authorization: Bearer {service.key}\r\n{length}\r\n\r\n"
        )
        writer.write(sent)
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()
        blobs = service.runtime.uploads.blobs
        assert list(blobs._blobs) == []  # type: ignore[attr-defined]


@pytest.mark.threat(48)
async def test_threat_48_a_body_shorter_than_it_said_leaves_nothing() -> None:
    from tests.security.test_slow_clients import listening

    async with listening() as service:
        reader, writer = await service.connect(
            "POST /v1/documents HTTP/1.1\r\nHost: daira\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            f"Authorization: Bearer {service.key}\r\nContent-Length: 5000\r\n\r\n"
            '--x\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7 '
        )
        await writer.drain()
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
        async with asyncio.timeout(20):
            await reader.read()
        writer.close()
        blobs = service.runtime.uploads.blobs
        assert list(blobs._blobs) == []  # type: ignore[attr-defined]


ASKS = {"text", "execute", "call", "fetch", "fetchval", "fetchrow"}

PUT_TOGETHER = {"migrations.py", "roles.py", "wall.py"}
"""Names of roles, databases and tables, quoted or from the catalogue; no value of anybody's."""


def statements(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ASKS:
                yield node.args[0]


def is_fixed(statement: ast.expr) -> bool:
    """A literal, a name, made of literals and of a module's constants; or of SQLAlchemy's parts, which part values."""
    match statement:
        case ast.Constant() | ast.Name() | ast.Attribute():
            return True
        case ast.JoinedStr(values=parts):
            return all(isinstance(part, ast.Constant) or _names_a_constant(part) for part in parts)
        case ast.Call(func=function):
            return not (isinstance(function, ast.Attribute) and function.attr in {"format", "join", "replace", "lower"})
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return is_fixed(left) and is_fixed(right)
        case _:
            return False


def _names_a_constant(part: ast.expr) -> bool:
    return isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id.isupper()


@pytest.mark.threat(80)
def test_threat_80_no_statement_is_put_together_from_values() -> None:
    files = [path for path in (APP / "adapters" / "postgres").glob("*.py") if path.name not in PUT_TOGETHER]
    found = {path.name: list(statements(ast.parse(path.read_text()))) for path in files}
    assert sum(map(len, found.values())) > 30
    loose = {name: [ast.unparse(each) for each in asked if not is_fixed(each)] for name, asked in found.items()}
    assert {name: asked for name, asked in loose.items() if asked} == {}
    for bad in ("f'select {name}'", "'select %s' % name", "'select {}'.format(name)", "'select ' + name.lower()"):
        assert not is_fixed(ast.parse(bad, mode="eval").body)


@pytest.mark.threat(14, 80)
def test_threat_80_the_clamp_is_set_in_one_place_and_for_a_transaction_alone() -> None:
    setting = [path.name for path in APP.rglob("*.py") if "set_config" in path.read_text()]
    assert setting == ["database.py"]
    assert "set_config('app.tenant_id', :tenant, true)" in (APP / "adapters/postgres/database.py").read_text()


@pytest.mark.threat(16)
def test_threat_16_no_connection_commits_by_itself() -> None:
    found = [
        path.name
        for path in APP.rglob("*.py")
        if "isolation_level" in (text := path.read_text().replace('isolation_level="READ COMMITTED"', ""))
        or "AUTOCOMMIT" in text
    ]
    assert found == []


@pytest.mark.threat(60)
def test_threat_60_no_url_is_presigned_and_no_object_opened_to_others() -> None:
    """Who may not ask the service for bytes gets them nowhere else: there is no other address that would give them."""
    words = ("presign", "ACL", "GrantRead", "put_bucket_policy", "put_public_access_block", "PostPolicy")
    texts = {path.name: path.read_text() for path in APP.rglob("*.py")}
    assert [name for name, text in texts.items() if any(word in text for word in words)] == []
