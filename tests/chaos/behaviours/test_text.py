"""Text that a database or an encoder can't hold: refused where users send it, scrubbed where documents do (T22)."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.domain.jobs import Job, JobState
from app.domain.text import ERROR_LIMIT
from tests.chaos.behaviours.environment import NO_SETTINGS, Environment, open_environment
from tests.chaos.behaviours.processes import Worker
from tests.chaos.behaviours.scenarios import side_by_side
from tests.support.databases import Databases
from tests.support.sample_documents import Sheet, pdf

KEPT = "😀👩‍👩‍👧 שלום עולم مرحبا \u202eabc\u202c 𝔘𝔫𝔦 \u0301e\uffff\U0010ffff"
"""Four bytes each, joined, right to left, overridden, combining, and at the ends of the planes."""

MEGABYTE = 1_000_000


class Door:
    """The API of one process that serves and works."""

    def __init__(self, environment: Environment, process: Worker, key: str) -> None:
        self._played, self._process, self._key = environment, process, key

    async def upload(self, *, content: bytes | None = None, **fields: str | bytes) -> httpx.Response:
        content = pdf(Sheet(lines=("A page",))) if content is None else content
        files: Any = {"file": ("letter.pdf", content)} | {name: (None, value) for name, value in fields.items()}
        return await self._process.post("/v1/documents", key=self._key, files=files)

    async def request(self, document: str, body: bytes) -> httpx.Response:
        return await self._process.post(f"/v1/documents/{document}/jobs", key=self._key, content=body)

    async def read(self, path: str) -> httpx.Response:
        return await self._process.get(path, key=self._key)


@asynccontextmanager
async def door(
    databases: Databases, settings: Mapping[str, str] = NO_SETTINGS
) -> AsyncIterator[tuple[Environment, Door]]:
    async with open_environment(databases, {"DAIRA_ROLE": "all", **settings}) as environment:
        (process,) = await environment.work()
        yield environment, Door(environment, process, await environment.key())


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@side_by_side
async def test_t22_input_that_can_not_be_stored_is_refused_with_422(databases: Databases) -> None:
    async with door(databases) as (environment, api):
        for metadata in (
            '{"a": "\\u0000"}',
            '{"\\u0000": 1}',
            '{"a": "b\x00c"}',
            '{"a": "\\ud800"}',
            '{"\\udc00": 1}',
            '{"a": "\\ude00\\ud83d"}',
            '{"a": NaN}',
            '{"a": 1e999}',
            nested(2_000),
            "[" * 10_000,
        ):
            answer = await api.upload(metadata=metadata)
            assert answer.status_code == 422, (metadata[:40], answer.text)
            assert answer.json()["code"] == "invalid"
        assert (await api.upload(metadata=b'{"a": "\xff\xfe"}')).status_code == 422
        assert await environment.fetch("select count(*) from daira.documents") == 0
        document = (await api.upload()).json()["id"]
        for body in (nested(10_000), "[" * 10_000, '{"kind": "ocr\\u0000"}', '{"kind": "\\ud800"}', "\x00"):
            answer = await api.request(document, body.encode())
            assert answer.status_code == 422, (body[:40], answer.text)
        assert await environment.fetch("select count(*) from daira.jobs") == 1


@side_by_side
async def test_t22_ten_megabytes_where_none_are_expected_are_refused_with_413(databases: Databases) -> None:
    async with door(databases, {"DAIRA_MAX_UPLOAD_BYTES": str(MEGABYTE)}) as (environment, api):
        long = json.dumps({"a": "x" * 10 * MEGABYTE})
        assert (await api.upload(metadata=long)).status_code == 413
        assert (await api.upload(content=b"%PDF-1.7" + b"x" * 10 * MEGABYTE)).status_code == 413
        document = (await api.upload()).json()["id"]
        assert (await api.request(document, long.encode())).status_code == 413
        assert await environment.fetch("select count(*) from daira.documents") == 1


@side_by_side
async def test_t22_text_of_every_plane_and_direction_comes_back_byte_by_byte(databases: Databases) -> None:
    async with door(databases) as (environment, api):
        answer = await api.upload(metadata=json.dumps({KEPT: [KEPT]}))
        assert answer.status_code == 202, answer.text
        document = (await api.read(f"/v1/documents/{answer.json()['id']}")).json()
        assert document["metadata"] == {KEPT: [KEPT]}
        job = await environment.submit(payload={"do": "result", "text": KEPT})
        await environment.done(job, within=20)
        assert (await api.read(f"/v1/jobs/{job.id}")).json()["result"] == {"attempt": 1, "text": KEPT}
        failing = await environment.submit(payload={"do": "raise", "text": KEPT}, max_attempts=1)
        await environment.ended(failing, within=20)
        # What an exception says is the log's.
        assert KEPT not in (await api.read(f"/v1/jobs/{failing.id}")).text


HOSTILE = {"a\\u0000b": "ab", "a\\ud800b": "ab", "\\ud83d\\ude00": "😀", "\\ude00\\ud83d\\u0000": "", "\\u0000": ""}
"""As a handler comes by it, in JSON's words, and what is left of it."""


def _each(do: str) -> Iterator[tuple[dict[str, Any], str]]:
    for escaped, scrubbed in HOSTILE.items():
        yield {"do": do, "escaped": escaped}, scrubbed


@side_by_side
async def test_t22_a_handlers_output_is_scrubbed_and_its_job_ends(databases: Databases) -> None:
    async with door(databases) as (environment, api):
        for payload, scrubbed in _each("result"):
            job = await environment.submit(payload=payload)
            await environment.done(job, within=20)
            body = (await api.read(f"/v1/jobs/{job.id}")).json()
            assert body["result"] == {"attempt": 1, "text": scrubbed}


@side_by_side
async def test_t22_a_handlers_error_is_scrubbed_and_cut_and_its_job_ends(databases: Databases) -> None:
    async with door(databases) as (environment, api):
        for payload, scrubbed in _each("raise"):
            failed = await _failed(environment, payload)
            body = (await api.read(f"/v1/jobs/{failed.id}")).json()
            assert body["error"]["code"] == "internal"
            assert failed.id.hex in body["error"]["message"].replace("-", "")
            assert not scrubbed or scrubbed not in body["error"]["message"].split(":")
            assert body["history"][0]["error"] == body["error"]
        long = await _failed(environment, {"do": "raise", "escaped": "\\ud83d\\ude00\\u0000", "copies": MEGABYTE // 2})
        assert long.error is not None
        assert "😀" not in long.error.message
        assert len(long.error.message) < ERROR_LIMIT


async def _failed(environment: Environment, payload: dict[str, Any]) -> Job:
    job = await environment.submit(payload=payload, max_attempts=1)
    ended = await environment.ended(job, within=20)
    assert (ended.state, ended.attempts, ended.failures) == (JobState.FAILED, 1, 1)
    return ended
