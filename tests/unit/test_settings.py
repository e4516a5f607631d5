"""Settings: each is read once and checked, and a mistyped one is an error."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.doorbells import Lane
from app.settings import Environment, Role, Settings, default_data_dir

MEMORY = {"DAIRA_DATABASE_URL": "memory://", "DAIRA_QUEUE_URL": "memory://"}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no .env of whoever runs the tests."""
    for name in [name for name in os.environ if name.upper().startswith("DAIRA_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def read(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Settings()


def faults(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    with pytest.raises(ValidationError) as refused:
        read(monkeypatch, **variables)
    return str(refused.value)


@pytest.mark.parametrize("name", ["DATABASE_URL", "MIGRATION_DATABASE_URL", "ADMIN_DATABASE_URL", "QUEUE_URL"])
@pytest.mark.parametrize("secret", ["se/cret", "se?cret", "se#cret", "se@cret"])
def test_a_password_that_is_not_percent_encoded_is_told_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, secret: str
) -> None:
    told = faults(monkeypatch, **{f"DAIRA_{name}": f"postgresql://daira_app:{secret}@host:5432/daira"})
    assert "special characters of a password are percent-encoded" in told
    assert "cret" not in told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://daira_app:se%2Fcret%23%40@host:5432/daira?ssl=require",
        "postgresql://daira_app@/daira?host=/run/postgresql",
        "postgresql:///daira?host=@abstract",
    ],
)
def test_other_urls_of_databases_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    assert read(monkeypatch, DAIRA_DATABASE_URL=url).database_url.get_secret_value() == url


def test_nothing_needs_to_be_set() -> None:
    settings = Settings()
    assert (settings.env, settings.role) == (Environment.DEVELOPMENT, Role.ALL)
    assert settings.embedded
    assert settings.data_dir == default_data_dir()
    assert settings.lanes == {Lane.OCR: 2, Lane.LLM: 16, Lane.WEBHOOK: 16}
    assert (settings.lease_seconds, settings.sweep_seconds, settings.grace_seconds) == (60, 30, 25)


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("ocr=2", {Lane.OCR: 2}),
        ("ocr=2,llm=16,webhook=16", {Lane.OCR: 2, Lane.LLM: 16, Lane.WEBHOOK: 16}),
        (" ocr = 4 , llm=1 ,", {Lane.OCR: 4, Lane.LLM: 1}),
        ("", {}),
    ],
)
def test_lanes_are_read_as_names_with_slots(monkeypatch: pytest.MonkeyPatch, text: str, lanes: dict[Lane, int]) -> None:
    assert read(monkeypatch, DAIRA_LANES=text).lanes == lanes


@pytest.mark.parametrize(
    "text", ["ocr", "ocr=", "=2", "ocr=two", "ocr=2=3", "ocr:2", "brew=2", "ocr=2;llm=1", "ocr=1.5", '{"ocr": 2}']
)
def test_lanes_of_another_form_are_refused_with_an_example(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert "ocr=2,llm=16" in faults(monkeypatch, DAIRA_LANES=text)


@pytest.mark.parametrize("slots", ["0", "-1"])
def test_a_lane_has_at_least_one_slot(monkeypatch: pytest.MonkeyPatch, slots: str) -> None:
    assert "1 to 1000 slots" in faults(monkeypatch, DAIRA_LANES=f"ocr={slots}")


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("DAIRA_DATABASE_URL", "postgresql://me:99999@db:65536/daira"),
        ("DAIRA_DATABASE_URL", "postgresql://one:5432,two:99999/daira"),
        ("DAIRA_QUEUE_URL", "redis://[::1]:99999999999999999999"),
        ("DAIRA_LLM_BASE_URL", "http://127.0.0.1:70000/v1"),
    ],
)
def test_a_port_that_none_can_have_is_a_fault(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    assert "a URL's port is at most 65535" in faults(monkeypatch, **{name: url})


def test_a_password_that_looks_like_a_port_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:99999@one:5432,two:65535/daira"
    assert read(monkeypatch, DAIRA_DATABASE_URL=url).database_url.get_secret_value() == url


@pytest.mark.parametrize("name", ["DAIRA_DATABSE_URL", "DAIRA_", "DAIRA_LEASE", "daira_nonsense", "Daira_Rolle"])
def test_an_unknown_variable_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text = faults(monkeypatch, **{name: "x"})
    assert name.upper() in text
    assert ".env.example" in text


def test_the_clients_own_variables_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, DAIRA_URL="http://daira.test", DAIRA_API_KEY="daira_acme_x").embedded


def test_a_shell_that_names_the_launchers_environment_may_start_what_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(monkeypatch, DAIRA_VENV="/opt/elsewhere").embedded


def test_names_are_known_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, daira_port="1234").port == 1234


def test_variables_of_other_programs_are_none_of_our_business(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, DAIRAX="1", XDAIRA_PORT="2", PORT="3").port == 8000


def test_a_file_of_settings_is_read_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DAIRA_PORT=1234\nDAIRA_HOST=example.test\n")
    settings = read(monkeypatch, DAIRA_PORT="5678")
    assert (settings.port, settings.host) == (5678, "example.test")


def test_an_unknown_setting_in_the_file_is_an_error_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DAIRA_PROT=1234\n")
    with pytest.raises(ValidationError, match="DAIRA_PROT"):
        Settings()


def test_the_clients_own_variables_may_stand_in_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DAIRA_URL=http://daira.test\nDAIRA_API_KEY=daira_acme_x\n")
    assert Settings().embedded


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DAIRA_ENV", "prod"),
        ("DAIRA_ROLE", "boss"),
        ("DAIRA_PORT", "70000"),
        ("DAIRA_PORT", "http"),
        ("DAIRA_POOL_SIZE", "0"),
        ("DAIRA_LEASE_SECONDS", "2"),
        ("DAIRA_SWEEP_SECONDS", "0"),
        ("DAIRA_GRACE_SECONDS", "-1"),
        ("DAIRA_MAX_UPLOAD_BYTES", "0"),
        ("DAIRA_MAX_PAGES", "0"),
        ("DAIRA_RETENTION_DAYS", "-1"),
        ("DAIRA_PURGE_SECONDS", "0"),
        ("DAIRA_OCR", "guess"),
        ("DAIRA_OCR_MEMORY_BYTES", "1"),
        ("DAIRA_LOG_LEVEL", "loud"),
        ("DAIRA_LOG_FORMAT", "xml"),
        ("DAIRA_DEBUG", "perhaps"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert name.removeprefix("DAIRA_").lower() in faults(monkeypatch, **{name: value})


def test_all_faulty_values_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = faults(monkeypatch, DAIRA_ENV="prod", DAIRA_PORT="http", DAIRA_LANES="brew=1")
    for name in ("env", "port", "lanes"):
        assert f"\n{name}\n" in text


def test_origins_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, DAIRA_CORS_ORIGINS="https://a.test, https://b.test,")
    assert settings.cors_origins == ["https://a.test", "https://b.test"]
    assert read(monkeypatch, DAIRA_CORS_ORIGINS="").cors_origins == []


def test_a_memory_store_needs_a_memory_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "DAIRA_QUEUE_URL=memory://" in faults(monkeypatch, DAIRA_DATABASE_URL="memory://")
    assert read(monkeypatch, **MEMORY).memory_store


@pytest.mark.parametrize("role", ["web", "worker"])
def test_a_memory_store_is_seen_by_one_process_alone(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    assert "DAIRA_ROLE=all" in faults(monkeypatch, DAIRA_ROLE=role, **MEMORY)


def test_a_memory_queue_may_ring_for_another_store(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, DAIRA_DATABASE_URL="postgresql://host/daira", DAIRA_QUEUE_URL="memory://")
    assert settings.memory_queue
    assert not settings.memory_store
    assert not settings.embedded


@pytest.mark.parametrize(
    "url", ["s3://daira", "s3://daira/", "s3://daira-documents/production", "s3://a.b-c/x/Y_z.1", "file:///srv/daira"]
)
def test_blobs_lie_in_a_bucket_or_in_a_folder(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    assert read(monkeypatch, DAIRA_BLOB_URL=url).blob_url == url


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3:daira",
        "s3://Daira",
        "s3://da",
        "s3://AKID:made-up-secret@daira",
        "s3://daira:9000/x",
        "s3://daira//x",
        "s3://daira/../x",
        "s3://daira/.",
        "s3://daira/x?region=eu",
        "s3://daira/x#y",
        "s3://daira/x y",
        "s3://daira/%2e%2e",
        "s3://daira/x\ny",
        "https://daira.s3.amazonaws.com",
        "file://daira",
        "file:daira",
    ],
)
def test_what_could_be_taken_for_another_place_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    message = faults(monkeypatch, DAIRA_BLOB_URL=url)
    assert "s3://" in message or "file:///an/absolute/path" in message


def test_documents_are_kept_for_ever_unless_a_retention_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().retention is None
    assert read(monkeypatch, DAIRA_RETENTION_DAYS="30").retention == timedelta(days=30)


def test_what_holds_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://user:s3cret@host/daira"
    names = ["DATABASE_URL", "MIGRATION_DATABASE_URL", "ADMIN_DATABASE_URL", "LISTEN_URL", "QUEUE_URL"]
    settings = read(monkeypatch, **{f"DAIRA_{name}": url for name in names})
    assert "s3cret" not in repr(settings) + str(settings) + str(settings.model_dump())
    assert settings.database_url.get_secret_value() == url


def test_settings_can_not_be_changed_after_they_were_read() -> None:
    settings: Any = Settings()
    with pytest.raises(ValidationError):
        settings.port = 1


def test_every_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_a_language_model_needs_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "DAIRA_LLM_MODEL" in faults(monkeypatch, DAIRA_LLM_BASE_URL="http://127.0.0.1:11434/v1")
    settings = read(monkeypatch, DAIRA_LLM_MODEL="small", DAIRA_LLM_API_KEY=" sk-1\n")
    assert (settings.llm_base_url, settings.llm_model) == ("http://127.0.0.1:11434/v1", "small")
    assert settings.llm_api_key.get_secret_value() == "sk-1"
    assert "sk-1" not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "llm.test/v1",
        "ftp://llm.test",
        "https://",
        "https:///v1",
        "https://me:s3cret@llm.test/v1",
        "https://x.test#a",
        "https://a b/v1",
    ],
)
def test_the_address_of_a_language_model_is_one(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    fault = faults(monkeypatch, DAIRA_LLM_BASE_URL=url, DAIRA_LLM_MODEL="small")
    assert "http" in fault


def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("s3crét", "s3cret\nHost: x"):
        fault = faults(monkeypatch, DAIRA_LLM_API_KEY=key)
        assert "printable ASCII" in fault
        assert "s3cr" not in fault


def test_a_fault_shows_nothing_of_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"DAIRA_DATABASE_URL": "postgresql://a:s3cret@db/daira", "DAIRA_LLM_API_KEY": "s3cret"}
    for wrong in ({"DAIRA_LLM_BASE_URL": "https://me:s3cret@llm.test/v1"}, {"DAIRA_OIDC_AUDIENCE": "daira"}):
        assert "s3cret" not in faults(monkeypatch, **secrets, **wrong)


def test_the_first_byte_comes_before_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = faults(monkeypatch, DAIRA_LLM_FIRST_BYTE_SECONDS="60", DAIRA_LLM_TOTAL_SECONDS="60")
    assert "DAIRA_LLM_FIRST_BYTE_SECONDS" in fault


def test_white_space_around_a_setting_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        monkeypatch, DAIRA_DATABASE_URL="\npostgresql://h/daira \n", DAIRA_ROLE=" web\n", DAIRA_HOST=" ::1 "
    )
    assert settings.database_url.get_secret_value() == "postgresql://h/daira"
    assert (settings.role, settings.host) == (Role.WEB, "::1")


def test_a_secret_may_be_given_as_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://h/daira\n")
    settings = read(monkeypatch, DAIRA_DATABASE_URL_FILE=str(tmp_path / "url"))
    assert settings.database_url.get_secret_value() == "postgresql://h/daira"
    assert "both set" in faults(monkeypatch, DAIRA_DATABASE_URL="postgresql://h/other")


def test_a_secrets_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = faults(monkeypatch, DAIRA_LLM_API_KEY_FILE="/nowhere/key")
    assert "DAIRA_LLM_API_KEY_FILE: /nowhere/key can't be read" in told
