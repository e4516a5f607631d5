"""Defaults of the login or the database that statements are not written for: uploads work, or doctor says why not."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.adapters.postgres.engine import administer
from tests.support.databases import Cloned
from tests.support.pdfs import Leaf, line
from tests.support.pdfs import document as pdf
from tests.support.service import ended, run, serving, upload

HARMLESS = {
    "search_path": "pg_catalog",
    "TimeZone": "'Asia/Kathmandu'",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "row_security": "off",
    "client_encoding": "LATIN1",
    "extra_float_digits": "-15",
    "lock_timeout": "'5s'",
    "statement_timeout": "'5s'",
    "default_transaction_deferrable": "on",
    "plan_cache_mode": "force_generic_plan",
    "check_function_bodies": "off",
}


@pytest.mark.parametrize("setting", [*HARMLESS, "repeatable read"])
async def test_an_upload_becomes_text_whatever_the_session_begins_with(
    cloned: Cloned, folder: Path, setting: str
) -> None:
    name, value = (
        (setting, HARMLESS[setting]) if setting in HARMLESS else ("default_transaction_isolation", f"'{setting}'")
    )
    await _set(cloned, name, value)
    with serving(cloned, folder, DAIRA_ROLE="all") as service, service.client() as client:
        document = upload(client, pdf(Leaf(content=line("Kept as it was"))))
        assert ended(client, document["jobs"][0])["state"] == "done"
        assert "Kept as it was" in client.get(f"/v1/documents/{document['id']}/text").text


NAMED = {
    "default_transaction_read_only": "on",
    "statement_timeout": "'200ms'",
    "lock_timeout": "'10ms'",
    "idle_in_transaction_session_timeout": "'20ms'",
}


@pytest.mark.parametrize("setting", NAMED)
async def test_doctor_names_what_no_session_can_work_with(cloned: Cloned, folder: Path, setting: str) -> None:
    await _set(cloned, setting, NAMED[setting])
    doctor = run("doctor", cwd=folder, DAIRA_DATABASE_URL=cloned.app_url, DAIRA_BLOB_URL=f"file://{folder}/blobs")
    assert doctor.returncode == 1
    assert setting in doctor.stdout


async def _set(cloned: Cloned, name: str, value: str) -> None:
    database = urlsplit(cloned.app_url).path.lstrip("/")
    async with administer(cloned.admin_url) as admin:
        await admin.execute(f"alter role daira_app in database {database} set {name} = {value}")
