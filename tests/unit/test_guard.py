"""The start-up guard: production refuses what would lose work or leak a tenant, and names all of it at once."""

from typing import Any

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from app import guard
from app.domain.errors import Misconfigured, Unavailable
from app.guard import EXIT_REFUSED, opened_checks, run_check, settings_faults
from app.settings import Environment, Role, Settings
from app.starting import refuse

SAFE: dict[str, Any] = {
    "env": Environment.PRODUCTION,
    "database_url": "postgresql://daira_app:s3cret@db.test/daira",
    "blob_url": "file:///srv/daira",
}
MEMORY: dict[str, Any] = {"database_url": "memory://", "queue_url": "memory://", "blob_url": "memory://"}


LLM: dict[str, Any] = {"llm_model": "small", "llm_api_key": "sk-s3cret"}


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, **SAFE | given)


def test_safe_settings_have_no_fault() -> None:
    assert settings_faults(settings()) == []
    assert settings_faults(settings(cors_origins=["https://a.test"])) == []
    assert settings_faults(settings(blob_url="s3://daira-documents/production")) == []


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"database_url": ""}, "DAIRA_DATABASE_URL is empty"),
        ({"queue_url": "memory://"}, "DAIRA_QUEUE_URL=memory://"),
        ({"blob_url": "memory://"}, "DAIRA_BLOB_URL=memory://"),
        ({"blob_url": ""}, "DAIRA_BLOB_URL is empty"),
        ({"debug": True}, "DAIRA_DEBUG=true"),
        ({"cors_origins": ["*"]}, "DAIRA_CORS_ORIGINS=*"),
        ({"cors_origins": ["https://a.test", "*"]}, "DAIRA_CORS_ORIGINS=*"),
        (LLM | {"llm_base_url": "http://llm.test/v1"}, "DAIRA_LLM_BASE_URL is not https"),
    ],
)
def test_an_unsafe_setting_is_named_alone(given: dict[str, Any], fault: str) -> None:
    (found,) = settings_faults(settings(**given))
    assert found.startswith(fault)


@pytest.mark.parametrize(
    "given",
    [
        {"llm_base_url": "https://llm.test/v1"},
        {"llm_base_url": "http://127.0.0.1:11434/v1"},
        {"llm_base_url": "http://[::1]:11434/v1"},
        {"llm_base_url": "http://localhost:11434/v1"},
        {"llm_base_url": "http://vllm:8000/v1", "llm_api_key": ""},
    ],
)
def test_a_model_server_that_sees_no_key_or_that_nobody_sits_before_is_no_fault(given: dict[str, Any]) -> None:
    assert settings_faults(settings(**LLM | given)) == []


@pytest.mark.threat(72, 73)
def test_all_unsafe_settings_are_named_at_once() -> None:
    found = settings_faults(settings(**MEMORY, debug=True, cors_origins=["*"]))
    assert len(found) == 5
    for name in ("DATABASE_URL", "QUEUE_URL", "BLOB_URL", "DEBUG", "CORS_ORIGINS"):
        assert sum(fault.startswith(f"DAIRA_{name}") for fault in found) == 1


def test_a_fault_says_what_to_do_and_shows_no_secret() -> None:
    found = settings_faults(settings(database_url="", blob_url="", queue_url="memory://", debug=True))
    assert all(len(fault) > 30 for fault in found)
    assert "s3cret" not in " ".join(found)


UNSAFE: dict[str, Any] = {**MEMORY, "debug": True, "cors_origins": ["*"]}


def test_people_get_the_whole_list_and_78(capsys: pytest.CaptureFixture[str]) -> None:
    unsafe = settings(**UNSAFE, log_format="text")
    with pytest.raises(SystemExit) as refused:
        refuse(settings_faults(unsafe), unsafe)
    assert refused.value.code == EXIT_REFUSED == 78
    printed = capsys.readouterr().err
    assert "5 fault(s)" in printed
    for fault in settings_faults(unsafe):
        assert f"  - {fault}\n" in printed


def test_a_log_gets_the_whole_list_as_one_event() -> None:
    unsafe = settings(**UNSAFE, log_format="json")
    with capture_logs() as logged, pytest.raises(SystemExit):
        refuse(settings_faults(unsafe), unsafe)
    assert [(line["event"], line["faults"]) for line in logged] == [("start_refused", settings_faults(unsafe))]


def test_without_a_fault_nothing_is_refused() -> None:
    refuse([], settings())


@pytest.mark.parametrize("role", Role)
def test_memory_stores_are_refused_with_all_faults_whatever_the_role(role: Role) -> None:
    assert len(settings_faults(settings(**UNSAFE, role=role))) == 5


def test_development_still_says_at_once_that_memory_stores_are_for_one_process() -> None:
    with pytest.raises(ValidationError, match="needs DAIRA_ROLE=all"):
        settings(**MEMORY, env=Environment.DEVELOPMENT, role="worker")


async def test_the_faults_of_the_database_are_named_together_with_those_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def faulty(_engine: object) -> list[str]:
        return ["the wall has a hole"]

    async def nothing(*_: object) -> list[str]:
        return []

    async def impossible(_engine: object) -> list[str]:
        raise LookupError("no such table")

    monkeypatch.setattr(guard, "CHECKS", {"wall": faulty, "schema": impossible})
    monkeypatch.setattr(guard, "_no_development_key", faulty)
    monkeypatch.setattr(guard, "_poolers", faulty)
    monkeypatch.setattr(guard, "_connections", nothing)
    found = await guard.faults(settings(debug=True))
    assert len(found) == 5
    assert found[0].startswith("DAIRA_DEBUG")
    assert found[1] == "the wall has a hole"
    assert found[3] == "schema: could not be checked (LookupError: no such table)"


async def test_a_database_that_can_not_be_asked_says_nothing_about_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(_: object) -> list[str]:
        raise Unavailable("the database can't be reached")

    monkeypatch.setattr(guard, "_poolers", away)
    with pytest.raises(Unavailable):
        await guard.faults(settings())
    found = await guard.faults(settings(debug=True))
    assert [fault.partition(" ")[0] for fault in found] == ["DAIRA_DEBUG=true", "poolers:"]


async def test_a_login_that_is_refused_is_one_fault_and_not_one_for_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> list[str]:
        raise Misconfigured("the database refuses this login: no such role")

    monkeypatch.setattr(guard, "_poolers", refused)
    monkeypatch.setattr(guard, "CHECKS", {"walled tables": refused, "grants": refused})
    monkeypatch.setattr(guard, "_no_development_key", refused)
    monkeypatch.setattr(guard, "_connections", refused)
    assert await guard.faults(settings()) == ["poolers: the database refuses this login: no such role"]


async def test_a_check_that_can_not_be_made_is_a_fault_on_one_line() -> None:
    async def away() -> list[str]:
        raise Unavailable("the database can't be reached")

    async def odd() -> list[str]:
        raise RuntimeError("two\nlines")

    assert await run_check("wall", away) == ["wall: the database can't be reached"]
    assert await run_check("wall", odd) == ["wall: could not be checked (RuntimeError: two lines)"]


async def test_a_database_that_is_none_is_not_asked() -> None:
    for nothing in (settings(database_url=""), settings(**MEMORY)):
        async with opened_checks(nothing) as checks:
            assert set(checks) == {"settings"}
    async with opened_checks(settings()) as checks:
        assert len(checks) > 5
